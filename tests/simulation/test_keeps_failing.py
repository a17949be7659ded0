"""An error that nobody can name is tried again, but not for ever."""

from __future__ import annotations

import pytest

from tests.simulation.stage import Stage, rows
from tidefill.errors import RetryLater, Unavailable, Unexplained
from tidefill.jobs.lifecycle import Life
from tidefill.run.memory import SAME_FAILURES_MAX
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup

DELTA = Setup(chunk_rows=6)


def _failing(monkeypatch: pytest.MonkeyPatch, errors: list[RetryLater], turns: int) -> Stage:
    """A job whose commits fail with these errors in turn, after so many turns."""
    stage, raised = Stage(DELTA, rows=rows(20)), 0

    def fail(*_: object) -> None:
        nonlocal raised
        raised += 1
        raise errors[raised % len(errors)]

    monkeypatch.setattr(MemoryTarget, "commit", fail)
    runner = stage.start_runner()
    while raised < turns and stage.job.life is not Life.FAILED:
        runner.turn(stage.job_id)
    return stage


def test_a_job_that_keeps_failing_for_one_unknown_reason_stops_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = _failing(monkeypatch, [Unexplained("Spark gave up", detail="the shuffle is odd")], SAME_FAILURES_MAX)
    failure = stage.job.failure
    assert failure is not None
    assert failure.code == "KEEPS_FAILING"
    assert "Spark gave up" in failure.detail
    assert "the shuffle is odd" in failure.detail
    assert "RESUME" in failure.hint


def test_it_is_tried_again_before_that(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = _failing(monkeypatch, [Unexplained("Spark gave up")], SAME_FAILURES_MAX - 1)
    assert (stage.job.failure, stage.job.waiting) == (None, "Spark gave up")


@pytest.mark.parametrize(
    "errors",
    [[Unavailable("the lake is away")], [Unexplained("one thing"), Unexplained("another")]],
    ids=["what cannot be reached may come back", "the reasons differ"],
)
def test_other_troubles_are_waited_out(monkeypatch: pytest.MonkeyPatch, errors: list[RetryLater]) -> None:
    assert _failing(monkeypatch, errors, 3 * SAME_FAILURES_MAX).job.failure is None
