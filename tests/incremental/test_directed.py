"""R29, R30, R41: each operator with NULL, nothing, and duplicates, while it is filled and after that."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest

from tests.incremental.history import run
from tests.incremental.queries import DIRECTED
from tests.incremental.world import World, connected


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with connected() as made:
        yield made


@pytest.mark.parametrize("name", DIRECTED)
def test_a_view_is_its_query_over_what_is_covered(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    for seed in range(4):
        chance = random.Random(f"{name} {seed}")
        run(World(DIRECTED[name], chance, connection), steps=7)
