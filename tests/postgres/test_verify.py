"""A verification goes through a replica piece by piece: the job goes on, no snapshot is held for longer than one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.stress import PIECE_ROWS, Copy
from tidefill.core.keys import Key
from tidefill.jobs.lifecycle import Life
from tidefill.ports.frames import Compared
from tidefill.run.backfill import Backfill

ROWS = 1000


@pytest.fixture
def copy(postgres: Postgres) -> Iterator[Copy]:
    name = f"verified_{random.randrange(1 << 30)}"
    postgres.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, value int)")
    postgres.execute(f"INSERT INTO {name} SELECT n, n FROM generate_series(1, {ROWS}) n")
    postgres.execute(f"ANALYZE {name}")
    postgres.publish(name, name)
    made = Copy(postgres, name)
    yield made
    made.drop()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Key | None, Compared]]:
    """What was compared: after which key, and what came of it."""
    seen: list[tuple[Key | None, Compared]] = []
    verify = Backfill.verify

    def noted(self: Backfill[Any], job: Any, truth: Any, versions: Any, after: Key | None, rows: int) -> Compared:
        compared = verify(self, job, truth, versions, after, rows)
        seen.append((after, compared))
        return compared

    monkeypatch.setattr(Backfill, "verify", noted)
    return seen


def filled(copy: Copy) -> None:
    turns(copy, lambda: copy.job.life is Life.VERIFYING)


def turns(copy: Copy, done: Callable[[], bool]) -> None:
    for _ in range(200):
        if done() or copy.job.failure is not None:
            return
        copy.turn()
    raise AssertionError(copy.job)


def told(copy: Copy) -> list[str]:
    return [text for _, text in copy._store.events("j")]


def test_it_goes_by_pieces_that_lie_side_by_side(copy: Copy, pieces: list[tuple[Key | None, Compared]]) -> None:
    # R36
    copy.catch_up()
    assert len(pieces) >= ROWS // PIECE_ROWS
    assert [after for after, _ in pieces] == [None, *(compared.upto for _, compared in pieces[:-1])]
    assert pieces[-1][1].upto is None
    assert sum(compared.rows for _, compared in pieces) == ROWS
    assert max(compared.rows for _, compared in pieces) <= 2 * PIECE_ROWS
    assert any(text.startswith(f"verified: {ROWS} rows equal a recompute") for text in told(copy))


def test_the_job_follows_between_two_pieces(
    copy: Copy, postgres: Postgres, pieces: list[tuple[Key | None, Compared]]
) -> None:
    # R36
    filled(copy)
    commits, compared = copy.commits, 0

    def writers_write() -> bool:
        nonlocal compared
        postgres.execute(f"UPDATE {copy._name} SET value = value + 1 WHERE id % 100 = {len(pieces)}")
        if len(pieces) > compared:
            compared = len(pieces)
            copy._world.now += 60.0  # longer than a head is kept
        return copy.job.life is Life.LIVE

    turns(copy, writers_write)
    assert copy.job.life is Life.LIVE, copy.job
    assert copy.commits >= commits + len(pieces) - 1, "each piece at a version of its own"
    copy.catch_up()
    assert copy.rows() == sorted(postgres.execute(f"SELECT * FROM {copy._name}"))


def test_a_head_that_is_given_up_costs_one_piece(
    copy: Copy, pieces: list[tuple[Key | None, Compared]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # R36
    filled(copy)
    turns(copy, lambda: len(pieces) == 2)
    rows_at = type(copy._upstreams[-1]).rows
    given_up: list[bool] = []

    def rows(self: Any, *words: Any) -> Any:
        """Somebody waits for us by now."""
        frame = rows_at(self, *words)
        if not given_up:
            given_up.append(True)
            self._head.closed.set()
        return frame

    monkeypatch.setattr(type(copy._upstreams[-1]), "rows", rows)
    turns(copy, lambda: copy.job.life is Life.LIVE)
    assert given_up
    assert [after for after, _ in pieces].count(None) == 1, "it did not begin again"
    assert sum(compared.rows for _, compared in pieces) == ROWS
    assert pieces[2][1].rows <= PIECE_ROWS, "half as large"


@pytest.mark.parametrize("place", [1, 500, ROWS])
def test_a_row_that_differs_is_found_in_whatever_piece_it_is(copy: Copy, place: int) -> None:
    filled(copy)
    table = copy._catalog.at("j-1")
    table.snapshots[-1] = {**table.snapshots[-1], place: ((place, -1),)}
    turns(copy, lambda: copy.job.life is Life.LIVE)
    assert copy.job.failure is not None
    assert (copy.job.failure.code, f"({place}, -1)" in copy.job.failure.detail) == ("VERIFY_FAILED", True)


def test_a_row_that_should_not_be_there_is_found_beyond_the_last(copy: Copy) -> None:
    filled(copy)
    table = copy._catalog.at("j-1")
    table.snapshots[-1] = {**table.snapshots[-1], ROWS + 50: ((ROWS + 50, 1),)}
    turns(copy, lambda: copy.job.life is Life.LIVE)
    assert copy.job.failure is not None
    assert copy.job.failure.code == "VERIFY_FAILED"
