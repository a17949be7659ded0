"""Random queries, random histories: after every step the view is its query over what is covered."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.views.incremental.history import run
from tests.views.incremental.queries import RandomQuery
from tests.views.incremental.world import World, connected, some_walks

HISTORIES, HISTORIES_OF_SOAK, IN_A_RANGE = 40, 20_000, 500
RANGES_IN_FULL = 1
RANGES = [(max(first, HISTORIES), first + IN_A_RANGE) for first in range(0, HISTORIES_OF_SOAK, IN_A_RANGE)]


@pytest.mark.parametrize(
    ("first", "upto"),
    [
        (0, HISTORIES),
        *(pytest.param(*seeds, marks=pytest.mark.full) for seeds in RANGES[:RANGES_IN_FULL]),
        *(pytest.param(*seeds, marks=pytest.mark.soak) for seeds in RANGES[RANGES_IN_FULL:]),
    ],
)
def test_no_history_leads_astray(first: int, upto: int) -> None:
    """In ranges, so that processes can share them, and a run that is cut off has said how far it came."""
    with connected() as connection:
        for seed in range(first, upto):
            history(seed, connection)


def history(seed: int, connection: duckdb.DuckDBPyConnection) -> None:
    """All of it follows from the seed."""
    chance = random.Random(seed)
    sql = RandomQuery(chance)()
    try:
        run(World(sql, chance, connection, some_walks(chance)), steps=8)
    except Exception as error:
        error.add_note(f"seed {seed}: {sql}")
        raise
