"""What of a large table is left unread."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.views.incremental.history import run
from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.world import World
from tidefill.views.plan.limits import Reading, origins
from tidefill.views.plan.statement import Script


def script(world: World, *changed: str, large: str) -> Script:
    """For changes of these, where only one table is large."""
    columns = frozenset(column for scan in world.plan.scans if scan.table == large for column in scan.columns)
    return world.plan.changes(changed, Reading(world.reading.types, columns))


def test_a_large_table_is_read_between_the_least_and_the_greatest_value_of_what_changed(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    world = World("SELECT b.id, a.g FROM b JOIN a ON b.aid = a.id", random.Random(1), connection)
    found = script(world, "b", large="a")
    (asked,) = (stage for stage in found.stages if stage.limits)
    assert "MIN(`b.aid`)" in asked.query.sql(dialect="spark")
    low, high = asked.limits
    assert f"`a.id` >= `{low}` AND `a.id` <= `{high}`" in found.last.sql(dialect="spark")


def test_a_small_one_is_read_whole(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT b.id, a.g FROM b JOIN a ON b.aid = a.id", random.Random(1), connection)
    assert not any(stage.limits for stage in script(world, "b", large="c").stages)
    assert not any(stage.limits for stage in world.plan.changes(["b"]).stages)


def test_a_name_that_is_given_twice_stands_for_no_column(connection: duckdb.DuckDBPyConnection) -> None:
    """An output may be called as what it is computed from: whoever followed the names would go in a circle."""
    sql = "SELECT u0, count(*) AS n FROM (SELECT a.g + 1 AS u0, b.y FROM a JOIN b ON b.aid = a.id) t GROUP BY u0"
    world = World(sql, random.Random(1), connection)
    assert world.plan.columns[0] == "u0", "the world calls its outputs so"
    found = origins(world.plan.root)
    assert "u0" not in found
    assert all(name not in found.values() or found[name] not in found for name in found)
    assert script(world, "b", large="a").stages


def test_equalities_in_a_row_tie_too(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT a.id FROM a JOIN b ON b.id = a.id JOIN c ON c.id1 = b.id", random.Random(1), connection)
    found = script(world, "a", large="c")
    (asked,) = (stage for stage in found.stages if stage.limits)
    assert "MIN(`a.id`)" in asked.query.sql(dialect="spark")


@pytest.mark.parametrize("name", ["left join", "NOT EXISTS", "count distinct", "min and max", "row number"])
def test_limits_are_asked_for_by_every_rule(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    asked = 0
    for seed in range(8):
        world = World(DIRECTED[name], random.Random(seed), connection)
        world.share_large = 1.0
        run(world, steps=4)
        asked += world.limits
    assert asked > 0


def test_nothing_is_read_for_extremes_that_were_not_lost(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT g + 1 AS g, min(x) AS lo FROM a GROUP BY g + 1", random.Random(1), connection)
    found = script(world, "a", large="a")
    (asked,) = (stage for stage in found.stages if stage.limits == (f"{stage.name}_any",))
    assert "COUNT(*) > 0" in asked.query.sql(dialect="spark")
    assert f"WHERE `{asked.limits[0]}`" in found.last.sql(dialect="spark")


def test_all_limits_of_one_step_are_asked_at_once(connection: duckdb.DuckDBPyConnection) -> None:
    world = World("SELECT b.id FROM b JOIN a ON b.aid = a.id JOIN c ON c.id1 = b.y", random.Random(1), connection)
    found = world.plan.changes(["b"], Reading(world.reading.types, frozenset(world.reading.types)))
    (asked,) = (stage for stage in found.stages if stage.limits)
    text = asked.query.sql(dialect="spark")
    assert "MIN(`b.aid`)" in text
    assert "MIN(`b.y`)" in text
    said = found.last.sql(dialect="spark")
    assert all(f"`{end}`" in said for end in asked.limits)
