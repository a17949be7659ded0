"""R29, R30, R41: each operator with NULL, nothing, and duplicates, while it is filled and after that."""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pytest

from tests.views.incremental.history import move_and_lessen, run
from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.world import World, some_walks


@pytest.mark.parametrize("name", DIRECTED)
def test_a_view_is_its_query_over_what_is_covered(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    for seed in range(2):
        chance = random.Random(f"{name} {seed}")
        run(World(DIRECTED[name], chance, connection, some_walks(chance)), steps=7)


def test_a_value_that_comes_and_goes_within_a_step_is_no_extreme(connection: duckdb.DuckDBPyConnection) -> None:
    move_and_lessen(World(DIRECTED["min of a join"], random.Random(1), connection))


def test_a_row_that_comes_and_goes_within_a_step_makes_no_group(connection: duckdb.DuckDBPyConnection) -> None:
    """Its extreme is taken away from a group that the view never had."""
    world = World(DIRECTED["min of a join that nobody saw"], random.Random(1), connection)
    world.data["a"][(1,)] = (1, 0, Decimal("1.00"), "a")
    world.begin()
    del world.data["a"][(1,)]
    world.data["a"][(2,)] = (2, 0, Decimal("2.00"), "a")
    world.data["b"] = {(1,): (1, 1, 5, "a", 0.0), (2,): (2, 2, 5, "a", 0.0)}
    world.step()
    assert len(world.target) == 1
