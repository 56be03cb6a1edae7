"""Twenty questions to the record analyst, with the SQL of their answers: the tenant, the question, the rows."""

from __future__ import annotations

PLANES = "JOIN planes AS p ON p.tenant = f.tenant AND p.tailnum = f.tailnum"
WEATHER = "JOIN weather AS w ON w.origin = f.origin AND w.time_hour = f.time_hour"
AIRLINES = "JOIN airlines AS a ON a.tenant = f.tenant AND a.carrier = f.carrier"
GOLD = [
    ("How many flights left JFK in February?", "", "count(*)", "f.origin = 'JFK' AND f.month = 2", ""),
    ("How many flights of UA were cancelled?", "", "count(*)", "f.carrier = 'UA' AND f.dep_time IS NULL", ""),
    (
        "What is the average arrival delay of flights from EWR to SFO?",
        "",
        "avg(f.arr_delay)",
        "f.origin = 'EWR' AND f.dest = 'SFO'",
        "",
    ),
    ("What is the total distance of flights in December?", "", "sum(f.distance)", "f.month = 12", ""),
    ("What is the maximum distance of flights with seats above 300?", PLANES, "max(f.distance)", "p.seats > 300", ""),
    ("How many flights with wind speed above 30?", WEATHER, "count(*)", "w.wind_speed > 30", ""),
    (
        "How many flights with manufacturer BOEING from LGA?",
        PLANES,
        "count(*)",
        "p.manufacturer = 'BOEING' AND f.origin = 'LGA'",
        "",
    ),
    (
        "How many flights at hour 5 with departure delay at least 60?",
        "",
        "count(*)",
        "f.hour = 5 AND f.dep_delay >= 60",
        "",
    ),
    ("What is the minimum visibility of flights from JFK?", WEATHER, "min(w.visib)", "f.origin = 'JFK'", ""),
    ("Which carrier has the most flights?", "", "f.carrier, count(*)", "1", "GROUP BY 1 ORDER BY 2 DESC LIMIT 1"),
    (
        "Which carrier has the highest average departure delay in February?",
        "",
        "f.carrier, avg(f.dep_delay)",
        "f.month = 2",
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
    ),
    (
        "Which destination has the lowest average arrival delay?",
        "",
        "f.dest, avg(f.arr_delay)",
        "f.arr_delay IS NOT NULL",
        "GROUP BY 1 ORDER BY 2 LIMIT 1",
    ),
    (
        "Top 5 destinations by number of flights in July",
        "",
        "f.dest, count(*)",
        "f.month = 7",
        "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
    ),
    (
        "Top 3 manufacturers by average departure delay",
        PLANES,
        "p.manufacturer, avg(f.dep_delay)",
        "f.dep_delay IS NOT NULL AND p.manufacturer IS NOT NULL",
        "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
    ),
    (
        "Average departure delay by airline",
        AIRLINES,
        "a.name, avg(f.dep_delay)",
        "1",
        "GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    (
        "Average air time by engine type in March",
        PLANES,
        "p.engine, avg(f.air_time)",
        "f.month = 3 AND p.engine IS NOT NULL AND f.air_time IS NOT NULL",
        "GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    ("Total distance by origin in May", "", "f.origin, sum(f.distance)", "f.month = 5", "GROUP BY 1 ORDER BY 2 DESC"),
    (
        "How many flights per month with plane year below 1980?",
        PLANES,
        "f.month, count(*)",
        "p.year < 1980",
        "GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    (
        "Show the 5 flights with the highest arrival delay in July",
        "",
        "f.id, f.carrier, f.flight, f.month, f.day, f.origin, f.dest, f.arr_delay",
        "f.month = 7 AND f.arr_delay IS NOT NULL",
        "ORDER BY f.arr_delay DESC, f.id LIMIT 5",
    ),
    (
        "Show the 3 flights with the lowest air time from LGA",
        "",
        "f.id, f.carrier, f.flight, f.month, f.day, f.origin, f.dest, f.air_time",
        "f.origin = 'LGA' AND f.air_time IS NOT NULL",
        "ORDER BY f.air_time, f.id LIMIT 3",
    ),
]
REFUSED = [
    "How happy were the passengers?",
    "Average ticket price by carrier",
    "How many flights did not leave JFK?",
    "How many flights from JFK or to Boston?",
    "Delete all flights of UA",
]


def gold(join: str, select: str, where: str, rest: str) -> str:
    """Return the SQL of an answer."""
    return f"SELECT {select} FROM flights AS f {join} WHERE f.tenant = ? AND {where} {rest}"
