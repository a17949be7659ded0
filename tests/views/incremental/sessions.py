"""Queries by session_window, each with what DuckDB has to be told to say the same."""

from __future__ import annotations

_AT = "timestamp_seconds(id * 60)"

SESSIONS = {
    "sessions of a group": (
        f"SELECT g, session_window({_AT}, '1 minute') AS w, count(*) AS n, min(x) AS lo FROM a "
        f"GROUP BY g, session_window({_AT}, '1 minute')"
    ),
    "sessions of all rows": (
        f"SELECT session_window({_AT}, '2 minutes').start AS f, sum(id) AS t FROM a WHERE g > 0 "
        f"GROUP BY session_window({_AT}, '2 minutes')"
    ),
    "sessions with NULL": (
        "SELECT session_window(d, '80 days') AS w, max(id1) AS m, count(d) AS n FROM c "
        "GROUP BY session_window(d, '80 days'), coalesce(g, 0) % 2"
    ),
    "sessions of a join": (
        "SELECT a.s, count(DISTINCT b.y) AS n FROM a JOIN b ON b.aid = a.id "
        "GROUP BY a.s, session_window(timestamp_seconds(b.id * 60), '90 seconds') HAVING count(*) > 1"
    ),
}


def _numbered(rows: str, at: str, gap: str, by: str, key: str) -> str:
    """The rows with the number of their session among those of a group."""
    before = f"lag({at}) OVER (PARTITION BY {by} ORDER BY {at}, {key})"
    begins = f"CASE WHEN {before} IS NULL OR {at} > {before} + INTERVAL '{gap}' THEN 1 ELSE 0 END"
    numbers = f"sum(begins) OVER (PARTITION BY {by} ORDER BY {at}, {key} ROWS UNBOUNDED PRECEDING)"
    return f"(SELECT *, {numbers} AS number FROM (SELECT *, {begins} AS begins FROM {rows}))"


_TIMED = f"(SELECT *, {_AT} AS ts FROM a)"
_SOME = f"(SELECT * FROM {_TIMED} WHERE g > 0)"
_KNOWN = "(SELECT *, coalesce(g, 0) % 2 AS h FROM c WHERE d IS NOT NULL)"
_JOINED = "(SELECT a.s, b.y, b.id, timestamp_seconds(b.id * 60) AS ts FROM a JOIN b ON b.aid = a.id)"

SESSIONS_IN_DUCKDB = {
    "sessions of a group": (
        "SELECT g, {'start': min(ts), 'end': max(ts) + INTERVAL '1 minute'} AS w, count(*) AS n, min(x) AS lo "
        f"FROM {_numbered(_TIMED, 'ts', '1 minute', 'g', 'id')} GROUP BY g, number"
    ),
    "sessions of all rows": (
        f"SELECT min(ts) AS f, sum(id) AS t FROM {_numbered(_SOME, 'ts', '2 minutes', '1', 'id')} GROUP BY number"
    ),
    "sessions with NULL": (
        "SELECT {'start': min(d), 'end': max(d) + INTERVAL '80 days'} AS w, max(id1) AS m, count(d) AS n "
        f"FROM {_numbered(_KNOWN, 'd', '80 days', 'h', 'id1, id2')} GROUP BY h, number"
    ),
    "sessions of a join": (
        f"SELECT s, count(DISTINCT y) AS n FROM {_numbered(_JOINED, 'ts', '90 seconds', 's', 'id')} "
        "GROUP BY s, number HAVING count(*) > 1"
    ),
}
