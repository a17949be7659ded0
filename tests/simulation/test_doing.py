"""While a step is under way the store says what is being done, since when, and how far the target was behind then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.errors import Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import RowViewDefinition, job_to_text
from tidefill.jobs.row import Doing, Lease
from tidefill.jobs.row_json import job_from_json, job_to_json
from tidefill.jobs.status import Status, status_of
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup

DEFINITION = job_to_text(RowViewDefinition("t", "SELECT 1", ("id",), ("id",), ("id",), "the key"))
LONG_S = 20.0


def status(stage: Stage) -> Status:
    return status_of(replace(stage.job, definition=DEFINITION), stage.world.now)


class Slow:
    """A stage whose commits and comparisons take long. `seen`: how the job stood in the middle of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, setup: Setup, count: int) -> None:
        self.stage = Stage(setup, rows=rows(count))
        self.seen = list[Status]()
        self.takes_s = LONG_S
        for name in ("commit", "compare"):
            monkeypatch.setattr(MemoryTarget, name, self._slowly(getattr(MemoryTarget, name)))

    def _slowly(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def slow(target: MemoryTarget, *words: Any, **named: Any) -> Any:
            self.stage.world.now += self.takes_s
            self.seen.append(status(self.stage))
            return call(target, *words, **named)

        return slow

    def told(self) -> list[str]:
        return [str(each.doing) for each in self.seen]


def test_each_kind_of_step_is_told_while_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, Setup(chunk_rows=6, parallelism=2), 60)
    slow.stage.go_live()
    assert slow.told()[0] == "filling 2 chunks"
    assert slow.told()[-1] == "comparing with a recompute"
    first = slow.seen[0].doing
    assert first is not None
    assert first.for_s == pytest.approx(LONG_S, abs=1.0)
    assert (first.kind, first.chunks, len(first.ranges)) == ("fill", 2, 2)
    assert first.ranges[0].startswith("..")
    assert status(slow.stage).doing is None, "nothing is under way between steps"


def test_a_long_forward_does_not_say_that_there_is_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaLike, "lag_s", lambda _self, _at: 3.0)
    slow = Slow(monkeypatch, Setup(chunk_rows=100), 20)
    slow.stage.go_live()
    slow.stage.go(lambda: slow.stage.job.waiting != "")
    slow.seen.clear()
    slow.stage.commit_upstream([(1, row(5))])
    slow.stage.go(lambda: bool(slow.seen))
    (now,) = slow.seen
    assert (str(now.doing), now.waiting) == ("taking in changes", "")
    assert now.lag_versions == 1
    assert now.lag_s == pytest.approx(3.0 + LONG_S, abs=1.0)


def test_a_rate_is_told_until_a_step_takes_longer_than_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, Setup(chunk_rows=6), 60)
    slow.stage.go_steps(2)
    slow.takes_s = LONG_S / 2
    slow.stage.go_steps(1)
    assert slow.seen[-1].rows_per_s > 0, "not longer than the last one"
    slow.takes_s = LONG_S * 2
    slow.stage.go_steps(1)
    assert (slow.seen[-1].rows_per_s, slow.seen[-1].eta_s) == (0.0, None)
    assert (slow.seen[-1].lag_versions, slow.seen[-1].lag_s) == (None, None), "there may be one by now"


def test_what_ends_a_step_ends_what_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    runner = stage.start_runner()

    def fail(*_: object) -> None:
        raise Unavailable("the lake is away")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTarget, "commit", fail)
        runner.turn(stage.job_id)
    assert (stage.job.waiting, stage.job.doing) == ("the lake is away", None)


def test_a_runner_that_is_gone_does_nothing() -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    stage.go_steps(1)
    begun = replace(stage.job, doing=Doing("fill", stage.world.now))
    assert status_of(replace(begun, definition=DEFINITION), stage.world.now).doing is not None
    over = replace(begun, definition=DEFINITION, lease=Lease("r1", 1, stage.world.now - 1))
    assert status_of(over, stage.world.now).doing is None
    taken = jobs.acquire("another", stage.world.now + 1000, 60)(begun)
    assert taken.doing is None
    assert jobs.release_lease(begun).doing is None


def test_an_idle_look_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    stage.go_live()
    stage.go(lambda: stage.job.waiting != "")
    before = stage.job
    stage.runners[-1].turn(stage.job_id)
    assert stage.job is before


def test_a_row_of_an_earlier_release_can_be_read() -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    row = replace(stage.job, doing=Doing("fill", 1.0, chunks=2))
    assert job_from_json(job_to_json(row)) == row
    older = job_to_json(row)
    del older["doing"]
    assert job_from_json(older) == replace(row, doing=None)
