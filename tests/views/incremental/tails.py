"""Windows without PARTITION BY that are computed from the first changed row on."""

from __future__ import annotations

import random

TAILS = {
    "numbers of all rows": "SELECT id, x, row_number() OVER (ORDER BY x DESC, id) AS n FROM a",
    "ranks of all rows": "SELECT id, rank() OVER (ORDER BY s) AS r, dense_rank() OVER (ORDER BY s) AS d FROM a",
    "ranks by two columns": (
        "SELECT id, rank() OVER (ORDER BY g NULLS LAST, s DESC NULLS FIRST) AS r, "
        "dense_rank() OVER (ORDER BY g NULLS LAST, s DESC NULLS FIRST) AS d FROM a"
    ),
    "running sums": (
        "SELECT id, sum(x) OVER (ORDER BY id) AS t, count(s) OVER (ORDER BY id) AS n, "
        "min(x) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS lo, max(s) OVER (ORDER BY id) AS hi, "
        "sum(g) OVER (ORDER BY id) AS u FROM a WHERE g > 0"
    ),
    "running sums of equal rows": (
        "SELECT id, sum(x) OVER (ORDER BY g DESC) AS t, count(*) OVER (ORDER BY g DESC) AS n FROM a"
    ),
    "rows near in the order of all": (
        "SELECT id, lag(x, 2) OVER (ORDER BY x, id) AS p, lead(s, 1, 'none') OVER (ORDER BY x, id) AS q, "
        "sum(x) OVER (ORDER BY x, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS t, "
        "last_value(s) IGNORE NULLS OVER (ORDER BY x, id ROWS 2 PRECEDING) AS l, "
        "row_number() OVER (ORDER BY x, id) AS n FROM a"
    ),
    "numbers of rows of a join": (
        "SELECT b.id, row_number() OVER (ORDER BY a.g + b.y, b.id) AS n FROM b LEFT JOIN a ON b.aid = a.id"
    ),
    "numbers of groups": "SELECT g, s, row_number() OVER (ORDER BY count(*) DESC, g, s) AS n FROM a GROUP BY g, s",
    "groups of numbers of all rows": (
        "SELECT n % 3 AS k, count(*) AS m FROM (SELECT row_number() OVER (ORDER BY s, id) AS n FROM a) t GROUP BY n % 3"
    ),
    "QUALIFY over all rows": "SELECT id, g FROM a QUALIFY row_number() OVER (ORDER BY g DESC, id) BETWEEN 2 AND 5",
    "rows near in two orders of all": (
        "SELECT id, max(p) OVER (ORDER BY s, id) AS m, sum(q) OVER (ORDER BY s, id) AS t FROM (SELECT id, s, "
        "lag(id, 2) OVER (ORDER BY x, id) AS p, lead(id) OVER (ORDER BY x, id) - lag(id) OVER (ORDER BY x, id) AS q "
        "FROM a) t"
    ),
    "two orders of all rows": (
        "SELECT id, row_number() OVER (ORDER BY x, id) - rank() OVER (ORDER BY g) AS n, "
        "count(*) OVER (PARTITION BY g) AS m FROM a"
    ),
}

WITH_ALL = {
    "halves of all rows": "SELECT id, ntile(2) OVER (ORDER BY x DESC, id) AS h FROM a",
    "shares of all rows": (
        "SELECT id, cume_dist() OVER (ORDER BY g) AS c, "
        "last_value(s) OVER (ORDER BY x, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS l FROM a"
    ),
}
"""Those that look at rows far after a row."""

_ORDERS = ("id", "x, id", "g, id", "s DESC, id", "g DESC NULLS FIRST, s NULLS LAST, id", "x + id, id", "s, id DESC")
_EQUAL = ("g", "s DESC", "x NULLS LAST", "g DESC, s")
_CALLS = (
    "row_number()", "rank()", "dense_rank()", "count(*)", "count(x)", "sum(x)", "sum(g)", "min(s)", "max(x)",
    "lag(x)", "lag(s, 3)", "lead(g)", "lead(x, 2)", "first_value(x)", "ntile(2)", "avg(g)", "percent_rank()",
)  # fmt: skip
_OF_EQUAL = ("rank()", "dense_rank()", "count(*)", "sum(x)", "min(x)", "max(s)")
_FRAMES = (
    "ROWS 1 PRECEDING", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)  # fmt: skip
_WITH_FRAMES = ("sum(x)", "count(s)", "min(x)", "max(s)", "last_value(g)", "first_value(s)")


def some_tail(chance: random.Random) -> str:
    """A query with windows over all rows, some of which can be computed in this way."""
    items = []
    for place in range(chance.randint(1, 3)):
        total, framed = chance.random() < 0.7, chance.random() < 0.3
        order = chance.choice(_ORDERS if total or framed else _EQUAL)
        call = chance.choice(_WITH_FRAMES if framed else _CALLS if total else _OF_EQUAL)
        items.append(f"{call} OVER (ORDER BY {order}{f' {chance.choice(_FRAMES)}' if framed else ''}) AS w{place}")
    where = chance.choice(("", " WHERE g > 0", " WHERE s <> 'a'"))
    found = f"SELECT id, {', '.join(items)} FROM a{where}"
    above = chance.choice(("lag(w0)", "count(w0)", "max(w0)", "row_number()", "lead(w0, 2)"))
    return f"SELECT *, {above} OVER (ORDER BY id DESC) AS v FROM ({found}) t" if chance.random() < 0.5 else found
