"""What a person is told of a plan."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.world import find
from tidefill.errors import BadSql, QueryTooLarge, TidefillError, UnsupportedQuery
from tidefill.views.plan import plan_text
from tidefill.views.plan.drivers import choose
from tidefill.views.plan.plan import ViewPlan, compile_view
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lower import lower


def planned(sql: str) -> ViewPlan:
    tree = sqlglot.parse_one(sql, read=Verbatim)
    assert isinstance(tree, exp.Query)
    names = [f"u{index}" for index in range(len(tree.selects))]
    return compile_view(tree, find, names, lambda query, _: ["int"] * len(query.selects))


@pytest.mark.parametrize(
    ("name", "kept", "filled"),
    [
        ("three tables", "incrementally: changed rows are computed from changed rows", "each chunk is appended"),
        ("count", "incrementally: hidden counts and sums are kept", "each chunk is merged into what is there"),
        (
            "HAVING",
            "incrementally: affected groups are computed anew, because a condition looks at the whole group",
            "each chunk is merged into what is there",
        ),
        (
            "scalar",
            "incrementally: hidden counts and sums are kept",
            "each chunk is merged into what is there; the first commit has what the view shows without any chunk",
        ),
    ],
)
def test_how_it_is_kept_and_filled(name: str, kept: str, filled: str) -> None:
    plan = planned(DIRECTED[name])
    drivers = choose(plan.root, {scan.occurrence: 1 for scan in plan.scans})
    assert plan_text.kept_fresh(plan.strategy.value, plan.reason) == kept
    assert plan_text.filled(drivers.appends, drivers.starts_empty, drivers.group_columns > 0) == filled


def test_the_plan_node_by_node() -> None:
    plan = planned(
        "SELECT a.g, count(*) AS n FROM a JOIN b ON a.id = b.aid WHERE b.y NOT IN (SELECT g FROM c) GROUP BY a.g"
    )
    assert list(map(str, plan_text.nodes(plan))) == [
        "groups by 1: counts and sums",
        "  rows with no match: changed rows; affected rows anew if the other side changed",
        "    join of 2: the changed rows of each with the others",
        "      a as a: id, g",
        "      b as b: id, aid, y",
        "    c as c: id1, id2, g",
    ]


def test_the_statements_name_their_inputs() -> None:
    text = plan_text.sql(planned(DIRECTED["self join"]))
    assert "-- __tf_new_1, __tf_old_1, __tf_delta_1: a as q" in text
    assert text.index("-- from nothing") < text.index("-- changes")


OF_C = ["id1: c.id1", "id2: c.id2", "d: c.d"]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a JOIN c USING (g)", ["g: a.g", "id: a.id", "x: a.x", "s: a.s", *OF_C]),
        ("a RIGHT JOIN c USING (g)", ["g: c.g", "id: a.id", "x: a.x", "s: a.s", *OF_C]),
        ("a FULL JOIN c USING (g)", ["g: g", "id: a.id", "x: a.x", "s: a.s", *OF_C]),
        ("a LEFT SEMI JOIN b USING (s)", ["s: a.s", "id: a.id", "g: a.g", "x: a.x"]),
        (
            "a JOIN b USING (id) LEFT JOIN c USING (g)",
            ["g: a.g", "id: a.id", "x: a.x", "s: a.s", "aid: b.aid", "y: b.y", "s: b.s", "f: b.f", *OF_C],
        ),
    ],
)
def test_a_star_shows_what_using_merged_before_the_rest(source: str, shown: list[str]) -> None:
    lowered, _ = lower(sqlglot.parse_one(f"SELECT * FROM {source}", read="spark"), find)
    assert [f"{name}: {column}" for name, column in lowered.shown] == shown


REFUSED: list[tuple[str, type[TidefillError], str]] = [
    ("SELECT a.* FROM a JOIN b USING (id)", UnsupportedQuery, "USING merged"),
    ("SELECT id FROM a JOIN b USING (g)", BadSql, "no column g"),
    ("SELECT a.id FROM a JOIN b ON a.id = b.id JOIN b t USING (id)", BadSql, "ambiguous"),
    (
        "SELECT g, count(*) FROM a WHERE size(filter(array(1), X -> x > 1)) > 0 GROUP BY g",
        UnsupportedQuery,
        "in two ways",
    ),
    ("SELECT id, g FROM a UNION SELECT id FROM b", BadSql, "same number of columns"),
    ("SELECT id, g FROM a EXCEPT SELECT id FROM b", BadSql, "parts of EXCEPT have not the same number"),
    ("SELECT id FROM a INTERSECT SELECT id FROM b LIMIT 3", UnsupportedQuery, "LIMIT"),
    ("SELECT id FROM a AS t (g, id, x, s)", UnsupportedQuery, "renames columns"),
    ("SELECT id, to_json(struct(*)) AS j FROM a", UnsupportedQuery, "star"),
    ("SELECT g, count(DISTINCT *) AS n FROM a GROUP BY g", UnsupportedQuery, "star"),
    ("SELECT g FROM a UNION ALL (SELECT y FROM b UNION ALL SELECT g FROM c LIMIT 3)", UnsupportedQuery, "LIMIT"),
    ("SELECT g FROM a UNION ALL BY NAME SELECT y AS g FROM b UNION ALL SELECT g FROM c", UnsupportedQuery, "BY NAME"),
    ("SELECT id FROM a WHERE g IN ((SELECT y FROM b) LIMIT 1)", UnsupportedQuery, "LIMIT"),
    ("SELECT id FROM a WHERE g < ((SELECT max(y) FROM b) LIMIT 0)", UnsupportedQuery, "LIMIT"),
    ("SELECT 2 AS k, count(*) AS n FROM a GROUP BY 1", UnsupportedQuery, "constant"),
    ("SELECT g, count(*) FROM a GROUP BY ALL", UnsupportedQuery, "GROUP BY ALL"),
    ("SELECT g, s, count(*) FROM a GROUP BY g", BadSql, "neither in GROUP BY"),
    ("SELECT g FROM a GROUP BY count(*)", BadSql, "GROUP BY has an aggregate"),
    ("SELECT g FROM a WHERE count(*) > 1", BadSql, "no groups"),
    ("SELECT g AS x, count(*) AS n FROM a GROUP BY g HAVING x > 1", UnsupportedQuery, "two meanings"),
    ("SELECT g FROM a GROUP BY g HAVING g IN (SELECT y FROM b)", UnsupportedQuery, "HAVING has IN or EXISTS"),
    (
        "SELECT g FROM a GROUP BY g HAVING g > 1 OR EXISTS (SELECT 1 FROM b)",
        UnsupportedQuery,
        "HAVING has IN or EXISTS",
    ),
    (
        "SELECT g FROM a GROUP BY g HAVING count(*) > (SELECT y FROM b WHERE b.id = a.g)",
        UnsupportedQuery,
        "not an aggregate",
    ),
    (
        "SELECT g FROM a GROUP BY g HAVING count(*) > (SELECT max(y) FROM b WHERE b.y < a.g)",
        UnsupportedQuery,
        "by more than equalities",
    ),
    (
        "SELECT g FROM a GROUP BY g HAVING count(*) > (SELECT max(y) FROM b WHERE b.y = a.id)",
        UnsupportedQuery,
        "by more than equalities",
    ),
    ("SELECT id FROM a LIMIT 3", UnsupportedQuery, "LIMIT without ORDER BY"),
    ("SELECT id FROM a TABLESAMPLE (10 PERCENT) JOIN b ON true", UnsupportedQuery, "sample"),
    ("SELECT a.id FROM a VERSION AS OF 3 JOIN b ON true", UnsupportedQuery, "version"),
    ("SELECT id FROM a, LATERAL (SELECT 1)", UnsupportedQuery, "a join is LATERAL"),
    ("SELECT id, (SELECT y FROM b WHERE b.id = a.id) AS m FROM a", UnsupportedQuery, "value is not an aggregate"),
    ("SELECT id, (SELECT y, id FROM b) AS m FROM a", BadSql, "gives 2 columns"),
    ("SELECT id, (SELECT * FROM b WHERE id = 1) AS m FROM a", BadSql, "gives 5 columns"),
    (
        "SELECT id, (SELECT y FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE id1 = b.id)) AS m FROM a",
        UnsupportedQuery,
        "several rows while tables are walked",
    ),
    (
        "SELECT id, (SELECT max(y) FROM b GROUP BY aid HAVING count(*) < 2) AS m FROM a",
        UnsupportedQuery,
        "several rows while tables are walked",
    ),
    ("SELECT count(*) AS n FROM a GROUP BY g LIMIT 3", UnsupportedQuery, "LIMIT without ORDER BY"),
    ("SELECT count(*) AS n FROM a LIMIT 0", UnsupportedQuery, "LIMIT without ORDER BY"),
    ("SELECT count(*) AS n FROM a LIMIT 1 OFFSET 1", UnsupportedQuery, "LIMIT without ORDER BY"),
    ("SELECT id, (SELECT max(y) FROM b WHERE b.y < a.g) AS m FROM a", UnsupportedQuery, "by more than equalities"),
    ("SELECT g, count(*) AS n, (SELECT max(y) FROM b) AS m FROM a GROUP BY g", UnsupportedQuery, "beside groups"),
    ("SELECT id, (id, g) NOT IN (SELECT aid, y FROM b) AS m FROM a", UnsupportedQuery, "NOT IN of several columns"),
    ("SELECT id, g + 1 IN (SELECT y FROM b) AS m FROM a", UnsupportedQuery, "by more than equalities"),
    ("SELECT id FROM a JOIN b ON a.id = b.aid", BadSql, "ambiguous"),
    ("SELECT 1 AS x", UnsupportedQuery, "reads no table"),
    ("SELECT v.k FROM (VALUES (1), (2)) AS v (k)", UnsupportedQuery, "reads no table"),
    ("SELECT a.id FROM a JOIN (VALUES (1, 2), (3)) AS v (k) ON true", BadSql, "same number of columns"),
    ("WITH t (k, n) AS (SELECT id FROM a) SELECT k FROM t", BadSql, "2 names for 1 columns"),
    ("SELECT g, count(*) AS n FROM a GROUP BY CUBE (id, g, x, s, id + 1, g + 1, x + 1, id + 2)", QueryTooLarge, "128"),
    ("SELECT g, grouping(x) AS n FROM a GROUP BY ROLLUP (g)", BadSql, "grouping is not of the columns"),
    (
        "SELECT window(d, '1 day') AS v, count(*) AS n FROM c GROUP BY window(d, '1 day'), window(d, '2 days')",
        UnsupportedQuery,
        "two different time windows",
    ),
    ("SELECT id, explode(xs) AS x, explode(xs) AS y FROM a", BadSql, "make rows"),
    ("SELECT explode(array(g)) AS x, count(*) AS n FROM a GROUP BY g", UnsupportedQuery, "beside groups"),
    ("SELECT explode(array(g)) AS x, max(x) OVER (PARTITION BY g) AS n FROM a", UnsupportedQuery, "makes rows"),
    ("SELECT id1 FROM c WHERE window(d, '1 day').start > d", UnsupportedQuery, "inside of an expression"),
    ("SELECT id, explode(array(g)) + 1 AS x FROM a", UnsupportedQuery, "inside of an expression"),
    ("SELECT inline(array(struct(g))) AS x FROM a", UnsupportedQuery, "which columns inline gives"),
    (
        "SELECT a.id, t.x FROM a, LATERAL explode(array(a.g)) AS t (x) JOIN b ON b.id = t.x",
        UnsupportedQuery,
        "a join is LATERAL",
    ),
    ("SELECT a.id FROM a LATERAL VIEW json_tuple(s, 'a') t AS x", UnsupportedQuery, "several rows out of one"),
    ("SELECT a.id, nobody FROM a JOIN b ON a.id = b.aid", BadSql, "no column nobody"),
    ("SELECT a.id FROM a JOIN a ON true", UnsupportedQuery, "two tables are called a"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", UnsupportedQuery, "recursive"),
    ("SELECT id + 1 AS x, x + 1 AS y FROM a JOIN (SELECT g FROM b) b ON true", BadSql, "no column"),
    (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.id1 = a.id))",
        UnsupportedQuery,
        "two levels",
    ),
]


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT y FROM b GROUP BY y HAVING count(*) > a.g",
        "SELECT y FROM b WHERE b.aid < a.id GROUP BY y HAVING count(*) > 1",
        "SELECT count(*) FROM b WHERE b.aid = a.id HAVING count(*) > 1",
        "SELECT g FROM c UNION ALL SELECT y FROM b WHERE aid = a.id",
    ],
)
def test_groups_in_a_subquery_do_not_see_the_query_around_it(inner: str) -> None:
    for condition in (f"EXISTS ({inner})", f"g NOT IN ({inner})"):
        with pytest.raises(UnsupportedQuery, match="refers to the query around it") as refused:
            planned(f"SELECT id FROM a WHERE {condition}")
        assert "EXISTS (SELECT 1 FROM (SELECT" in refused.value.hint
    with pytest.raises(BadSql, match=r"no column a\.nobody"):
        planned(f"SELECT id FROM a WHERE EXISTS ({inner.replace('a.id', 'a.nobody').replace('a.g', 'a.nobody')})")


def test_a_query_of_full_joins_grows_by_what_it_joins() -> None:
    """Each of its tables is read once, but for those of the first FULL JOIN."""

    def size(joins: int) -> tuple[int, int]:
        text = "".join(f" FULL JOIN a t{at} ON t{at}.id = t{at - 1}.g" for at in range(1, joins + 1))
        plan = planned(f"SELECT t0.id FROM a t0{text}")
        changes = plan.changes([plan.scans[0].occurrence])
        return len(plan.scans), sum(len(query.sql(dialect="spark")) for query in changes.queries)

    (few, short), (many, long) = size(3), size(6)
    assert (few, many) == (6, 9)
    assert long < 6 * short


@pytest.mark.parametrize(
    ("sql", "fact"),
    [
        (
            "WITH t1 AS (SELECT p.id FROM a p JOIN a q ON p.id = q.id), "
            + ", ".join(
                f"t{at} AS (SELECT p.id FROM t{at - 1} p JOIN t{at - 1} q ON p.id = q.id)" for at in range(2, 9)
            )
            + " SELECT id FROM t8",
            "more than 128 places",
        ),
    ],
)
def test_a_query_that_would_take_too_long_to_compile_is_refused(sql: str, fact: str) -> None:
    with pytest.raises(QueryTooLarge, match=fact) as refused:
        planned(sql)
    assert "refresh = full" in refused.value.hint


def test_statements_that_would_be_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.views.plan.statement.COLUMNS_MAX", 1000)
    planned(DIRECTED["full joins"])
    joins = " ".join(f"JOIN a t{at} ON t{at}.id = t{at - 1}.g" for at in range(1, 18))
    with pytest.raises(QueryTooLarge, match="very large statements"):
        planned(f"SELECT t0.id FROM a t0 {joins}")


@pytest.mark.parametrize(("sql", "kind", "fact"), REFUSED)
def test_what_cannot_be_kept_fresh_is_refused(sql: str, kind: type[TidefillError], fact: str) -> None:
    with pytest.raises(kind, match=fact):
        planned(sql)
