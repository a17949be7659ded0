"""Windows over all rows: which are computed from the first changed row on, and that they then say the same."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.views.incremental.history import run
from tests.views.incremental.sessions import SESSIONS
from tests.views.incremental.tails import TAILS, some_tail
from tests.views.incremental.test_plan_text import planned
from tests.views.incremental.world import World, some_walks
from tidefill.views.plan import plan_text
from tidefill.views.plan.plan import Strategy
from tidefill.views.relations.relations import Windowed, every


def by_tail(sql: str) -> list[bool]:
    """Of each relation with windows over all rows, from the output down."""
    found = every(planned(sql).root)
    return [bool(part.types) for part in found if isinstance(part, Windowed) and not part.partition]


@pytest.mark.parametrize("name", TAILS)
def test_it_is_computed_from_the_first_changed_row_on(name: str) -> None:
    found = by_tail(TAILS[name])
    assert found
    assert all(found)


@pytest.mark.parametrize(
    "call",
    [
        "ntile(2) OVER (ORDER BY id)",
        "percent_rank() OVER (ORDER BY y)",
        "count(*) OVER ()",
        "avg(y) OVER (ORDER BY id)",
        "first_value(y) OVER (ORDER BY id)",
        "lag(y) IGNORE NULLS OVER (ORDER BY id)",
        "lag(y, 20000) OVER (ORDER BY id)",
        "lag(y, -1) OVER (ORDER BY id)",
        "max(y) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "sum(y) OVER (ORDER BY y RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ],
)
def test_it_is_computed_with_all_rows(call: str) -> None:
    plan = planned(f"SELECT id, {call} AS w FROM b")
    assert by_tail(f"SELECT id, {call} AS w FROM b") == [False]
    assert plan.strategy is Strategy.PARTITIONS
    told = plan_text.kept_fresh(plan.strategy.value, plan.reason)
    assert told.endswith("looks at rows far after a row, so that all rows are one")
    assert next(node.how for node in plan_text.nodes(plan)) == "all rows anew"


@pytest.mark.parametrize("added", ["f", "CAST(y AS decimal(28, 0))", "y * f"])
def test_sums_that_are_not_exact_or_wide_are_computed_with_all_rows(
    added: str, connection: duckdb.DuckDBPyConnection
) -> None:
    plan = World(f"SELECT id, sum({added}) OVER (ORDER BY id) AS w FROM b", random.Random(1), connection).plan
    assert plan.strategy is Strategy.PARTITIONS


def test_explain_says_which() -> None:
    plan = planned(TAILS["numbers of all rows"])
    assert plan_text.kept_fresh(plan.strategy.value, plan.reason) == (
        "incrementally: what follows the first changed row in its order is computed anew, "
        "because a window has no PARTITION BY"
    )
    assert [str(node) for node in plan_text.nodes(plan)] == [
        "windows over all rows: what follows the first changed row anew",
        "  a as a: id, x",
    ]


def test_rows_before_the_first_changed_one_are_not_compared(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT id, row_number() OVER (ORDER BY x) AS n FROM a", random.Random(1), connection)
    world.data["a"] = {(id,): (id, 0, id, "a") for id in (1, 2, 5, 8)}
    world.begin()
    world.data["a"][(3,)] = (3, 0, 3, "a")
    world.step()
    assert sorted(world.target.values()) == [(1, 1), (2, 2), (3, 3), (5, 4), (8, 5)]


@pytest.mark.parametrize("name", [*TAILS, *SESSIONS])
def test_nothing_that_is_kept_has_an_order(name: str) -> None:
    """Spark 4.2 fails over a cached frame that has one (key not found in InMemoryRelation.withOutput)."""
    plan = planned({**TAILS, **SESSIONS}[name])
    stages = plan.changes([scan.occurrence for scan in plan.scans]).stages
    assert stages
    assert not any(stage.query.args.get("order") for stage in stages)


@pytest.mark.parametrize("seed", range(30))
def test_any_of_them_says_what_its_query_says(seed: int, connection: duckdb.DuckDBPyConnection) -> None:
    chance = random.Random(f"tail {seed}")
    run(World(some_tail(chance), chance, connection, some_walks(chance)), steps=5)
