"""Queries about what has one row: LIMIT over it, and values of queries that are more than one aggregate."""

from __future__ import annotations

ONE_ROW = {
    "LIMIT of one row": "SELECT count(*) AS n, max(x) AS hi FROM a WHERE g > 0 LIMIT 100",
    "LIMIT of one row, which HAVING may take": "SELECT sum(g) AS t FROM a HAVING count(*) > 2 LIMIT 1",
    "LIMIT of two rows that are one": (
        "SELECT p.n, q.m FROM (SELECT count(*) AS n FROM a) p, (SELECT max(y) AS m FROM b) q WHERE p.n > q.m LIMIT 5"
    ),
    "value of WITH": (
        "WITH t AS (SELECT avg(y) AS m FROM b), u AS (SELECT * FROM t) SELECT id FROM a WHERE g > (SELECT m FROM t) "
        "OR x > (SELECT * FROM u)"
    ),
    "value of a row": (
        "SELECT id, (SELECT y FROM b WHERE id = 3) AS v FROM a WHERE g <> (SELECT aid FROM b WHERE id = 3)"
    ),
    "value of DISTINCT": (
        "SELECT id FROM a WHERE g BETWEEN (SELECT DISTINCT y - 1 FROM b WHERE y = 2) AND "
        "(SELECT DISTINCT y + 1 FROM b WHERE y = 2)"
    ),
    "value of a join": (
        "SELECT id, (SELECT b.y FROM b JOIN c ON b.aid = c.id1 WHERE b.id = 2 AND c.id2 = '1') AS v "
        "FROM a WHERE s = 'a'"
    ),
    "value of groups": "SELECT id, (SELECT max(y) FROM b WHERE aid = 2 GROUP BY aid) AS v FROM a WHERE g > 0",
    "value of groups in HAVING": (
        "SELECT g, avg(x) AS t FROM a GROUP BY g HAVING max(id) > 2 * (SELECT min(y) FROM b WHERE aid = 1 GROUP BY aid)"
    ),
    "value of the first row": "SELECT id FROM a WHERE g >= (SELECT y FROM b WHERE y > 1 ORDER BY y DESC, id LIMIT 1)",
    "value of groups, in a value": (
        "SELECT id, (SELECT max(y) FROM b WHERE y < (SELECT DISTINCT g FROM c WHERE g = 3)) AS v FROM a"
    ),
    "condition in all alternatives": (
        "SELECT id FROM a WHERE (SELECT count(*) FROM b WHERE (b.aid = a.id AND b.y > 2 AND b.s = 'a') OR "
        "(b.y < 2 AND b.aid = a.id) OR (b.aid = a.id AND b.s IS NULL)) > 0"
    ),
    "condition that is all of an alternative": (
        "SELECT a.id, b.y FROM a, b WHERE (a.id = b.aid AND a.g > 1) OR "
        "a.id = b.aid AND (a.x > 0 AND b.y = 1 OR b.y = 1)"
    ),
}

NAMES = {
    "name of a sum in HAVING": "SELECT g, max(id) + 1 AS n FROM a GROUP BY g HAVING n * 2 > 9 AND -n < 2",
    "first rows by a product of a sum": "SELECT id, g + 1 AS n FROM a ORDER BY n * 2 - id DESC NULLS LAST, id LIMIT 3",
    "column in parentheses": "SELECT DISTINCT (g) FROM a WHERE g > 0",
}
"""What names of SELECT mean elsewhere, where they are more than a column."""
