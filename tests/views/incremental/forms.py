"""Queries of forms that came later, each with what DuckDB has to be told to say the same, where it has other words.

Spark shows no total of a ROLLUP over nothing, and DuckDB does: so there the text for DuckDB has a HAVING.
"""

from __future__ import annotations

from tests.views.incremental.limited import EQUAL, FIRST_ROWS, IN_WORDS
from tests.views.incremental.one_row import ONE_ROW
from tests.views.incremental.sessions import SESSIONS, SESSIONS_IN_DUCKDB
from tests.views.incremental.tails import TAILS, WITH_ALL

ROLLED = "SELECT g, s, count(*) AS n, sum(x) AS t FROM a GROUP BY ROLLUP (g, s)"
BUCKET = "time_bucket(INTERVAL '30 days', d, TIMESTAMPTZ '1970-01-01 00:00:00+00')"

FORMS = {
    "average of wide numbers": (
        "SELECT g, avg(CAST(id AS bigint)) AS t, avg(CAST(x AS decimal(9,1))) AS u, avg(CAST(id AS decimal(9,0))) AS v "
        "FROM a GROUP BY g"
    ),
    "null-safe equality": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.y <=> a.g AND b.s <=> a.s",
    "QUALIFY": ("SELECT id, g FROM a WHERE x > 0 QUALIFY row_number() OVER (PARTITION BY g ORDER BY x DESC, id) = 1"),
    "QUALIFY by name": "SELECT id, rank() OVER (PARTITION BY g ORDER BY s) AS r FROM a QUALIFY r = 1",
    "QUALIFY of groups": (
        "SELECT g, s, count(*) AS n FROM a GROUP BY g, s QUALIFY rank() OVER (PARTITION BY g ORDER BY n) = 1"
    ),
    "EXISTS of DISTINCT": "SELECT id FROM a WHERE EXISTS (SELECT DISTINCT y FROM b WHERE b.aid = a.id AND b.y > 1)",
    "EXISTS with groups": (
        "SELECT id FROM a WHERE EXISTS (SELECT y FROM b WHERE b.aid = a.id GROUP BY y HAVING count(*) > 1)"
    ),
    "NOT IN with groups": (
        "SELECT id FROM a WHERE g NOT IN (SELECT y FROM b WHERE b.aid = a.id GROUP BY y HAVING count(*) < 2)"
    ),
    "time window": "SELECT window.start AS f, window AS w, count(*) AS n FROM c GROUP BY window(d, '30 days')",
    "time windows that overlap": ("SELECT window(d, '60 days', '30 days') AS w, id1, g FROM c WHERE g > 0"),
    "ROLLUP": ROLLED,
    "CUBE": (
        "SELECT g, s, grouping(g) AS p, grouping_id() AS q, max(id) AS top FROM a GROUP BY CUBE (g, s) "
        "HAVING grouping(s) = 1 OR count(*) > 1"
    ),
    "GROUPING SETS": ("SELECT g, s, sum(g) AS t, count(*) AS n FROM a GROUP BY GROUPING SETS ((g, s), (g), (g), ())"),
    "ROLLUP beside a group": "SELECT s, g, count(DISTINCT x) AS n FROM a GROUP BY s, ROLLUP (g)",
    "windows of ROLLUP": (
        "SELECT g, s, rank() OVER (PARTITION BY grouping(g) + grouping(s) ORDER BY sum(id) DESC) AS r "
        "FROM a GROUP BY ROLLUP (g, s)"
    ),
    "collect_list": (
        "SELECT g, collect_list(x) AS xs, array_agg(DISTINCT s) AS ss, collect_set(s) AS us, "
        "collect_list(id) FILTER (WHERE x > 0) AS ys FROM a GROUP BY g"
    ),
    "listagg": (
        "SELECT g, listagg(s, ',') AS t, string_agg(s, '-') WITHIN GROUP (ORDER BY x DESC) AS u, "
        "listagg(DISTINCT s, '+') AS v FROM a GROUP BY g"
    ),
    "first and last of groups": (
        "SELECT g, first(x) AS f, last(s, true) AS l, any_value(id) AS a, first(s) FILTER (WHERE x > 0) AS p, "
        "max_by(s, x) AS m FROM a GROUP BY g"
    ),
    "mode and percentiles": (
        "SELECT g, mode(s) AS m, percentile_approx(id, 0.3) AS q, percentile_approx(x, array(0.1, 0.9)) AS r "
        "FROM a GROUP BY g"
    ),
    "first of a join": "SELECT a.g, first(b.y) AS f FROM a JOIN b ON b.y = a.g GROUP BY a.g",
    "first below a join": (
        "SELECT b.id, t.f FROM b LEFT JOIN (SELECT g, first(s) AS f FROM a GROUP BY g) t ON t.g = b.y"
    ),
    "WITH, columns named": (
        "WITH t (k, n) AS (SELECT g, count(*) FROM a GROUP BY g) SELECT t.k, b.id FROM t JOIN b ON b.y = t.n"
    ),
    "alias with columns": "SELECT u.k, b.id FROM (SELECT id, g FROM a) u (i, k) JOIN b ON b.aid = u.i",
    "NATURAL JOIN": "SELECT t.id, t.g, u.y FROM (SELECT id, g, s FROM a) t NATURAL JOIN (SELECT id, y, s FROM b) u",
    "NATURAL FULL JOIN": "SELECT * FROM (SELECT id, g FROM a) t NATURAL FULL JOIN (SELECT id, y FROM b) u",
    "VALUES": ("SELECT a.id, v.t FROM a JOIN (VALUES (1, 'one'), (2, 'two'), (2, 'zwei')) AS v (k, t) ON v.k = a.g"),
    "VALUES, left join": "SELECT v.k, a.id FROM (VALUES (1), (2), (9)) AS v (k) LEFT JOIN a ON a.g = v.k",
    "UNION with a constant": "SELECT g, s FROM a UNION ALL SELECT 1 AS g, 'x' AS s",
    "INTERSECT ALL": "SELECT g, s FROM a INTERSECT ALL SELECT y, s FROM b",
    "EXCEPT ALL": "SELECT g FROM a EXCEPT ALL SELECT y FROM b",
    "EXISTS under OR": ("SELECT id FROM a WHERE g = 1 OR EXISTS (SELECT 1 FROM b WHERE b.aid = a.id AND b.y > 1)"),
    "IN under OR": "SELECT id FROM a WHERE x < 0 OR g IN (SELECT y FROM b)",
    "NOT IN under OR": "SELECT id FROM a WHERE x < 0 OR g NOT IN (SELECT y FROM b WHERE y <> 3 OR id > 8)",
    "EXISTS and IN in SELECT": (
        "SELECT id, g IN (SELECT y FROM b) AS i, NOT EXISTS (SELECT 1 FROM c WHERE c.id1 = a.id) AS e, "
        "g IN (SELECT y FROM b WHERE b.aid = a.id) AS r, (id, g) IN (SELECT aid, y FROM b) AS p FROM a"
    ),
    "NOT IN in SELECT": (
        "SELECT id, g NOT IN (SELECT y FROM b) AS i, NOT (x > 0 OR g IN (SELECT y FROM b WHERE id > 3)) AS n, "
        "(g IN (SELECT y FROM b WHERE b.aid = a.id)) = false AS f FROM a"
    ),
    "explode": "SELECT id, explode(sequence(0, g)) AS k FROM a",
    "posexplode": "SELECT id, posexplode(array(g, id)) AS (p, v), s FROM a",
    "LATERAL VIEW": (
        "SELECT k, count(*) AS n, min(x) AS lo FROM a LATERAL VIEW OUTER explode(sequence(0, g)) t AS k "
        "WHERE k IS NULL OR k > 0 GROUP BY k"
    ),
    "LATERAL VIEW after a join": (
        "SELECT b.id, t.k FROM b JOIN a ON a.id = b.aid LATERAL VIEW explode(sequence(0, a.g)) t AS k WHERE t.k < b.y"
    ),
    "windows over all rows": (
        "SELECT id, row_number() OVER (ORDER BY x, id) AS n, sum(x) OVER (ORDER BY id) AS t, count(*) OVER () AS c "
        "FROM a WHERE g < 4"
    ),
    **FIRST_ROWS,
    **ONE_ROW,
    **TAILS,
    **WITH_ALL,
    **SESSIONS,
}

