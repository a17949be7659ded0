"""Queries with ORDER BY and LIMIT, each with what DuckDB has to be told to say the same, where the query leaves the
order of equal rows open: then the key is at the end of the order.
"""

from __future__ import annotations

FIRST_ROWS = {
    "first rows": "SELECT id, x, s FROM a ORDER BY x DESC, id LIMIT 3",
    "first rows, equal ones": "SELECT id, g FROM a ORDER BY g LIMIT 4",
    "first rows by what is not shown": (
        "SELECT s FROM a WHERE x > -2 ORDER BY g DESC NULLS FIRST, coalesce(x, 0) + 1 LIMIT 3"
    ),
    "first rows by one of two keys": "SELECT id1, d FROM c ORDER BY d DESC NULLS LAST, id2 LIMIT 5",
    "first rows after others": "SELECT id, g FROM a ORDER BY 2 DESC, id LIMIT 3 OFFSET 2",
    "first rows, if there are so many": "SELECT id, s FROM a WHERE g < 3 ORDER BY s NULLS LAST, id LIMIT 8 OFFSET 0",
    "first rows after all": "SELECT id FROM a ORDER BY id LIMIT 2 OFFSET 30",
    "no first rows": "SELECT id FROM a ORDER BY id LIMIT 0",
    "first rows of a join": "SELECT b.id, a.x FROM a JOIN b ON a.g = b.y AND a.s <> b.s ORDER BY a.x DESC, a.s LIMIT 4",
    "first rows of a left join": "SELECT a.id, y FROM a LEFT JOIN b ON b.aid = a.id ORDER BY b.y, a.id, b.id LIMIT 4",
    "first rows of groups": "SELECT g, sum(x) AS t FROM a GROUP BY g ORDER BY t DESC, g LIMIT 2",
    "first rows of groups that are not shown": (
        "SELECT count(*) AS n, s FROM a GROUP BY s, g ORDER BY max(x) DESC, count(*), s LIMIT 3"
    ),
    "first rows of groups that HAVING keeps": (
        "SELECT s AS t, count(*) AS n FROM a GROUP BY s HAVING max(id) > 1 ORDER BY n DESC LIMIT 2"
    ),
    "first rows of DISTINCT": "SELECT DISTINCT a.g AS h, s FROM a ORDER BY a.s DESC, h LIMIT 3",
    "first rows of UNION ALL": "SELECT id, g FROM a UNION ALL SELECT id, y FROM b ORDER BY g DESC, 1 LIMIT 5",
    "first rows of UNION": "SELECT g FROM a UNION SELECT y FROM b ORDER BY g + 1 DESC LIMIT 2",
    "first rows of ranks": "SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM a ORDER BY r DESC, id LIMIT 3",
    "first rows of WITH": (
        "WITH t AS (SELECT g, count(*) AS n FROM a GROUP BY g) "
        "SELECT b.id, t.n FROM b LEFT JOIN t ON t.g = b.y ORDER BY n DESC, b.id LIMIT 3"
    ),
    "first rows of what is made of rows": "SELECT id, explode(sequence(0, g)) AS k FROM a ORDER BY k DESC, id LIMIT 4",
    "first rows by a name that FROM has too": "SELECT id, -x AS x FROM a ORDER BY x + 1, id LIMIT 3",
    "first rows below a join": (
        "SELECT t.id, b.id AS bid FROM (SELECT id, g FROM a ORDER BY x DESC, id LIMIT 4) t JOIN b ON b.y = t.g"
    ),
    "groups of first rows": "SELECT g, count(*) AS n FROM (SELECT g FROM a ORDER BY x, id LIMIT 5) t GROUP BY g",
    "first rows of first rows": (
        "SELECT id FROM (SELECT id, g FROM a ORDER BY x, id LIMIT 6) t ORDER BY g DESC, id LIMIT 2"
    ),
    "condition on first rows": "SELECT id, x FROM (SELECT * FROM a ORDER BY x DESC, id LIMIT 4) t WHERE g > 1",
    "UNION ALL of first rows": (
        "(SELECT id, g FROM a ORDER BY g, id LIMIT 2) UNION ALL (SELECT id, y FROM b ORDER BY y DESC, id LIMIT 3)"
    ),
    "IN first rows": "SELECT id FROM b WHERE y NOT IN (SELECT DISTINCT g FROM a WHERE g >= 0 ORDER BY g LIMIT 2)",
    "NOT IN first rows, under OR": (
        "SELECT id FROM a WHERE x < 0 OR g NOT IN (SELECT y FROM b ORDER BY y DESC, id LIMIT 3)"
    ),
}

EQUAL = {
    "first rows, equal ones": "SELECT id, g FROM a ORDER BY g NULLS FIRST, id LIMIT 4",
    "first rows by what is not shown": (
        "SELECT s FROM a WHERE x > -2 ORDER BY g DESC NULLS FIRST, coalesce(x, 0) + 1, id LIMIT 3"
    ),
    "first rows by one of two keys": "SELECT id1, d FROM c ORDER BY d DESC NULLS LAST, id2, id1 LIMIT 5",
    "first rows of a join": (
        "SELECT b.id, a.x FROM a JOIN b ON a.g = b.y AND a.s <> b.s "
        "ORDER BY a.x DESC NULLS LAST, a.s NULLS FIRST, a.id, b.id LIMIT 4"
    ),
    "first rows of groups that are not shown": (
        "SELECT count(*) AS n, s FROM a GROUP BY s, g "
        "ORDER BY max(x) DESC NULLS LAST, n, s NULLS FIRST, g NULLS FIRST LIMIT 3"
    ),
    "first rows of groups that HAVING keeps": (
        "SELECT s, count(*) AS n FROM a GROUP BY s HAVING max(id) > 1 ORDER BY n DESC, s NULLS FIRST LIMIT 2"
    ),
    "first rows of UNION ALL": (
        "SELECT id, g FROM (SELECT id, g, 0 AS p FROM a UNION ALL SELECT id, y, 1 FROM b) "
        "ORDER BY g DESC NULLS LAST, id, p LIMIT 5"
    ),
}
"""Those that leave an order open, which DuckDB is told."""

IN_WORDS = {
    **EQUAL,
    "first rows of UNION": (
        "SELECT g FROM (SELECT g FROM a UNION SELECT y FROM b) ORDER BY g + 1 DESC NULLS LAST LIMIT 2"
    ),
    "first rows by a name that FROM has too": (
        "SELECT id, y FROM (SELECT id, -x AS y FROM a) ORDER BY y + 1 NULLS FIRST, id LIMIT 3"
    ),
    "first rows of what is made of rows": (
        "SELECT id, k FROM (SELECT id, unnest(generate_series(0, g)) AS k FROM a) ORDER BY k DESC, id LIMIT 4"
    ),
}
"""All that DuckDB is told in other words."""
