"""Indexes for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index.harness import Indexed


@pytest.fixture
def indexed(postgres: Postgres) -> Iterator[Callable[..., Indexed]]:
    """Makes tables with an index; all of them go at the end of the test."""
    made: list[Indexed] = []

    def make(*words: Any, **more: Any) -> Indexed:
        made.append(Indexed(postgres, *words, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
