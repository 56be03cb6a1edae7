"""A model without a language model: it reads questions by patterns and plans through the same decision contract."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from concertino import AssistantMessage, ModelRequest, Text, Tokens, UserMessage
from concertino.providers import ModelEvent, Reply, TextChunk

from .records import MOST_ROWS
from .vocabulary import Term, read

PATTERNS = (
    "How many flights [FILTERS]?",
    "What is the average | total | maximum | minimum COLUMN [FILTERS]?",
    "Average | total | maximum | minimum COLUMN, or number of flights, by COLUMN [FILTERS]",
    "Which COLUMN has the most | fewest flights, or the highest | lowest average | total COLUMN [FILTERS]?",
    "Top N COLUMN by number of flights, or by average | total | maximum | minimum COLUMN [FILTERS]",
    "Show the N flights with the highest | lowest COLUMN [FILTERS] [and mark them for review]",
)
"""The questions that it understands, in other words too. A filter is a month (`in February`), a day (`on May 4`), an
airport or its city (`from JFK`, `to Boston`), a carrier (`of UA`), a cancellation, or a condition on a column
(`with more than 300 seats`)."""
RANK = r"s(?:a?(?:#f?|Hf)|f|[as]?c)"
"""A superlative and its measure: `most flights`, `highest average delay`, `longest air time`."""
MEASURE = r"(?:a?(?:#f?|Hf)|af|[as]c)"
TEXTS = (
    *("carrier", "airline", "tailnum", "origin", "dest", "manufacturer", "plane_model", "plane_type", "engine"),
    *("dest_name", "dest_timezone"),
)
COUNTED = ("seats", "engines")
YEAR = 2013
LONGEST = 1_000
MINUTES = ("dep_delay", "arr_delay", "air_time")
NEW_YORK = ("EWR", "JFK", "LGA")


@dataclass
class Question:
    """The terms of a question, of which patterns take their parts; what is left over was not understood."""

    terms: list[Term]
    filters: list[dict[str, Any]] = field(default_factory=list)

    def take(self, pattern: str, column: Sequence[str] = ()) -> list[Term]:
        """Remove and return the first terms whose kinds match *pattern* and, if given, begin with one of *column*."""
        for found in re.finditer(pattern, "".join(term.kind for term in self.terms)):
            taken = self.terms[found.start() : found.end()]
            if not column or taken[0].value in column:
                del self.terms[found.start() : found.end()]
                return taken
        return []

    def filter(self, column: str, operator: str, value: Any) -> None:
        self.filters.append({"column": column, "operator": operator, "value": value})

    def refuse(self, terms: list[Term]) -> None:
        """Mark *terms* as not understood."""
        self.terms += [Term("?", None, term.text) for term in terms]

    @property
    def rest(self) -> str:
        """The words that no pattern has taken, unknown ones first, or a column with two values."""
        equal = [each["column"] for each in self.filters if each["operator"] in ("=", "in")]
        twice = [f"two values of {name}" for name in dict.fromkeys(equal) if equal.count(name) > 1]
        unknown = [term.text for term in self.terms if term.kind in "?vo"]
        return " ".join(unknown or [term.text for term in self.terms if term.kind not in "wfDA&"] or twice)


def plan(text: str) -> tuple[str, dict[str, Any], bool] | str:
    """Return the tool, its arguments, and whether to mark the result; or the part that was not understood."""
    if len(text) > LONGEST:
        return f"more than {LONGEST} characters"
    question = Question(read(text))
    marks = bool(question.take("M"))
    _times(question)
    _places(question)
    _conditions(question)
    while question.take("="):
        pass
    call = _shown(question) or _ranked(question) or _aggregate(question)
    if call is None or question.rest:
        return question.rest or text
    tool, arguments = call
    if marks and tool != "data.searchRecords":
        return "mark them: ask for flights to mark"
    return tool, {**arguments, "filters": question.filters}, marks


def _values(terms: list[Term], kind: str) -> list[Any]:
    return [term.value for term in terms if term.kind == kind]


def _number(terms: list[Term]) -> int:
    """Return the number of rows that *terms* ask for; without a number one, and ten of `top carriers`."""
    several = terms[0].kind == "t" and any(term.kind == "c" and term.text.lower().endswith("s") for term in terms)
    return int(min(next(iter(_values(terms, "n")), 10 if several else 1), MOST_ROWS))


def _counts(terms: list[Term]) -> bool:
    """Return whether the number among *terms*, if any, is one of rows."""
    return all(number >= 1 and number == int(number) for number in _values(terms, "n"))


def _is_average_of_flights(terms: list[Term]) -> bool:
    """Return whether *terms* ask for an average of counts, which takes two queries."""
    return _values(terms, "a") == ["average"] and not _values(terms, "c")


def _measure(terms: list[Term]) -> dict[str, Any]:
    """Return the measure of terms as in `MEASURE`: an aggregate and a column, or the number of flights."""
    columns = _values(terms, "c")
    if not columns:
        return {"measure": "count"}
    kinds = [*_values(terms, "a"), *("maximum" if up else "minimum" for up in _values(terms, "s"))]
    return {"measure": kinds[0], "column": columns[-1]}


def _ranked(question: Question) -> tuple[str, dict[str, Any]] | None:
    found = (
        question.take(rf"(?<!b)[wt]?n?c{RANK}")
        or question.take(rf"wn?c{MEASURE}s")
        or question.take(rf"tn?cb{MEASURE}")
    )
    if not found:
        return None
    first = next(index for index, term in enumerate(found) if term.kind == "c")
    measured = found[first + 1 :]
    directions = {*_values(found, "t"), *(_values(measured, "s")[:1] if measured[0].kind != "b" else ())}
    if len(directions) > 1 or not _counts(found) or _is_average_of_flights(measured):
        question.refuse(found)
        return None
    settings = {"group_by": found[first].value, "descending": directions.pop(), "limit": _number(found)}
    return "data.summarize", {**_measure(measured), **settings}


def _shown(question: Question) -> tuple[str, dict[str, Any]] | None:
    found = question.take("n?fsc") or question.take("tnfbc")
    if not found:
        return None
    if not _counts(found) or (not _values(found, "n") and found[0].text.lower() != "flight"):
        question.refuse(found)
        return None
    up = (_values(found, "t") or _values(found, "s"))[0]
    return "data.searchRecords", {"order_by": found[-1].value, "descending": up, "limit": _number(found)}


def _aggregate(question: Question) -> tuple[str, dict[str, Any]] | None:
    group = question.take("bc")
    found = question.take(MEASURE) or (question.take("^f") if group else [])
    if not found or _is_average_of_flights(found):
        question.refuse(found)
        question.terms += group
        return None
    call = _measure(found)
    return "data.summarize", {**call, "group_by": group[1].value} if group else call


def _times(question: Question) -> None:
    """Take months, days and cancellations."""
    while found := question.take("Bm&m|<m>m"):
        months = _values(found, "m")
        question.filter("month", ">=", months[0])
        question.filter("month", "<=", months[1])
    while found := question.take("(?<![btwn])c=?n", ("hour",)):  # "at hour 6 in May" names no day
        _compare(question, "hour", found)
    while found := question.take(r"(?:dm|md|(?<![otw])nm|mn(?![fcm])|m)"):
        question.filter("month", "=", _values(found, "m")[0])
        for number in _values(found, "d") + _values(found, "n"):
            if number == YEAR and found[-1].kind == "n":
                continue
            if number in range(1, 32):
                question.filter("day", "=", number)
            else:
                question.refuse(found)
    if question.take("x"):
        question.filter("dep_time", "missing", "")


def _places(question: Question) -> None:
    """Take airports and carriers."""
    while found := question.take("c=?p", ("origin", "dest")):
        _place(question, found[0].value, found)
    for pattern, name in ((r"[D<]+p(?:\|<?p)*", "origin"), (r"[A>]+p(?:\|>?p)*", "dest"), (r"(?<!o)p(?:\|p)*", "")):
        while found := question.take(pattern):
            _place(question, name, found)
    while found := question.take("c=?k", ("carrier", "airline")) or question.take(r"(?<!o)[=<b]?k(?:\|k)*"):
        codes = _values(found, "k")
        question.filter("carrier", *(("in", codes) if len(codes) > 1 else ("=", codes[0])))


def _place(question: Question, column: str, terms: list[Term]) -> None:
    """Add a filter by airport; all flights leave New York, so one elsewhere is the destination."""
    codes = [code for each in _values(terms, "p") for code in each]
    several = len(codes) > 1
    if not column and len({code in NEW_YORK for code in codes}) > 1:
        question.refuse(terms)
    column = column or ("origin" if codes[0] in NEW_YORK else "dest")
    question.filter(column, "in" if several else "=", list(codes) if several else codes[0])


def _conditions(question: Question) -> None:
    """Take conditions on columns."""
    while found := question.take("c?Bn&nu?"):
        names = _values(found, "c") or (["distance"] if found[-1].kind == "u" else [])
        if not names:
            question.refuse(found)
            return
        for operator, number in zip((">=", "<="), _values(found, "n"), strict=True):
            question.filter(names[0], operator, number)
    while found := question.take("[AD]onh?L"):
        _compare(question, "arr_delay" if found[0].kind == "A" else "dep_delay", found)
    while found := question.take("c=?on[hu]?|(?<![bt])c=?n(?!c)u?") or question.take("c=?o?[vkp]", TEXTS):
        _compare(question, found[0].value, found)
    while found := question.take("on[cu]"):
        _compare(question, found[-1].value or "distance", found)
    while (found := question.take("(?<![tw])nc(?![sb])")) and found[1].value in COUNTED:
        _compare(question, found[1].value, found)
    question.terms += found


def _compare(question: Question, column: str, terms: list[Term]) -> None:
    """Add the condition that *terms* put on *column*; hours count only where the column has minutes."""
    operators = _values(terms, "o")
    value = next(term.value for term in terms if term.kind in "nvkp")
    if any(term.kind == "h" for term in terms):
        if column not in MINUTES:
            question.refuse(terms)
            return
        value *= 60
    question.filter(
        column, operators[-1] if operators else "=", value[0] if isinstance(value, (list, tuple)) else value
    )


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
