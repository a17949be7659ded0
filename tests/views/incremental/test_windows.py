"""Window functions: which order they go by, how a person is told, and which are refused."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest

from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.test_plan_text import planned
from tests.views.incremental.world import World
from tidefill.errors import BadSql, TidefillError, UnsupportedQuery
from tidefill.views.plan import plan_text
from tidefill.views.plan.plan import ViewPlan


def test_a_row_leaves_one_partition_and_enters_another(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM a", random.Random(1), connection)
    world.data["a"] = {(id,): (id, g, Decimal(1), "a") for id, g in [(1, None), (2, None), (3, 0), (4, 0)]}
    world.begin()
    assert sorted(world.target.values()) == [(1, 1), (2, 2), (3, 1), (4, 2)]
    world.data["a"][(1,)] = (1, 0, Decimal(1), "a")
    world.step()
    assert sorted(world.target.values()) == [(1, 1), (2, 1), (3, 2), (4, 3)]


def test_the_next_one_follows_when_the_top_is_deleted(connection: duckdb.DuckDBPyConnection) -> None:
    world = World(DIRECTED["top of each group"], random.Random(1), connection)
    world.data["a"] = {(id,): (id, 0, Decimal(id), "a") for id in range(4)}
    world.begin()
    assert sorted(row[0] for row in world.target.values()) == [2, 3]
    del world.data["a"][(3,)]
    world.step()
    assert sorted(row[0] for row in world.target.values()) == [1, 2]


def over(call: str) -> ViewPlan:
    return planned(f"SELECT id1, {call} AS w FROM c")


ORDERS = [
    ("row_number() OVER (PARTITION BY g ORDER BY d{})", ", id1, id2"),
    ("row_number() OVER (PARTITION BY id1 ORDER BY d{})", ", id2"),
    ("lag(d, 2) OVER (PARTITION BY g ORDER BY d DESC, id2{})", ", id1"),
    ("lead(d) OVER (PARTITION BY g, d ORDER BY g{})", ", id1, id2"),
    ("ntile(3) OVER (PARTITION BY g ORDER BY id1{})", ", id2"),
    ("first_value(d) OVER (PARTITION BY g ORDER BY d + INTERVAL 1 DAY{})", ", id1, id2"),
    (
        "last(d) OVER (PARTITION BY g ORDER BY d{} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        ", id1, id2",
    ),
    ("last_value(d) OVER (PARTITION BY g ORDER BY d{} ROWS 2 PRECEDING)", ", id1, id2"),
    ("sum(id1) OVER (PARTITION BY g ORDER BY d{} rows between unbounded preceding and current row)", ", id1, id2"),
]


@pytest.mark.parametrize(("call", "key"), ORDERS)
def test_where_an_order_is_left_open_the_key_is_the_rest_of_it(call: str, key: str) -> None:
    written, left_open = over(call.format(key)), over(call.format(""))
    assert written.whole() == left_open.whole()
    assert written.notices == ()
    assert [notice.partition("ordered by ")[2] for notice in left_open.notices] == [
        ", ".join(f"c.{column}" for column in key.split(", ")[1:]) + "."
    ]


@pytest.mark.parametrize(
    "call",
    [
        "rank() OVER (PARTITION BY g ORDER BY d)",
        "cume_dist() OVER (PARTITION BY g ORDER BY d)",
        "sum(id1) OVER (PARTITION BY g ORDER BY d)",
        "count(*) OVER (PARTITION BY g)",
        "max(d) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW)",
        "min(d) OVER (PARTITION BY g ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    ],
)
def test_what_does_not_mind_the_order_of_equal_rows_is_left_as_it_is(call: str) -> None:
    assert over(call).notices == ()
    assert "id2" not in over(call).whole().sql(dialect="spark").partition("OVER")[2].partition(")")[0]


def test_the_order_of_null_is_that_of_spark() -> None:
    plan = planned("SELECT id, row_number() OVER (PARTITION BY s ORDER BY g, x DESC, s NULLS LAST) AS n FROM a")
    order = '"a.g" NULLS FIRST, "a.x" DESC, "a.s", "a.id" NULLS FIRST'
    assert f"ORDER BY {order})" in plan.whole().sql(dialect="duckdb")
    assert "ORDER BY `a.g`, `a.x` DESC, `a.s` NULLS LAST, `a.id`)" in plan.whole().sql(dialect="spark")


def test_how_a_person_is_told() -> None:
    plan = planned(DIRECTED["top of each group"])
    kept = plan_text.kept_fresh(plan.strategy.value, plan.reason)
    assert kept == "incrementally: affected partitions are computed anew"
    assert list(map(str, plan_text.nodes(plan))) == [
        "filter: row by row",
        "  windows by 1: affected partitions anew",
        "    a as a: id, g, x",
    ]


REFUSED: list[tuple[str, type[TidefillError], str]] = [
    ("row_number() OVER (PARTITION BY g)", BadSql, "needs an ORDER BY"),
    ("first_value(d) OVER (PARTITION BY g)", UnsupportedQuery, "its window has none"),
    ("sum(id1) OVER (PARTITION BY g ROWS 1 PRECEDING)", UnsupportedQuery, "its window has none"),
    ("last_value(id1) OVER (PARTITION BY g ORDER BY d)", UnsupportedQuery, "left open"),
    ("first_value(id1) IGNORE NULLS OVER (PARTITION BY g ORDER BY d)", UnsupportedQuery, "left open"),
    ("nth_value(id1, 2) OVER (PARTITION BY g ORDER BY d)", UnsupportedQuery, "left open"),
    (
        "first(id1) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
        UnsupportedQuery,
        "left open",
    ),
    ("rank() OVER (PARTITION BY g ORDER BY d ROWS 1 PRECEDING)", UnsupportedQuery, "has a frame"),
    ("sum(id1) OVER (PARTITION BY g ORDER BY d ROWS BETWEEN g PRECEDING AND CURRENT ROW)", UnsupportedQuery, "frame"),
    (
        "sum(id1) OVER (PARTITION BY g ORDER BY d GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        UnsupportedQuery,
        "frame of a window is not known",
    ),
    ("count(DISTINCT d) OVER (PARTITION BY g)", UnsupportedQuery, "not known"),
    ("array_agg(d) OVER (PARTITION BY g)", UnsupportedQuery, "not known"),
    ("count(*) FILTER (WHERE d IS NULL) OVER (PARTITION BY g)", UnsupportedQuery, "FILTER"),
    ("max(count(*) OVER (PARTITION BY g)) OVER (PARTITION BY id1)", BadSql, "inside of another"),
    ("lag(d)", UnsupportedQuery, "depends on the order"),
]


@pytest.mark.parametrize(("call", "kind", "fact"), REFUSED)
def test_what_is_refused(call: str, kind: type[TidefillError], fact: str) -> None:
    with pytest.raises(kind, match=fact):
        over(call)


@pytest.mark.parametrize(
    ("sql", "kind", "fact"),
    [
        ("SELECT id FROM a WHERE count(*) OVER (PARTITION BY g) > 1", UnsupportedQuery, "outside of SELECT"),
        ("SELECT id FROM a JOIN b ON rank() OVER (PARTITION BY g) > 1", UnsupportedQuery, "outside of SELECT"),
        ("SELECT rank() OVER (PARTITION BY g ORDER BY x) AS r FROM a GROUP BY 1", BadSql, "GROUP BY has"),
        ("SELECT g, max(g) OVER (PARTITION BY g) AS r FROM a GROUP BY g HAVING r > 1", BadSql, "HAVING has a window"),
        ("SELECT g, max(x) OVER (PARTITION BY g) AS r FROM a GROUP BY g", BadSql, "neither in GROUP BY"),
        ("SELECT id, rank() OVER w AS r FROM a WINDOW v AS (PARTITION BY g ORDER BY x)", BadSql, "no window w"),
        ("SELECT id, rank() OVER (w ORDER BY x) AS r FROM a WINDOW w AS (PARTITION BY g)", UnsupportedQuery, "another"),
        ("SELECT id, g + 1 AS x FROM a QUALIFY x > max(x) OVER (PARTITION BY g)", UnsupportedQuery, "two meanings"),
        ("SELECT count(*) OVER w FROM a WINDOW w AS (PARTITION BY g), w AS (PARTITION BY s)", BadSql, "one name"),
        (
            "SELECT id FROM a WHERE g < (SELECT max(y) OVER (PARTITION BY y) FROM b WHERE b.id = a.id)",
            UnsupportedQuery,
            "not an aggregate",
        ),
    ],
)
def test_where_there_is_none(sql: str, kind: type[TidefillError], fact: str) -> None:
    with pytest.raises(kind, match=fact):
        planned(sql)


def test_no_condition_on_a_sum_of_floats_over(connection: duckdb.DuckDBPyConnection) -> None:
    sql = f"SELECT id FROM ({DIRECTED['sum of floats over']}) t WHERE t.t > 1"
    with pytest.raises(UnsupportedQuery, match="floating-point"):
        World(sql, random.Random(1), connection)
