"""Which columns identify a row, by the outermost SELECT alone. Where it is not certain, none do."""

from __future__ import annotations

import pytest

from tidefill.spark.compiling import parsed
from tidefill.views.reading.unique import unique_columns

CERTAIN = {
    "SELECT DISTINCT a, b FROM t": "a b",
    "WITH w AS (SELECT 1) SELECT DISTINCT explode(a) AS a FROM w ORDER BY a LIMIT 3": "a",
    "SELECT a FROM t UNION SELECT b FROM u": "a",
    "SELECT a FROM t UNION ALL SELECT b FROM u UNION SELECT c FROM v": "a",
    "SELECT a, b FROM t INTERSECT SELECT a, b FROM u": "a b",
    "SELECT a FROM t EXCEPT SELECT a FROM u": "a",
    "SELECT k, count(*) AS n FROM t GROUP BY k": "k",
    "SELECT count(*) AS n, k AS l, j FROM t GROUP BY k, j HAVING count(*) > 1": "l j",
    "SELECT t.k, u.k AS m, max(a) AS n FROM t JOIN u GROUP BY t.k, u.k": "k m",
    "SELECT k, n FROM t GROUP BY 2, 1": "n k",
    "SELECT date_trunc('DAY', at) AS d, count(*) AS n FROM t GROUP BY date_trunc('DAY', at)": "d",
    "SELECT k, transform(collect_list(a), x -> x) AS c FROM t LATERAL VIEW explode(b) e AS a GROUP BY k": "k",
    "SELECT k, count(*) AS n FROM (SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))) GROUP BY k": "k",
    "SELECT k, rank() OVER (ORDER BY max(a)) AS r FROM t GROUP BY k QUALIFY r < 3": "k",
}
UNCERTAIN = {
    "no groups": "SELECT a FROM t",
    "rows with their copies": "SELECT a FROM t UNION ALL SELECT b FROM u",
    "the last one counts": "SELECT a FROM t UNION SELECT b FROM u UNION ALL SELECT c FROM v",
    "INTERSECT comes first": "SELECT a FROM t UNION ALL SELECT b FROM u INTERSECT SELECT c FROM v",
    "EXCEPT ALL": "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
    "a group that is not shown": "SELECT k, count(*) AS n FROM t GROUP BY k, j",
    "an alias that hides the column": "SELECT abs(k) AS k, count(*) AS n FROM t GROUP BY k",
    "an alias in an expression": "SELECT k + 1 AS n, b AS k FROM t GROUP BY k + 1, b",
    "an alias alone": "SELECT a + 1 AS k, count(*) AS n FROM t GROUP BY k",
    "a field of the same name": "SELECT s.k, count(*) AS n FROM t GROUP BY s, k",
    "several rows of a group": "SELECT k, explode(collect_list(a)) AS c FROM t GROUP BY k",
    "several rows of a group, by another function": "SELECT k, json_tuple(max(a), 'b') AS c FROM t GROUP BY k",
    "rows of structs": "SELECT k, inline(collect_list(a)) AS c FROM t GROUP BY k",
    "ROLLUP": "SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k)",
    "GROUPING SETS": "SELECT k, count(*) AS n FROM t GROUP BY k GROUPING SETS ((k), ())",
    "GROUP BY ALL": "SELECT k, count(*) AS n FROM t GROUP BY ALL",
    "a number that is none of a column": "SELECT k, count(*) AS n FROM t GROUP BY 3",
    "a star": "SELECT *, k FROM t GROUP BY k",
    "no group at all": "SELECT sum(a) AS k FROM t",
    "PIVOT": "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
}


@pytest.mark.parametrize("sql", CERTAIN)
def test_columns_that_identify_a_row(sql: str) -> None:
    tree = parsed(sql)
    shown = [item.alias_or_name for item in tree.selects]  # type: ignore[attr-defined]
    assert unique_columns(tree, shown) == tuple(CERTAIN[sql].split())


@pytest.mark.parametrize("why", UNCERTAIN)
def test_where_it_is_not_certain(why: str) -> None:
    tree = parsed(UNCERTAIN[why])
    assert unique_columns(tree, ["k", "n"][: len(tree.selects)]) == ()  # type: ignore[attr-defined]