OPEN = frozenset({
    "collect_list", "listagg", "first and last of groups", "mode and percentiles", "first of a join",
    "first below a join", *EQUAL,
})  # fmt: skip
"""Those that leave a choice open."""

IN_DUCKDB = {
    **IN_WORDS,
    **SESSIONS_IN_DUCKDB,
    "time window": (
        f"SELECT {BUCKET} AS f, {{'start': f, 'end': f + INTERVAL '30 days'}} AS w, count(*) AS n FROM c "
        "WHERE d IS NOT NULL GROUP BY f"
    ),
    "time windows that overlap": (
        f"SELECT {{'start': u.f, 'end': u.f + INTERVAL '60 days'}} AS w, id1, g FROM c, "
        f"unnest([{BUCKET}, {BUCKET} - INTERVAL '30 days']) AS u (f) WHERE g > 0 AND d IS NOT NULL"
    ),
    "ROLLUP": f"{ROLLED} HAVING count(*) > 0",
    "CUBE": (
        "SELECT g, s, grouping(g) AS p, grouping(g, s) AS q, max(id) AS top FROM a GROUP BY CUBE (g, s) "
        "HAVING (grouping(s) = 1 AND count(*) > 0) OR count(*) > 1"
    ),
    "GROUPING SETS": f"{FORMS['GROUPING SETS']} HAVING count(*) > 0",
    "windows of ROLLUP": f"{FORMS['windows of ROLLUP']} HAVING count(*) > 0",
    "collect_list": (
        "SELECT g, coalesce(list(x ORDER BY id) FILTER (WHERE x IS NOT NULL), []) AS xs, "
        "coalesce(list_sort(list(DISTINCT s) FILTER (WHERE s IS NOT NULL)), []) AS ss, ss AS us, "
        "coalesce(list(id ORDER BY id) FILTER (WHERE x > 0), []) AS ys FROM a GROUP BY g"
    ),
    "listagg": (
        "SELECT g, string_agg(s, ',' ORDER BY id) AS t, string_agg(s, '-' ORDER BY x DESC NULLS LAST, id) AS u, "
        "string_agg(DISTINCT s, '+' ORDER BY s) AS v FROM a GROUP BY g"
    ),
    "first and last of groups": (
        "SELECT g, first(x ORDER BY id) AS f, last(s ORDER BY id) FILTER (WHERE s IS NOT NULL) AS l, min(id) AS a, "
        "first(s ORDER BY id) FILTER (WHERE x > 0) AS p, last(s ORDER BY x, id) FILTER (WHERE x IS NOT NULL) AS m "
        "FROM a GROUP BY g"
    ),
    "mode and percentiles": (
        "SELECT g, mode(s ORDER BY s) AS m, list_sort(list(id))[ceil(0.3 * count(id))::int] AS q, "
        "CASE WHEN count(x) > 0 THEN list_transform([0.1, 0.9], lambda p: "
        "(list_sort(list(x) FILTER (WHERE x IS NOT NULL)))[ceil(p * count(x))::int]) END AS r FROM a GROUP BY g"
    ),
    "first of a join": "SELECT a.g, first(b.y ORDER BY a.id, b.id) AS f FROM a JOIN b ON b.y = a.g GROUP BY a.g",
    "first below a join": (
        "SELECT b.id, t.f FROM b LEFT JOIN (SELECT g, first(s ORDER BY id) AS f FROM a GROUP BY g) t ON t.g = b.y"
    ),
    "EXISTS and IN in SELECT": (
        "SELECT id, coalesce(g IN (SELECT y FROM b), false) AS i, "
        "NOT EXISTS (SELECT 1 FROM c WHERE c.id1 = a.id) AS e, "
        "coalesce(g IN (SELECT y FROM b WHERE b.aid = a.id), false) AS r, "
        "EXISTS (SELECT 1 FROM b WHERE b.aid = a.id AND b.y = a.g) AS p FROM a"
    ),
    "NOT IN in SELECT": (
        "SELECT id, coalesce(g NOT IN (SELECT y FROM b), false) AS i, "
        "x <= 0 AND coalesce(g NOT IN (SELECT y FROM b WHERE id > 3), false) AS n, "
        "coalesce(g NOT IN (SELECT y FROM b WHERE b.aid = a.id), false) AS f FROM a"
    ),
    "explode": "SELECT id, unnest(generate_series(0, g)) AS k FROM a",
    "posexplode": "SELECT id, unnest([0, 1]) AS p, unnest([g, id]) AS v, s FROM a",
    "LATERAL VIEW": (
        "SELECT k, count(*) AS n, min(x) AS lo FROM (SELECT x, unnest(CASE WHEN g IS NULL THEN [NULL] "
        "ELSE generate_series(0, g) END) AS k FROM a) WHERE k IS NULL OR k > 0 GROUP BY k"
    ),
    "LATERAL VIEW after a join": (
        "SELECT b.id, t.k FROM b JOIN a ON a.id = b.aid, unnest(generate_series(0, a.g)) AS t (k) WHERE t.k < b.y"
    ),
}
"""The same queries in DuckDB's words."""
