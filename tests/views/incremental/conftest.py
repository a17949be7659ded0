"""What the tests of incremental views share."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.views.incremental.world import connected


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of the module's own."""
    with connected() as made:
        yield made
