"""ORDER BY with LIMIT: which rows a query means, by what they are kept, what a person is told, and what is refused."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest
import sqlglot

from tests.views.incremental.history import run
from tests.views.incremental.limited import EQUAL
from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.test_plan_text import planned
from tests.views.incremental.world import TABLES, World, find, some_walks
from tidefill.errors import BadSql, TidefillError, UnsupportedQuery
from tidefill.views.plan import plan_text
from tidefill.views.plan.plan import Strategy, compile_view
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.reading.refusals import NO_ORDER
from tidefill.views.relations.top import CHOSEN

# By what they are kept.


def first_three(connection: duckdb.DuckDBPyConnection, *ids: int) -> World:
    """Over rows whose x is their id."""
    world = World("SELECT id FROM a ORDER BY x LIMIT 3", random.Random(1), connection)
    world.data["a"] = {(id,): (id, 0, Decimal(id), "a") for id in ids}
    world.begin()
    return world


def step(world: World, *, gone: int | None = None, **came: int) -> tuple[list[int], bool]:
    """The ids that the view has after a step, and whether all rows were looked at. `came`: i4=7 is the row 4 with
    the x 7."""
    if gone is not None:
        del world.data["a"][(gone,)]
    for name, x in came.items():
        id = int(name.removeprefix("i"))
        world.data["a"][(id,)] = (id, 0, Decimal(x), "a")
    world.step()
    return sorted(row[0] for row in world.target.values()), "True" in world.constants.values()


def test_a_row_that_comes_before_the_last_one_takes_its_place(connection: duckdb.DuckDBPyConnection) -> None:
    world = first_three(connection, 1, 2, 3, 5, 8)
    assert step(world, i9=0) == ([1, 2, 9], False)
    assert step(world, i7=6) == ([1, 2, 9], False)


def test_a_row_that_is_not_among_the_first_goes(connection: duckdb.DuckDBPyConnection) -> None:
    assert step(first_three(connection, 1, 2, 3, 5, 8), gone=5) == ([1, 2, 3], False)


def test_a_row_that_changes_and_stays_among_the_first(connection: duckdb.DuckDBPyConnection) -> None:
    world = first_three(connection, 1, 2, 3, 5, 8)
    assert step(world, i2=0) == ([1, 2, 3], False)
    assert step(world, i3=1) == ([1, 2, 3], False)


def test_one_goes_and_another_takes_its_place(connection: duckdb.DuckDBPyConnection) -> None:
    assert step(first_three(connection, 1, 2, 3, 5, 8), gone=1, i9=2) == ([2, 3, 9], False)


def test_all_rows_are_looked_at_if_one_goes_and_none_takes_its_place(connection: duckdb.DuckDBPyConnection) -> None:
    assert step(first_three(connection, 1, 2, 3, 5, 8), gone=2) == ([1, 3, 5], True)
    assert step(first_three(connection, 1, 2, 3, 5, 8), i2=6) == ([1, 3, 5], True)
    assert step(first_three(connection, 1, 2, 3, 5, 8), gone=2, i9=4) == ([1, 3, 9], True)
    assert step(first_three(connection, 1, 2, 3, 5, 8), gone=2, i9=6) == ([1, 3, 5], True)


def test_a_view_that_has_all_rows_looks_at_no_others(connection: duckdb.DuckDBPyConnection) -> None:
    world = first_three(connection, 1, 2)
    assert step(world, gone=1) == ([2], False)
    assert step(world, gone=2) == ([], False)
    assert step(world, i7=7, i8=8) == ([7, 8], False)


def test_the_last_one_becomes_another_of_the_same_place(connection: duckdb.DuckDBPyConnection) -> None:
    """It is a candidate up to the row that was the last one, which it was itself."""
    world = World("SELECT id, s FROM a ORDER BY x LIMIT 1", random.Random(1), connection)
    world.data["a"] = {(id,): (id, 0, Decimal(id), "a") for id in (1, 2)}
    world.begin()
    world.data["a"][(1,)] = (1, 0, Decimal(1), "b")
    world.step()
    assert list(world.target.values()) == [(1, "b", Decimal(1))]
    assert "True" not in world.constants.values()


SOURCES = {
    "a": ("a.id", "a.g", "a.x", "a.s"),
    "c": ("c.id1", "c.id2", "c.g", "c.d"),
    "a JOIN b ON b.y = a.g": ("a.id", "b.id", "a.g", "b.s", "b.f"),
    "b LEFT JOIN a ON b.aid = a.id": ("b.id", "a.id", "a.x", "b.y"),
    "b FULL JOIN a ON b.aid = a.g": ("b.id", "a.id", "a.x", "b.y"),
    "a WHERE g IN (SELECT y FROM b)": ("a.id", "a.x", "a.g"),
}


def some_query(chance: random.Random) -> str:
    """Some rows in an order that the key ends. (Of a full join also whether a row has a left one.)"""
    source = chance.choice(list(SOURCES))
    columns = SOURCES[source]
    keys = [column for column in columns if column[2:] in TABLES[column[0]].key]
    values = chance.sample(columns, chance.choice([1, 1, 2]))
    ways = ["", " DESC", " NULLS LAST", " DESC NULLS FIRST"]
    order = [f"{value}{chance.choice(ways)}" for value in [*values, *(key for key in keys if key not in values)]]
    shown = chance.sample(columns, chance.randint(1, len(columns)))
    items = ", ".join(f"{column} AS c{index}" for index, column in enumerate(shown))
    skipped = f" OFFSET {chance.randint(0, 3)}" if chance.random() < 0.2 else ""
    return f"SELECT {items} FROM {source} ORDER BY {', '.join(order)} LIMIT {chance.choice([1, 2, 3, 5, 8])}{skipped}"


@pytest.mark.parametrize(
    ("first", "upto"), [(0, 12), pytest.param(12, 400, marks=pytest.mark.full)], ids=["few", "more"]
)
def test_no_history_leads_the_first_rows_astray(first: int, upto: int, connection: duckdb.DuckDBPyConnection) -> None:
    for seed in range(first, upto):
        chance = random.Random(f"first rows {seed}")
        sql = some_query(chance)
        try:
            run(World(sql, chance, connection, some_walks(chance)), steps=8)
        except Exception as error:
            error.add_note(f"seed {seed}: {sql}")
            raise


# Which rows are meant.

GROUPED = "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY {} LIMIT 2"


@pytest.mark.parametrize(
    ("sql", "orders"),
    [
        ("SELECT id, x FROM a ORDER BY {} LIMIT 2", ["x", "2", "(2)", "a.x", "(a.X)"]),
        ("SELECT id, g + 1 AS h FROM a ORDER BY {} DESC LIMIT 2", ["h", "g + 1", "2", "H"]),
        ("SELECT id, -x AS x FROM a ORDER BY {} LIMIT 2", ["x", "2", "-a.x"]),
        ("SELECT p.id, q.x AS y FROM a p JOIN a q ON p.id = q.g ORDER BY {}, 1 LIMIT 2", ["y", "q.x", "2"]),
        (GROUPED, ["n", "count(*)", "2"]),
        (GROUPED, ["g", "a.g", "1"]),
        (GROUPED, ["n, max(x)", "count(*), max(a.x)"]),
        ("SELECT id, rank() OVER (ORDER BY x) AS r FROM a ORDER BY {} LIMIT 2", ["r", "2"]),
        ("SELECT DISTINCT a.g AS h, s FROM a ORDER BY {} LIMIT 2", ["h", "a.g", "1"]),
        ("SELECT g AS h FROM a UNION SELECT y FROM b ORDER BY {} DESC LIMIT 2", ["h", "1", "(H)"]),
        ("(SELECT id, g FROM a) ORDER BY {} LIMIT 2", ["g", "2"]),
        ("SELECT id FROM a ORDER BY x LIMIT {}", ["2", "2 OFFSET 0"]),
    ],
)
def test_names_and_numbers_in_order_by_mean_one_thing(sql: str, orders: list[str]) -> None:
    first, *others = (planned(sql.format(order)).whole() for order in orders)
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", EQUAL)
def test_what_verify_settles_is_what_the_view_has(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    for seed in range(5):
        world = World(DIRECTED[name], random.Random(f"{name} {seed}"), connection)
        world.start()
        settled = world.plan.settled
        assert (settled.query is None) == bool(settled.reason)
        if settled.query is not None:
            world.user_sql = settled.query.sql(dialect="duckdb")
        world.check_query()


@pytest.mark.parametrize(
    ("sql", "settled"),
    [
        ("SELECT x FROM a ORDER BY x DESC LIMIT 2", "ORDER BY x DESC, `a`.`id` LIMIT 2"),
        ("SELECT id FROM a p ORDER BY g LIMIT 2 OFFSET 1", "ORDER BY g, `p`.`id` LIMIT 2 OFFSET 1"),
        ("SELECT g, s FROM a GROUP BY g, s ORDER BY count(*), g LIMIT 2", "COUNT(*), g, `a`.`s` LIMIT 2"),
        ("SELECT DISTINCT g AS h, s FROM a ORDER BY s LIMIT 2", "ORDER BY s, `h` LIMIT 2"),
        ("SELECT g AS h FROM a GROUP BY g HAVING max(x) > 1 ORDER BY h + 1 LIMIT 2", "ORDER BY h + 1, `h` LIMIT 2"),
        ("SELECT g FROM (SELECT * FROM a) ORDER BY x LIMIT 2", "ORDER BY x, `id` LIMIT 2"),
        (
            "SELECT t.g FROM (SELECT g FROM a ORDER BY x LIMIT 9) t JOIN b ON b.y = t.g",
            "ORDER BY x, `a`.`id` LIMIT 9",
        ),
        (
            "SELECT id FROM a WHERE g IN (SELECT y FROM b ORDER BY s LIMIT 2)",
            "(SELECT y FROM b ORDER BY s, `b`.`id` LIMIT 2)",
        ),
    ],
)
def test_the_key_is_the_end_of_an_order_that_is_left_open(sql: str, settled: str) -> None:
    plan = planned(sql)
    assert plan.settled.query is not None
    assert settled in plan.settled.query.sql(dialect="spark")
    assert len(plan.settled.notes) == 1
    assert any("rows that are equal in this order are ordered by" in notice for notice in plan.notices)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, x FROM a ORDER BY x, id LIMIT 2",
        "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY n, g LIMIT 2",
        "SELECT DISTINCT g FROM a ORDER BY 1 DESC LIMIT 2",
        "SELECT b.id FROM b JOIN a ON b.aid = a.id ORDER BY b.id LIMIT 2",
    ],
)
def test_an_order_that_tells_all_rows_apart_leaves_nothing_open(sql: str) -> None:
    plan = planned(sql)
    assert (plan.settled.query, plan.settled.notes, plan.settled.reason) == (None, (), "")
    assert plan.notices == (CHOSEN,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g AS id FROM (SELECT * FROM a) ORDER BY x LIMIT 2",
        "SELECT struct(x) AS a FROM a ORDER BY g LIMIT 2",
        "SELECT g FROM (SELECT g, x FROM a) t ORDER BY x LIMIT 2",
        "SELECT g FROM a UNION ALL SELECT y FROM b ORDER BY g LIMIT 2",
        "SELECT count(*) AS n FROM a GROUP BY g + 1 ORDER BY n LIMIT 2",
        "SELECT count(*) AS n FROM a GROUP BY g HAVING max(x) > 1 ORDER BY n LIMIT 2",
    ],
)
def test_a_key_that_cannot_be_named_there_is_told(sql: str) -> None:
    assert "does not show" in planned(sql).settled.reason


def test_limit_all_takes_all() -> None:
    plan = planned("SELECT id FROM a ORDER BY x LIMIT ALL")
    assert (plan.strategy, plan.notices) == (Strategy.CHANGES, (NO_ORDER,))


# What a person is told.


def test_how_the_first_rows_are_kept() -> None:
    plan = planned(DIRECTED["first rows"])
    assert plan_text.kept_fresh(plan.strategy.value, plan.reason) == (
        "incrementally: the first rows are kept by the changed rows, and found anew if these do not suffice"
    )
    assert list(map(str, plan_text.nodes(plan))) == [
        "first 3 rows: the changed rows with those that are there; all rows anew if they do not suffice",
        "  a as a: id, x, s",
    ]
    assert [str(node) for node in plan_text.nodes(planned(DIRECTED["first rows of groups"]))][1:] == [
        "  groups by 1: affected groups anew",
        "    a as a: id, g, x",
    ]


@pytest.mark.parametrize(
    "below",
    [
        "(SELECT id, count(*) OVER () AS x FROM a)",
        "(SELECT a.id, t.x FROM a CROSS JOIN (SELECT max(y) AS x FROM b) t)",
    ],
)
def test_below_what_looks_at_all_rows(below: str) -> None:
    assert planned(f"SELECT id FROM {below} s ORDER BY x, id LIMIT 2").strategy is Strategy.TOP_ANEW


@pytest.mark.parametrize(
    ("name", "reason", "nodes"),
    [
        (
            "first rows after others",
            "the first rows are found anew, because the view does not have the rows that OFFSET skips",
            ["first 3 rows after 2: all rows anew"],
        ),
        (
            "first rows of first rows",
            "the first rows are found anew, because a part of the query below LIMIT looks at all rows",
            ["first 2 rows: all rows anew", "  first 6 rows: all rows anew"],
        ),
        (
            "condition on first rows",
            "affected partitions are computed anew, because LIMIT is below another part of the query, so that all rows "
            "are one",
            ["filter: row by row", "  first 4 rows: all rows anew"],
        ),
    ],
)
def test_where_all_rows_are_looked_at(name: str, reason: str, nodes: list[str]) -> None:
    plan = planned(DIRECTED[name])
    assert plan_text.kept_fresh(plan.strategy.value, plan.reason) == f"incrementally: {reason}"
    assert list(map(str, plan_text.nodes(plan)))[:-1] == nodes


def test_an_order_of_a_type_that_cannot_be_kept() -> None:
    tree = sqlglot.parse_one("SELECT id1 FROM c ORDER BY struct(d), id1, id2 LIMIT 2", read=Verbatim)
    kinds = ["struct<d:timestamp>", "string"]
    plan = compile_view(tree, find, ["id1"], lambda query, _: kinds[: len(query.selects)])
    assert (plan.strategy, plan.hidden) == (Strategy.TOP_ANEW, ("__tf_key1",))
    assert "hidden column" in plan.reason


# What is refused.

REFUSED: list[tuple[str, type[TidefillError], str]] = [
    ("SELECT id FROM a LIMIT 3", UnsupportedQuery, "LIMIT without ORDER BY"),
    ("SELECT id FROM a SORT BY id LIMIT 3", UnsupportedQuery, "not known .sort"),
    ("SELECT id FROM a ORDER BY id LIMIT 10001", UnsupportedQuery, "beyond the first 10,000 rows"),
    ("SELECT id FROM a ORDER BY id LIMIT 1 OFFSET 10000", UnsupportedQuery, "beyond the first 10,000 rows"),
    ("SELECT id FROM a ORDER BY id OFFSET 3", UnsupportedQuery, "OFFSET without LIMIT"),
    ("SELECT id FROM a ORDER BY id LIMIT ALL OFFSET 3", UnsupportedQuery, "OFFSET without LIMIT"),
    ("SELECT id FROM a ORDER BY id LIMIT 1 + 2", UnsupportedQuery, "not a whole number"),
    ("SELECT id FROM a ORDER BY id LIMIT CAST(3 AS int)", UnsupportedQuery, "not a whole number"),
    ("SELECT id FROM a ORDER BY id LIMIT 3 OFFSET length('ab')", UnsupportedQuery, "not a whole number"),
    ("SELECT id FROM a ORDER BY ALL LIMIT 3", UnsupportedQuery, "ORDER BY ALL"),
    ("SELECT id FROM a ORDER BY 2 LIMIT 3", BadSql, "not the number of an item"),
    ("SELECT id FROM a UNION SELECT y FROM b ORDER BY 0 LIMIT 3", BadSql, "not the number of an item"),
    ("SELECT id FROM a ORDER BY nobody LIMIT 3", BadSql, "no column nobody"),
    ("SELECT id FROM a UNION SELECT y FROM b ORDER BY y LIMIT 3", UnsupportedQuery, "does not show"),
    ("SELECT id FROM a UNION SELECT y FROM b ORDER BY a.id LIMIT 3", UnsupportedQuery, "does not show"),
    ("SELECT DISTINCT g FROM a ORDER BY x LIMIT 3", UnsupportedQuery, "does not show"),
    ("SELECT DISTINCT g + 1 AS h FROM a ORDER BY g + 1 LIMIT 3", UnsupportedQuery, "does not show"),
    ("SELECT g, sum(x) AS x FROM a GROUP BY g ORDER BY sum(x) LIMIT 3", UnsupportedQuery, "two meanings"),
    ("SELECT struct(g AS x) AS a FROM a ORDER BY a.x LIMIT 3", UnsupportedQuery, "two meanings"),
    ("SELECT struct(g AS x) AS v FROM a ORDER BY v.x LIMIT 3", UnsupportedQuery, "two meanings"),
    ("SELECT g FROM a GROUP BY g ORDER BY x LIMIT 3", BadSql, "neither in GROUP BY"),
    ("SELECT id FROM a ORDER BY (SELECT max(y) FROM b) LIMIT 3", UnsupportedQuery, "a subquery stands where"),
    (
        "SELECT id FROM a WHERE g > (SELECT max(y) FROM b WHERE aid = a.id ORDER BY 1 LIMIT 1)",
        UnsupportedQuery,
        "LIMIT",
    ),
    (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.aid = a.id ORDER BY y LIMIT 3)",
        UnsupportedQuery,
        "UNION or LIMIT refers to the query around it",
    ),
]


@pytest.mark.parametrize(("sql", "kind", "fact"), REFUSED)
def test_what_is_refused(sql: str, kind: type[TidefillError], fact: str) -> None:
    with pytest.raises(kind, match=fact) as refused:
        planned(sql)
    assert refused.value.hint or kind is BadSql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT y, sum(f) AS t FROM b GROUP BY y ORDER BY t LIMIT 3",
        "SELECT id FROM b ORDER BY sum(f) OVER (PARTITION BY y), id LIMIT 3",
    ],
)
def test_no_order_by_a_sum_of_floats(sql: str, connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UnsupportedQuery, match="floating-point"):
        World(sql, random.Random(1), connection)
