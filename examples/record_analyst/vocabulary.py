"""The words of a question: each phrase that the rules know is a term with a kind, a letter that their patterns name."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .records import COLUMNS

SYNONYMS = {
    "dep_delay": "departure delay, delay on departure, delay at departure",
    "arr_delay": "arrival delay, delay on arrival, delay at arrival",
    "air_time": "flight time, time in the air",
    "dep_time": "departure time, actual departure time",
    "arr_time": "arrival time, actual arrival time",
    "sched_dep_time": "scheduled departure time, scheduled departure",
    "sched_arr_time": "scheduled arrival time, scheduled arrival",
    "hour": "hour of the day, scheduled hour, departure hour, scheduled departure hour, scheduled hour of the day",
    "minute": "scheduled minute",
    "day": "day of the month",
    "flight": "flight number",
    "dest": "destination, destination airport, arrival airport",
    "origin": "origin airport, departure airport, airport of origin",
    "airline": "airline name",
    "tailnum": "tail number",
    "manufacturer": "plane manufacturer, aircraft manufacturer, made by, manufactured by",
    "plane_model": "model, aircraft model, model of plane",
    "plane_year": "year of manufacture, manufacturing year, manufacture year, year built, built, built in",
    "plane_type": "type of plane, aircraft type, type of aircraft",
    "plane_speed": "cruising speed",
    "engine": "engine type, type of engine",
    "engines": "number of engines",
    "seats": "number of seats, seating capacity, seat count",
    "dest_name": "destination name, destination airport name, name of the destination",
    "dest_altitude": "altitude, destination altitude, altitude of the destination, elevation",
    "dest_latitude": "latitude, destination latitude",
    "dest_longitude": "longitude, destination longitude",
    "dest_timezone": "time zone, timezone, destination time zone, time zone of the destination",
    "dew_point": "dewpoint",
    "wind_speed": "wind",
    "wind_gust": "gust, gust speed, wind gust speed, gust of wind",
    "precipitation": "rain, rainfall, amount of rain",
    "pressure": "air pressure, sea level pressure",
}
UP = "most highest longest largest greatest biggest maximum max"
DOWN = "fewest least lowest shortest smallest minimum min"
OPERATORS = {
    ">": "above, over, more than, greater than, exceeding, longer than, higher than, larger than, bigger than, after",
    "<": "below, under, less than, fewer than, shorter than, lower than, smaller than, before",
    ">=": "at least, no less than, since",
    "<=": "at most, no more than, up to",
    "<>": "not, is not, was not, other than",
    "=": "exactly, equal to, equals, =",
}
UNITS = {"u": "distance", "h": "hour"}
"""The columns of units that do not follow a number."""
MONTHS = re.findall(r"\w+", "january february march april may june july august september october november december")
NUMBERS = re.findall(r"\w+", "one two three four five six seven eight nine ten eleven twelve")
CARRIERS = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}
CITIES = {
    "ABQ": "Albuquerque",
    "ACK": "Nantucket",
    "ALB": "Albany",
    "ANC": "Anchorage",
    "ATL": "Atlanta",
    "AUS": "Austin",
    "AVL": "Asheville",
    "BDL": "Hartford",
    "BGR": "Bangor",
    "BHM": "Birmingham",
    "BNA": "Nashville",
    "BOS": "Boston",
    "BQN": "Aguadilla",
    "BTV": "Burlington",
    "BUF": "Buffalo",
    "BUR": "Burbank",
    "BWI": "Baltimore",
    "BZN": "Bozeman",
    "CAE": "Columbia",
    "CAK": "Akron",
    "CHO": "Charlottesville",
    "CHS": "Charleston",
    "CLE": "Cleveland",
    "CLT": "Charlotte",
    "CMH": "Columbus",
    "CVG": "Cincinnati",
    "DAY": "Dayton",
    "DCA": "Reagan",
    "DEN": "Denver",
    "DFW": "Dallas",
    "DSM": "Des Moines",
    "DTW": "Detroit",
    "EWR": "Newark",
    "FLL": "Fort Lauderdale",
    "GRR": "Grand Rapids",
    "GSO": "Greensboro",
    "GSP": "Greenville",
    "HDN": "Hayden",
    "HNL": "Honolulu",
    "HOU": "Hobby",
    "IAD": "Dulles",
    "ILM": "Wilmington",
    "IND": "Indianapolis",
    "JAC": "Jackson Hole",
    "JAX": "Jacksonville",
    "JFK": "Kennedy",
    "LAS": "Las Vegas",
    "LAX": "Los Angeles",
    "LGA": "LaGuardia",
    "LGB": "Long Beach",
    "MCI": "Kansas City",
    "MCO": "Orlando",
    "MDW": "Midway",
    "MEM": "Memphis",
    "MHT": "Manchester",
    "MIA": "Miami",
    "MKE": "Milwaukee",
    "MSN": "Madison",
    "MSP": "Minneapolis",
    "MSY": "New Orleans",
    "MTJ": "Montrose",
    "MVY": "Martha's Vineyard",
    "MYR": "Myrtle Beach",
    "OAK": "Oakland",
    "OKC": "Oklahoma City",
    "OMA": "Omaha",
    "ORD": "O'Hare",
    "ORF": "Norfolk",
    "PBI": "West Palm Beach",
    "PDX": "Portland, Oregon",
    "PHL": "Philadelphia",
    "PHX": "Phoenix",
    "PIT": "Pittsburgh",
    "PSE": "Ponce",
    "PSP": "Palm Springs",
    "PVD": "Providence",
    "PWM": "Portland, Maine",
    "RDU": "Raleigh",
    "RIC": "Richmond",
    "ROC": "Rochester",
    "RSW": "Fort Myers",
    "SAN": "San Diego",
    "SAT": "San Antonio",
    "SAV": "Savannah",
    "SEA": "Seattle",
    "SFO": "San Francisco",
    "SJC": "San Jose",
    "SJU": "San Juan",
    "SLC": "Salt Lake City",
    "SMF": "Sacramento",
    "SNA": "Santa Ana",
    "SRQ": "Sarasota",
    "STL": "St. Louis",
    "STT": "St. Thomas",
    "SYR": "Syracuse",
    "TPA": "Tampa",
    "TUL": "Tulsa",
    "TVC": "Traverse City",
    "TYS": "Knoxville",
    "XNA": "Fayetteville",
}
SEVERAL = {"Chicago": ("ORD", "MDW"), "Houston": ("IAH", "HOU"), "Washington": ("IAD", "DCA")}
"""Cities with more than one of the airports."""
CLOCK = r"(?= (?:before|after) (?!2013)\d{3,4}\b)"
REWRITTEN: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"1?\d(?::[0-5]\d)? ?[ap]\.?m": lambda found: clock_time(found[0]),
    rf"(?:departed|departing|left|leaving|took off){CLOCK}": "departure time",
    rf"(?:arrived|arriving|landed|landing){CLOCK}": "arrival time",
    r"scheduled to (?:depart|leave|take off)": "scheduled departure time",
    r"scheduled to (?:arrive|land)": "scheduled arrival time",
    r"(?<=\d)-engined?": " engines",
    r"(?<=\d)-seat(?:er)?": " seats",
    r"worst(?= \w+ delay)": "highest",
    "cancell?ations?": "cancelled flights",
    "altitude of (the )?destinations": "altitude",
}
IGNORED = (
    "i, we, you, who, can, could, would, want, want to know, need, like to know, to see, please, calculate, "
    "compute, count up, display, rank, name, get, return, report, identify, determine, print, provide, look up, "
    "work out, find out, the, a, an, any, every, there, how much, were, did, do, does, has, have, had, been, be, "
    "all, show, list, give, find, tell, me, us, in, with, their, its, that, where, whose, when, for, on, onto, "
    "at, our, overall, during, made, make, recorded, record, logged, log, flown, flew, fly, covered, cover, "
    "spent, spend, operated, operate, ran, run, went, go, going, headed, heading, travel, travelled, traveled, "
    "traveling, per flight, had been, scheduled for, see, saw, seen, use, used, using, carry, carried, "
    "experience, experienced, happen, happened, occur, occurred, taken, take, operated by, operated with, flown "
    "by, flown with, used by, made by the, minutes, minute's, degrees, feet, mph, miles per hour, inches, in "
    "2013, of 2013, during 2013, of each flight, only, it, to destinations"
)


@dataclass(frozen=True)
class Term:
    """A phrase of a question.

    Kinds: `c` column, `a` average or total, `s` superlative, `#` count, `H` how many, `f` flights, `w` which, `t`
    top, `b` by, `o` operator, `=` is, `n` number, `d` day of a month, `m` month, `p` airport, `k` carrier, `v`
    other value, `<` from, `>` to, `D` departed, `A` arrived, `L` late, `u` miles, `h` hours, `N` plane or airport,
    `B` between, `&` and, `|` or, `x` cancelled, `M` mark, `?` unknown.
    """

    kind: str
    value: Any
    text: str


def clock_time(text: str) -> str:
    """Return a time of the day as the records have it: 2130 for `9:30 pm`."""
    hour, minutes = (int(each) for each in [*re.findall(r"\d+", text), 0][:2])
    return str((hour % 12 + 12 * ("p" in text.lower())) * 100 + minutes)


def plural(phrase: str) -> str:
    return f"{phrase[:-1]}ies" if phrase.endswith("y") and not phrase.endswith("ay") else f"{phrase}s"


def vocabulary() -> Iterator[tuple[str, str, Any]]:
    """Yield each phrase with its kind and its value."""
    for name in COLUMNS:
        for phrase in [name.replace("_", " "), *filter(None, SYNONYMS.get(name, "").split(", "))]:
            if phrase != "flight":
                yield from ((each, "c", name) for each in (phrase, plural(phrase)))
    for words, up in ((UP, True), (DOWN, False)):
        yield from ((word, "s", up) for word in words.split())
    for operator, phrases in OPERATORS.items():
        yield from ((phrase, "o", operator) for phrase in phrases.split(", "))
    for index, month in enumerate(MONTHS, 1):
        yield from ((phrase, "m", index) for phrase in (month, f"month of {month}"))
    yield from ((word, "n", index) for index, word in enumerate(NUMBERS, 1))
    for city, codes in [*((city, [code]) for code, city in CITIES.items()), *SEVERAL.items()]:
        yield from ((each.lower(), "p", codes) for each in (city, f"{city} airport"))
    for code, name in CARRIERS.items():
        ends = ("", " airlines", " airways", " air lines", f" ({code})".lower())
        yield from ((f"{name}{end}".lower(), "k", code) for end in ends)
    for kind, value, phrases in (
        ("a", "average", "average, mean, avg"),
        ("a", "sum", "total, sum of, sum of the, combined"),
        ("#", None, "count, flight count, count of"),
        ("H", None, "how many, how many of the, number of"),
        ("=", "=", "is, are, was, of"),
        ("f", None, "flight, flights, departures"),
        ("w", None, "which, what, what is, what's, what are, what was, what were, which is, which are"),
        ("t", True, "top"),
        ("t", False, "bottom"),
        ("b", None, "by, per, for each, for every, each, in each, in terms of, ranked by, grouped by, broken down by"),
        ("<", None, "from, out of"),
        (">", None, "to, into, bound for"),
        ("D", None, "departed, departing, depart, left, leaving, leave, took off, taking off, take off"),
        ("A", None, "arrived, arriving, arrive, landed, landing, land"),
        ("L", None, "late"),
        ("u", None, "miles, mile"),
        ("h", None, "hours"),
        ("B", None, "between"),
        ("&", None, "and"),
        ("|", None, "or"),
        ("x", None, "cancelled, canceled, were cancelled, were canceled, was cancelled, was canceled"),
        ("N", "tailnum", "plane, planes, aircraft"),
        ("N", None, "airport, airports"),
        ("M", None, "mark them, mark them for review, mark these for review, mark these flights for review"),
    ):
        yield from ((phrase, kind, value) for phrase in phrases.split(", "))
    yield from ((phrase, "", None) for phrase in IGNORED.split(", "))


KNOWN = {phrase: (kind, value) for phrase, kind, value in vocabulary()}
PHRASES = "|".join(re.escape(phrase) for phrase in sorted(KNOWN, key=len, reverse=True))
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?![\w-])"
TERM = re.compile(
    rf"(?<![\w.])(?:(?P<quoted>'[^']+'|\"[^\"]+\")|(?P<day>\d+(?:st|nd|rd|th)(?: of)?)|(?P<number>{NUMBER})"
    rf"|(?-i:(?P<carrier>{'|'.join(CARRIERS)})(?![\w-]))|(?-i:(?P<airport>[A-Z]{{3}})(?![\w-]))|(?P<known>{PHRASES})(?![\w-])"
    r"|(?-i:(?P<name>[A-Z0-9][\w./-]*(?: [A-Z][\w./-]*)*))|(?P<other>[\w.-]+))",
    re.IGNORECASE,
)


def read(question: str) -> list[Term]:
    """Return the terms of a question, without the words that say nothing about the query."""
    plain = re.sub(r"(?<=\w)['\u2019]s(?= )", "", question.strip().rstrip("?.! "))
    for pattern, words in REWRITTEN.items():
        plain = re.sub(rf"\b{pattern}\b", words, plain, flags=re.IGNORECASE)
    terms: list[Term] = []
    for found in TERM.finditer(f"{plain} "):
        term = _term(found)
        before = terms[-1].kind if terms else ""
        if term.kind in UNITS and (before != "n" or (len(terms) > 1 and terms[-2].kind in ("t", "w"))):
            term = Term("c", UNITS[term.kind], term.text)
        elif term.kind == "N" and before in ("H", "w", "t", "n"):
            term = Term("c" if term.value and before != "H" else "?", term.value, term.text)
        elif term.kind == "N":
            del terms[len(terms) - (before == ">") :]  # "to airports with"
            continue
        if term.kind:
            terms.append(term)
    return terms


def _term(found: re.Match[str]) -> Term:
    text = found[0].strip()
    if found["known"]:
        kind, value = KNOWN[text.lower()]
        return Term(kind, value, text)
    if found["number"]:
        return Term("n", float(text.replace(",", "")), text)
    if found["day"]:
        return Term("d", int(re.sub(r"\D", "", text)), text)
    if found["carrier"]:
        return Term("k", text, text)
    if found["airport"]:
        return Term("p", [text], text)
    return Term("?", None, text) if found["other"] else Term("v", text.strip("'\""), text)
