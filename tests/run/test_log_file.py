"""Each engine writes what it does into the log beside its store, once; the application's own logging stays its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine

TOLD = ["going: being dropped", "going: dropped"]


class Kept(logging.Handler):
    """A handler of the application."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def application() -> Iterator[Kept]:
    """Its root logger takes warnings only, as it does by default."""
    kept, root, ours = Kept(), logging.getLogger(), logging.getLogger("tidefill")
    level, ours_before = root.level, (ours.level, ours.propagate)
    root.addHandler(kept)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    ours.propagate = True
    yield kept
    root.removeHandler(kept)
    root.setLevel(level)
    ours.setLevel(ours_before[0])
    ours.propagate = ours_before[1]


def opened(folder: Path) -> Engine:
    made(folder, row("going", wants_end=True)).close()
    return connect(store=folder / ".tidefill")


def logged(folder: Path) -> list[str]:
    file = folder / ".tidefill" / "tidefill.log"
    return [json.loads(line)["text"] for line in file.read_text().splitlines()] if file.exists() else []


def work(engine: Engine) -> None:
    engine.job("going").wait(60, gone=True)


def test_the_level_and_the_propagation_are_the_applications(application: Kept, tmp_path: Path) -> None:
    ours = logging.getLogger("tidefill")
    handlers = list(ours.handlers)
    with opened(tmp_path) as engine:
        assert (ours.level, ours.propagate, ours.handlers) == (logging.NOTSET, True, handlers)
        work(engine)
    assert application.texts == [], "it takes no information"
    assert logged(tmp_path) == TOLD, "the file does"


def test_an_application_that_asks_for_it_sees_it_once(application: Kept, tmp_path: Path) -> None:
    logging.getLogger("tidefill").setLevel(logging.INFO)
    with opened(tmp_path) as engine, connect(store=tmp_path / ".tidefill"):
        work(engine)
    assert application.texts == TOLD


def test_two_engines_of_one_store_write_each_line_once(tmp_path: Path) -> None:
    with opened(tmp_path) as engine:
        with connect(store=tmp_path / ".tidefill"):
            pass
        with connect(store=tmp_path / ".tidefill"):
            work(engine)
    assert logged(tmp_path) == TOLD


def test_two_engines_of_two_stores_write_what_is_theirs(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as engine, opened(tmp_path / "b"):
        work(engine)
    assert (logged(tmp_path / "a"), logged(tmp_path / "b")) == (TOLD, [])
