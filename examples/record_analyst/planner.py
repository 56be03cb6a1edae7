"""A model without a language model: it reads questions by patterns and plans through the same decision contract."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from concertino import AssistantMessage, ModelRequest, Text, Tokens, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk

from .records import COLUMNS, MOST_ROWS, TENANTS

PATTERNS = (
    "How many flights [FILTERS]?",
    "What is the average | total | maximum | minimum COLUMN [FILTERS]?",
    "Average | total | maximum | minimum COLUMN, or number of flights, by COLUMN [FILTERS]",
    "Which COLUMN has the most | fewest flights, or the highest | lowest average | total COLUMN [FILTERS]?",
    "Top N COLUMN by number of flights, or by average | total | maximum | minimum COLUMN [FILTERS]",
    "Show the N flights with the highest | lowest COLUMN [FILTERS] [and mark them for review]",
)
"""The questions that it understands. A filter is a month (`in February`), an airport (`from JFK`, `to LAX`), a carrier
(`of UA`), `that were cancelled`, or a condition (`with distance above 1000`, `where engines is 4`)."""
WORDS = {
    "departure delay": "dep_delay",
    "delay on departure": "dep_delay",
    "arrival delay": "arr_delay",
    "delay on arrival": "arr_delay",
    "flight time": "air_time",
    "flight number": "flight",
    "departure time": "dep_time",
    "arrival time": "arr_time",
    "destination name": "dest_name",
    "destination airport name": "dest_name",
    "destination altitude": "dest_altitude",
    "destination airport": "dest",
    "destination": "dest",
    "origin airport": "origin",
    "departure airport": "origin",
    "airline name": "airline",
    "tail number": "tailnum",
    "model": "plane_model",
    "year of manufacture": "plane_year",
    "type of plane": "plane_type",
    "engine type": "engine",
    "number of engines": "engines",
    "number of seats": "seats",
    "wind": "wind_speed",
}
WORDS |= {name.replace("_", " "): name for name in COLUMNS}
MONTHS = re.findall(r"\w+", "january february march april may june july august september october november december")
CARRIERS = {carrier for carriers in TENANTS.values() for carrier in carriers}
PHRASES = sorted(WORDS, key=len, reverse=True)
PLURALS = {phrase: f"{phrase[:-1]}ies" if phrase.endswith("y") else f"{phrase}s" for phrase in PHRASES}
COLUMN = "(" + "|".join(f"{re.escape(PLURALS[each])}|{re.escape(each)}" for each in PHRASES) + ")"
SINGULAR = {plural: phrase for phrase, plural in PLURALS.items()}
AGGREGATES = {
    "average": "average",
    "mean": "average",
    "total": "sum",
    "maximum": "maximum",
    "minimum": "minimum",
    **dict.fromkeys(("highest", "longest", "largest"), "maximum"),
    **dict.fromkeys(("lowest", "shortest", "smallest"), "minimum"),
}
AGGREGATE = f"({'|'.join(AGGREGATES)})"
OPERATORS = {
    **dict.fromkeys(("above", "over", "more than", "greater than", "exceeding", "longer than", "higher than"), ">"),
    **dict.fromkeys(("below", "under", "less than", "fewer than", "shorter than", "lower than"), "<"),
    "at least": ">=",
    "at most": "<=",
    "not": "<>",
    **dict.fromkeys(("exactly", "equal to", "of", "is", "are", "=", ""), "="),
}
OPERATOR = "(" + "|".join(sorted(filter(None, OPERATORS), key=len, reverse=True)) + ")"
IGNORED = set(
    re.findall(
        r"[\w']+",
        "what what's is the a an of are there were was all flights flight show list give me and in with their did "
        "where that which whose please do had have has for minutes miles degrees made by number how many",
    )
)
NUMBERS = {"one": 1, "two": 2, "three": 3, "five": 5, "ten": 10, "twenty": 20}


@dataclass
class Question:
    """A question, of which patterns take their parts; what is left over was not understood."""

    left: str
    filters: list[dict[str, Any]] = field(default_factory=list)

    def take(self, pattern: str) -> re.Match[str] | None:
        """Remove the first match of *pattern* and return it."""
        found = re.search(rf"(?<![\w.]){pattern}(?![\w])", self.left, re.IGNORECASE)
        if found is not None:
            self.left = f"{self.left[: found.start()]} | {self.left[found.end() :]}"
        return found

    def filter(self, column: str, operator: str, value: Any) -> None:
        self.filters.append({"column": column, "operator": operator, "value": value})

    @property
    def rest(self) -> list[str]:
        """The words that no pattern has taken."""
        return [word for word in re.findall(r"[\w'.-]+", self.left) if word.lower().strip("'.") not in IGNORED]


def column(phrase: str) -> str:
    """Return the column that a phrase names."""
    phrase = phrase.lower()
    return WORDS[phrase if phrase in WORDS else SINGULAR[phrase]]


def plan(text: str) -> tuple[str, dict[str, Any], bool] | str:
    """Return the tool, its arguments, and whether to mark the result; or the part that was not understood."""
    question = Question(text.strip().rstrip("?.!"))
    marks = question.take(r"(and )?(then )?mark (them|these|those)( flights)?( for review)?") is not None
    call = _ranked(question) or _shown(question)
    _filters(question)
    call = call or _grouped(question)
    if call is None or question.rest:
        return " ".join(question.rest) or text
    tool, arguments = call
    if marks and tool != "data.searchRecords":
        return "mark them: ask for flights to mark"
    return tool, {**arguments, "filters": question.filters}, marks


def _measure(found: re.Match[str], first: int) -> dict[str, Any]:
    """Return the measure that the groups from *first* on name: an aggregate and a column, or neither for a count."""
    if found[first] is None:
        return {"measure": "count"}
    return {"measure": AGGREGATES[found[first].lower()], "column": column(found[first + 1])}


def _ranked(question: Question) -> tuple[str, dict[str, Any]] | None:
    most = rf"which {COLUMN} (?:has|have|had|made) (?:the )?(?:(most|fewest) flights|(highest|lowest|longest|shortest) "
    found = question.take(rf"{most}{AGGREGATE} {COLUMN})")
    if found is not None:
        up = (found[2] or found[3]).lower() in ("most", "highest", "longest")
        return "data.summarize", {**_measure(found, 4), "group_by": column(found[1]), "descending": up, "limit": 1}
    count = "(\\d+|" + "|".join(NUMBERS) + ")"
    found = question.take(rf"(top|bottom) {count} {COLUMN} by (?:(?:the )?number of flights|{AGGREGATE} {COLUMN})")
    if found is not None:
        settings = {"descending": found[1].lower() == "top", "limit": min(_number(found[2]), MOST_ROWS)}
        return "data.summarize", {**_measure(found, 4), "group_by": column(found[3]), **settings}
    return None


def _shown(question: Question) -> tuple[str, dict[str, Any]] | None:
    count = "(\\d+|" + "|".join(NUMBERS) + ")"
    most = r"(highest|lowest|longest|shortest|largest|smallest|maximum|minimum)"
    found = question.take(rf"{count} flights with (?:the )?{most} {COLUMN}")
    if found is None:
        return None
    up = found[2].lower() in ("highest", "longest", "largest", "maximum")
    settings = {"order_by": column(found[3]), "descending": up, "limit": min(_number(found[1]), MOST_ROWS)}
    return "data.searchRecords", settings


def _grouped(question: Question) -> tuple[str, dict[str, Any]] | None:
    found = question.take(rf"{AGGREGATE} {COLUMN}")
    call = None if found is None else _measure(found, 1)
    if call is None and (question.take("how many flights") or question.take("(?:number|count) of flights")):
        call = {"measure": "count"}
    group = question.take(rf"(?:by|per|for each|for every) {COLUMN}")
    if call is None:
        return None
    return "data.summarize", call if group is None else {**call, "group_by": column(group[1])}


def _filters(question: Question) -> None:
    for index, month in enumerate(MONTHS, 1):
        if question.take(rf"(?:in|of|during) {month}"):
            question.filter("month", "=", index)
    if question.take(r"(that |which )?(were |was )?cancell?ed"):
        question.filter("dep_time", "missing", "")
    if found := question.take(r"(?:left|leaving|departing|from) (?-i:([A-Z]{3}))"):
        question.filter("origin", "=", found[1])
    if found := question.take(r"to (?-i:([A-Z]{3}))"):
        question.filter("dest", "=", found[1])
    if found := question.take(rf"(?:of |by |with |for )?(?:carrier )?(?-i:({'|'.join(sorted(CARRIERS))}))"):
        question.filter("carrier", "=", found[1])
    value = r"(-?\d+(?:\.\d+)?(?![\w/-])|'[^']+'|\"[^\"]+\"|(?-i:[A-Z0-9][\w/-]*(?: [A-Z][\w/-]*)*))"
    lead = r"(?:with|where|whose|and|at|on|in)?\s*(?:an? |the )?"
    while found := question.take(rf"{lead}{COLUMN} (?:is |was |of )?{OPERATOR}?\s*{value}"):
        text = found[3].strip("'\"")
        is_number = re.fullmatch(r"-?\d+(\.\d+)?", text) is not None
        operator = OPERATORS[(found[2] or "").lower()]
        question.filter(column(found[1]), operator, float(text) if is_number else text)


def _number(text: str) -> int:
    return NUMBERS.get(text.lower()) or int(text)


class RulesModel:
    """A `Model` for the record analyst. It refuses what its patterns do not cover."""

    provider, name = "rules", "record-analyst"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer with a decision; with no tools for any other question."""
        text = json.dumps(decide(request), ensure_ascii=False) if request.output_schema is not None else "[]"
        yield TextChunk(text)
        tokens = Tokens(prompt=len(repr(request.messages)) // 4, completion=len(text) // 4)
        yield Reply(AssistantMessage((Text(text),), "end", self.name), tokens)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def decide(request: ModelRequest) -> dict[str, Any]:
    """Return the decision that follows from the newest question and the results since."""
    asked = ""
    results: list[str] = []
    for message in request.messages:
        if isinstance(message, UserMessage) and message.tool is None:
            asked, results = message.text, []
        elif isinstance(message, UserMessage):
            results.append(message.text.partition("\n")[2])
    found = plan(asked)
    if isinstance(found, str):
        known = "\n".join(f"- {pattern}" for pattern in PATTERNS)
        return respond(f"I cannot answer this: I do not understand {found!r}. I answer questions such as\n{known}")
    tool, arguments, marks = found
    if not results:
        return call(tool, arguments, "criteria", json.dumps(arguments["filters"]))
    rows = parsed(results[0])
    if rows is None:
        return respond(f"The query failed: {results[0]}")
    if marks and rows and len(results) == 1:
        return call(
            "data.markForReview", {"ids": [row[0] for row in rows], "note": asked}, "plan", "mark the result", "medium"
        )
    lines = [" · ".join(map(str, row)) for row in rows]
    answer = "\n".join(f"- {line}" for line in lines) if lines else "No flight matches."
    if len(rows) == MOST_ROWS:
        answer += f"\n\nThese are the first {MOST_ROWS}; there may be more."
    if tool == "data.summarize" and "group_by" not in arguments:
        answer = str(rows[0][1]) if rows and rows[0][1] is not None else "No flight matches."
    return respond("\n\n".join([answer, *results[1:]]))


def parsed(text: str) -> list[list[Any]] | None:
    """Return the rows of a result; None for an error."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def call(tool: str, arguments: dict[str, Any], section: str, text: str, confidence: str = "low") -> dict[str, Any]:
    return {
        "thinking": "The question matches a pattern.",
        "tool_calls": [{"tool": tool, "params": arguments}],
        "should_respond": False,
        "confidence": confidence,
        "document_updates": {section: text},
    }


def respond(text: str) -> dict[str, Any]:
    return {
        "thinking": "",
        "tool_calls": [],
        "should_respond": True,
        "response": text,
        "confidence": "high",
        "document_updates": {"results": text[:500]},
    }
