"""Partitions that come with many rows, or with rows that cannot be indexed, and partitions that go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import tidefill
from tests.postgres.harness import Postgres
from tests.postgres.index.harness import Indexed
from tidefill.engine.engine import Engine
from tidefill.indexes import leaves
from tidefill.indexes.control import Control
from tidefill.indexes.next_action import TakeIn
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Method, State
from tidefill.postgres.index import partitions, refused
from tidefill.postgres.index.session import IndexSession
from tidefill.testing.turns import turns

Make: TypeAlias = Callable[..., Indexed]

ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
WAIT_S = 60.0


def attach(index: Indexed, *values: str) -> None:
    """A partition that has rows with these values when it comes."""
    index.sql("CREATE TABLE {t}_9 (LIKE {t} INCLUDING ALL)")
    for number, value in enumerate(values, 90):
        index.sql("INSERT INTO {t}_9 (id, r, v) VALUES (%s, 9, %s)", number, value)
    index.sql("ALTER TABLE {t} ATTACH PARTITION {t}_9 FOR VALUES IN (9)")


def look(index: Indexed) -> None:
    """What a runner does at its next look, half a minute later."""
    index.machine._keeper._tried_s = None
    index.run_until(lambda index: type(index.turn()).__name__ == "Wait")


def is_taking_in(index: Indexed) -> bool:
    return isinstance(index.planned(), TakeIn)


@pytest.mark.parametrize("method", list(Method))
def test_a_restart_goes_on_with_a_partition(indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method) -> None:
    """It is taken in by several turns, each with a checkpoint: no row is put twice."""
    monkeypatch.setattr(partitions, "TAKEN", 3)
    index = indexed(ROWS, method=method)
    index.run_to(State.VALIDATING)
    attach(index, *(f"n{number}" for number in range(8)))
    put = list[Any]()
    right = refused.put_rows

    def noted(session: IndexSession, control: Control, keys: Sequence[Any]) -> list[Any]:
        put.extend(keys)
        return right(session, control, keys)

    monkeypatch.setattr(refused, "put_rows", noted)
    index.run_before(TakeIn)
    index.turn()
    index.restart()
    while is_taking_in(index):
        index.turn()
    assert put == [(str(number), "9") for number in range(90, 98)]
    assert index.count("tidefill.index_chunks", "id LIKE '%/%'") == 0
    index.run()
    assert index.differences() == []


def test_a_row_that_is_refused_has_an_entry_once_it_can(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    attach(index, "nine", "v1", "v1", "ten")
    look(index)
    assert [row[0] for row in index.differences()] == ["missing", "missing"]
    assert report(index) == {
        "total": 1, "refused": 2, "keys": [{"key": "(v1)", "rows": ["(1,1)", "(91,9)", "(92,9)"], "count": 3}]
    }  # fmt: skip
    index.sql("DELETE FROM {t} WHERE id = 1")
    look(index)
    assert report(index)["refused"] == 1
    index.sql("UPDATE {t} SET v = 'v100' WHERE id = 92")
    look(index)
    assert report(index) is None
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (200, 1, 'v1')") == "23505"


def test_a_row_without_a_key_does_not_hold_up_its_batch(indexed: Make) -> None:
    index = indexed(ROWS, columns=("(10 / b)",), include=(), unique=False)
    index.run()
    index.sql("CREATE TABLE {t}_9 (LIKE {t} INCLUDING ALL)")
    index.sql("INSERT INTO {t}_9 (id, r, b) SELECT n, 9, n - 95 FROM generate_series(90, 99) n")
    index.sql("ALTER TABLE {t} ATTACH PARTITION {t}_9 FOR VALUES IN (9)")
    look(index)
    assert index.count("{e}", "p1 >= 90") == 9
    assert report(index)["keys"] == [{"key": "none: division by zero", "rows": ["(95,9)"], "count": 1}]
    index.sql("DELETE FROM {t} WHERE id = 95")
    look(index)
    assert report(index) is None
    assert index.differences() == []


def test_each_block_is_searched_for_orphans_once(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index = indexed([(number, number % 4, f"v{number:0500}") for number in range(1, 101)])
    index.run()
    (blocks,) = index.sql(leaves.blocks(index.shape))[0]
    assert blocks > 4
    monkeypatch.setattr(leaves, "BLOCKS", 2)
    monkeypatch.setattr(leaves, "ORPHANS", 3)
    searched, right = list[int](), leaves.orphans

    def noted(shape: Shape, block: int) -> str:
        searched.append(block)
        return right(shape, block)

    monkeypatch.setattr(leaves, "orphans", noted)
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    look(index)
    assert searched == list(range(0, blocks, 2))
    assert index.differences() == []


# Without a rule: the anomaly that it answers.


def test_without_the_checkpoint_a_restart_begins_again(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "TAKEN", 3)
    monkeypatch.setattr(leaves, "note_reached", lambda shape, trigger: "SELECT %s::text[], %s::bigint")
    index = indexed(ROWS)
    index.run()
    attach(index, *(f"n{number}" for number in range(8)))
    for _ in range(4):
        index.turn()
        index.restart()
    assert is_taking_in(index)
    assert index.count("{e}", "p1 >= 90") == 3


def test_without_a_note_a_refused_row_never_has_an_entry(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused, "note", lambda connection, shape, keys: None)
    index = indexed(ROWS)
    index.run()
    attach(index, "nine", "v1")
    look(index)
    index.sql("DELETE FROM {t} WHERE id = 1")
    look(index)
    assert [row[0] for row in index.differences()] == ["missing"]


def report(index: Indexed) -> Any:
    return index.sql("SELECT report FROM tidefill.indexes")[0][0]


@pytest.fixture
def engine(postgres: Postgres, tmp_path: Path) -> Iterator[Engine]:
    postgres.execute("CREATE TABLE parts (id int, r int, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r)")
    postgres.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)")
    postgres.execute("INSERT INTO parts SELECT n, 1, 'v' || n FROM generate_series(1, 20) n")
    with tidefill.connect(None, tmp_path / "lake", tmp_path / "store", {"shop": postgres.server.url()}) as made:
        yield made
        for job in made.jobs():
            job.drop()
            job.wait(WAIT_S, gone=True)
        postgres.execute("DROP TABLE parts")


def test_a_live_index_says_that_it_is_violated(engine: Engine, postgres: Postgres) -> None:
    job = engine.create_index("parts_v", "shop.public.parts", "v", unique=True).wait(WAIT_S)
    postgres.execute("CREATE TABLE parts_2 (LIKE parts INCLUDING ALL)")
    postgres.execute("INSERT INTO parts_2 VALUES (7, 2, 'v7'), (8, 2, 'new')")
    postgres.execute("ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2)")
    turns(engine, 2)
    status = job.status()
    assert (status.state, status.condition) == ("live", "VIOLATED (1 row without an entry)")
    engine._store.change(job.id, lambda row: replace(row, condition=""))  # a runner died before its report
    assert job.status().condition == ""
    turns(engine, 1)
    assert job.status().condition == status.condition, "another runner reports what the server has"
    assert status.condition in str(status)
    assert ("condition", status.condition) in engine.execute("SHOW JOB parts_v").rows
    assert engine.execute("SHOW VIOLATIONS parts_v").rows == (("(v7)", 2, "(7,1), (7,2)"),)
    assert any("1 rows have keys of others" in text for text in map(str, job.events()))
    postgres.execute("UPDATE parts SET v = 'other' WHERE r = 2 AND id = 7")
    turns(engine, 2)
    assert job.status().condition == ""
    assert job.violations() == []
    assert job.verify().differences == ()
