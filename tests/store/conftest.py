"""A new store in a file whose name would trip up careless code."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidefill.store.sql_store import SqlStore, open_store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some where" / "#1?mode=ro" / "störe.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqlStore]:
    with open_store(file) as opened:
        yield opened
