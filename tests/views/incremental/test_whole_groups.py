"""Walked along what it groups by, a view is filled by appends: no chunk cuts a group."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest

from tests.views.incremental.history import run
from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.test_plan_text import planned
from tests.views.incremental.world import TABLES, Walks, World, ending
from tidefill.core.keys import Key
from tidefill.delta.build import _drivers_of
from tidefill.jobs.definitions import Part, PlannedViewDefinition
from tidefill.views.plan import plan_text
from tidefill.views.plan.drivers import Drivers, choose
from tidefill.views.plan.plan import ViewPlan

G: Walks = {"a": ("g", "id")}
GS: Walks = {"a": ("g", "s", "id")}


def driven(sql: str, walks: Walks, largest: str = "") -> Drivers:
    plan = planned(sql)
    known = {scan.occurrence: walks.get(scan.table, TABLES[scan.table].key) for scan in plan.scans}
    rows = {scan.occurrence: 2 if scan.table == largest else 1 for scan in plan.scans}
    return choose(plan.root, rows, known.__getitem__)


ALONG: list[tuple[str, Walks, int]] = [
    (DIRECTED["count"], G, 1),
    (DIRECTED["count without the group"], G, 1),
    (DIRECTED["min and max"], G, 1),
    (DIRECTED["count distinct"], G, 1),
    (DIRECTED["HAVING"], G, 1),
    (DIRECTED["DISTINCT"], {"a": ("s", "g", "id")}, 2),
    (DIRECTED["group by two"], G, 1),
    (DIRECTED["group by two"], GS, 2),
    (DIRECTED["aggregate of a join"], G, 1),
    (DIRECTED["aggregate of a left join"], G, 1),
    (DIRECTED["join of aggregates"], G, 1),
    (DIRECTED["row number"], G, 1),
    (DIRECTED["windows of several kinds"].replace("id % 3", "g, x"), GS, 1),
    (DIRECTED["top of each group"], G, 1),
    (DIRECTED["window of groups"].replace("g % 2", "g"), G, 1),
    (DIRECTED["count of DISTINCT"], GS, 1),
    ("SELECT id, count(*) AS n FROM a GROUP BY id", {}, 1),
    ("SELECT g AS k, count(*) AS n FROM a WHERE x > 0 GROUP BY 1 UNION ALL SELECT y, id FROM b", G, 1),
    ("SELECT g, s, count(*) AS n FROM a GROUP BY g, s UNION ALL SELECT DISTINCT y, s, id FROM b", GS, 1),
    ("SELECT a.id, t.n FROM a JOIN (SELECT id1, count(*) AS n FROM c GROUP BY id1) t ON t.id1 = a.id", {}, 0),
]


@pytest.mark.parametrize(("sql", "walks", "columns"), ALONG)
def test_groups_along_the_walk_are_appended(sql: str, walks: Walks, columns: int) -> None:
    drivers = driven(sql, walks, largest="a")
    assert (drivers.appends, drivers.group_columns) == (True, columns)


ACROSS: dict[str, tuple[str, Walks]] = {
    "by another column": (DIRECTED["count"], {"a": ("s", "id")}),
    "by a later column only": (DIRECTED["count"], {"a": ("s", "g", "id")}),
    "by a value that is computed": (DIRECTED["group by expression"], G),
    "by a value of another table": ("SELECT b.y, count(*) AS n FROM a JOIN b ON a.id = b.aid GROUP BY b.y", G),
    "without groups": (DIRECTED["scalar"], G),
    "of several tables": (DIRECTED["aggregate of UNION"], {"a": ("g", "id"), "b": ("y", "id")}),
    "of what may be NULL in a full join": (DIRECTED["aggregate of a full join"], G),
    "of groups by another column": (DIRECTED["nested aggregate"], G),
    "in partitions by another column": (DIRECTED["row number"], {"a": ("x", "id")}),
    "in partitions, of other partitions": (DIRECTED["window of a window"], {"a": ("s", "id")}),
    "in partitions of several kinds": (DIRECTED["windows of several kinds"], GS),
    "compared": (DIRECTED["INTERSECT"], {"a": ("g", "id"), "b": ("y", "id")}),
}  # fmt: skip


@pytest.mark.parametrize("name", ACROSS)
def test_groups_across_the_walk_are_merged(name: str) -> None:
    drivers = driven(*ACROSS[name], largest="a")
    assert (drivers.appends, drivers.group_columns) == (False, 0)


def test_a_smaller_table_is_not_walked_for_the_sake_of_its_groups() -> None:
    """All of the other one would be read for each chunk of it, or at once for its only one."""
    sql = DIRECTED["aggregate of a join"]
    assert driven(sql, G, largest="b") == Drivers(("b",), appends=False)
    assert driven(sql, G, largest="a") == Drivers(("a",), group_columns=1)
    assert driven(sql, G) == Drivers(("a",), group_columns=1)


def test_how_a_person_is_told() -> None:
    drivers = driven(DIRECTED["count"], G)
    told = plan_text.filled(drivers.appends, drivers.starts_empty, drivers.group_columns > 0)
    assert told == "each chunk holds whole groups and is appended"


def defined(plan: ViewPlan, walk: tuple[str, ...], group_columns: int) -> PlannedViewDefinition:
    part = Part("a", "a", (), ("id",), walk, "", group_columns)
    return PlannedViewDefinition("", plan.key, (), (part,))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_job_goes_on_as_it_was_created(columns: int) -> None:
    plan = planned(DIRECTED["group by two"])
    assert _drivers_of(defined(plan, GS["a"], columns), plan) == Drivers(("a",), group_columns=columns)


def test_a_job_from_before_there_were_whole_groups_goes_on_merging() -> None:
    """It may have cut one."""
    plan = planned(DIRECTED["group by two"])
    assert _drivers_of(defined(plan, GS["a"], 0), plan) == Drivers(("a",), appends=False)


@pytest.mark.parametrize(("sql", "walks", "columns"), ALONG)
def test_the_view_is_exact_after_every_chunk(
    sql: str, walks: Walks, columns: int, connection: duckdb.DuckDBPyConnection
) -> None:
    appends = 0
    for seed in range(40):
        world = World(sql, random.Random(seed), connection, walks)
        run(world, steps=7)
        appends += world.appends
        if appends > 5:
            return
    raise AssertionError(f"too few chunks with outputs were appended: {appends}")


@pytest.mark.parametrize("name", ["count", "min and max", "HAVING", "count distinct", "row number"])
def test_rows_move_between_groups_that_are_covered_and_groups_that_are_not(
    name: str, connection: duckdb.DuckDBPyConnection
) -> None:
    """The group of NULL is the first of all."""
    world = World(DIRECTED[name], random.Random(1), connection, G)
    groups = {0: None, 1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3}
    world.data["a"] = {(id,): (id, g, Decimal(id), "a") for id, g in groups.items()}
    world.begin([0], group_columns=1)
    world.append(0, ending(Key((None, 0)), 1))
    assert len(world.covered[0].rows) == 2, "the whole group of NULL"
    world.append(0, ending(Key((1, 2)), 1))
    for id, g in [(0, 2), (2, None), (4, 1), (5, 3), (6, 9), (7, None)]:
        world.data["a"][(id,)] = (id, g, Decimal(10 * id), "b")
    world.step()
    assert sorted(world.covered[0].rows) == [(1,), (2,), (3,), (4,), (6,), (7,)], "6 is behind the last group"
    world.append(0, ending(Key((2, 0)), 1))
    world.append(0, ending(Key((3, 5)), 1))
    assert len(world.covered[0].rows) == len(groups)
    world.check_query()


def test_the_chunk_of_a_group_that_was_cut_is_noticed(connection: duckdb.DuckDBPyConnection) -> None:
    world = World(DIRECTED["count"], random.Random(1), connection, G)
    world.data["a"] = {(id,): (id, 1, Decimal(id), "a") for id in range(4)}
    world.begin([0], group_columns=1)
    world.append(0, Key((1, 1)))
    with pytest.raises(AssertionError, match="once more"):
        world.append(0, Key((1, 3)))
