"""How often a step reads a table."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest
from sqlglot import exp

from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.world import World
from tidefill.views.plan.limits import Reading
from tidefill.views.plan.statement import Script


def script(name: str, changed: list[str], connection: duckdb.DuckDBPyConnection) -> Script:
    """For changes of these, where all tables are large."""
    world = World(DIRECTED[name], random.Random(1), connection)
    return world.plan.changes(changed, Reading(world.reading.types, frozenset(world.reading.types)))


def reads(found: Script) -> Counter[str]:
    """How often each input and each stage is read by all statements together. (What a WITH names is computed wherever
    it is named.)"""
    return sum((_reads(query) for query in (*(stage.query for stage in found.stages), found.last)), Counter())


def _reads(query: exp.Query) -> Counter[str]:
    steps = {cte.alias: cte.this for cte in query.ctes}
    last = query.copy()
    last.set("with_", None)

    def of(tree: exp.Expr) -> Counter[str]:
        names = [table.name for table in tree.find_all(exp.Table)]
        return sum((of(steps[name]) if name in steps else Counter([name]) for name in names), Counter())

    return of(last)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("EXISTS", ["a", "b"]),
        ("EXISTS", ["b"]),
        ("NOT EXISTS", ["a", "b"]),
        ("left join", ["a", "b"]),
        ("full join", ["a"]),
        ("nested aggregate", ["a"]),
        ("count of DISTINCT", ["a"]),
        ("row number", ["a"]),
    ],
)
def test_what_was_follows_from_what_is(name: str, changed: list[str], connection: duckdb.DuckDBPyConnection) -> None:
    found = reads(script(name, changed, connection))
    assert {table: often for table, often in found.items() if table.startswith("__tf_old")} == {}
    assert max(often for table, often in found.items() if table.startswith("__tf_new")) == 1


def test_what_did_not_change_is_joined_to_all_changes_together(connection: duckdb.DuckDBPyConnection) -> None:
    found = reads(script("three tables", ["a", "b"], connection))
    assert found["__tf_new_2"] == 1


def test_those_that_changed_but_are_not_tied_are_not_joined_first(connection: duckdb.DuckDBPyConnection) -> None:
    """b and c meet only by way of a."""
    found = reads(script("three tables", ["b", "c"], connection))
    assert found["__tf_new_1"] == 2


def test_what_is_large_is_joined_first(connection: duckdb.DuckDBPyConnection) -> None:
    """Right after the changes, of which Spark knows that they are few."""
    sql = "SELECT b.id FROM b JOIN a ON b.aid = a.id JOIN c ON c.id1 = b.y"
    world = World(sql, random.Random(1), connection)
    large = frozenset(column for scan in world.plan.scans if scan.table == "c" for column in scan.columns)
    last = world.plan.changes(["b"], Reading(world.reading.types, large)).last
    (term,) = (query for query in last.find_all(exp.Select) if len(query.args.get("joins") or ()) == 2)
    first, second = (_reads_of(join.this.name, last) for join in term.args["joins"])
    assert (first, second) == ({"__tf_new_2"}, {"__tf_new_1"})


def _reads_of(step: str, query: exp.Query) -> set[str]:
    steps = {cte.alias: cte.this for cte in query.ctes}
    if step not in steps:
        return {step}
    return set().union(*(_reads_of(table.name, query) for table in steps[step].find_all(exp.Table)))
