"""What all machines work with, Spark, may be gone: no job fails for that, and none goes on with what is dead."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.simulation.stage import Stage, rows
from tidefill.engine.connect import connect
from tidefill.errors import RetryLater, SparkLost, Unavailable
from tidefill.jobs.lifecycle import Life
from tidefill.run.runner import Runner
from tidefill.run.scheduler import Scheduler
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import WorldClock
from tidefill.testing.simulation.script import Setup


def _dying(monkeypatch: pytest.MonkeyPatch, lost: RetryLater) -> tuple[Stage, Runner]:
    """A job in the middle of its backfill, whose commits fail from now on as if there were nobody to do them."""
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    runner = stage.start_runner()
    runner.turn(stage.job_id)

    def refused(*_: object) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    monkeypatch.setattr(MemoryTarget, "commit", refused)
    monkeypatch.setattr(runner, "_lost", lambda error: lost if isinstance(error, ConnectionRefusedError) else None)
    return stage, runner


def test_a_job_waits_for_another_spark_and_remembers_nothing_of_the_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, runner = _dying(monkeypatch, Unavailable("Spark does not answer any more"))
    for _ in range(3):
        runner.turn(stage.job_id)
    assert (stage.job.failure, stage.job.waiting) == (None, "Spark does not answer any more")
    assert len(runner._memory) == 0
    monkeypatch.undo()
    stage.go_live()


def test_without_another_spark_the_run_ends_and_gives_the_leases_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, runner = _dying(monkeypatch, SparkLost("the session is gone"))
    service = Scheduler(stage.store, runner, WorldClock(stage.world, 0.0), runner._owner)
    with pytest.raises(SparkLost):
        service.run(threading.Event())
    assert stage.job.life is not Life.FAILED
    assert stage.job.lease.owner != runner._owner
    assert SparkLost.exit_code


def test_only_a_session_that_was_given_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")

    class Dead:
        @property
        def version(self) -> str:
            raise ConnectionRefusedError("[Errno 111] Connection refused")

    class Lake:
        spark = Dead()

    for given, kind in ((Dead(), SparkLost), (None, Unavailable)):
        with connect(given, tmp_path / "lake", tmp_path / "store") as engine:  # type: ignore[arg-type]
            assert engine._lakes.lost(ValueError("it is not there yet")) is None
            engine._lakes._made = Lake()  # type: ignore[assignment]
            assert type(engine._lakes.lost(ValueError("any error of a dead Spark"))) is kind
            assert (not engine.uses_spark) == (given is None), "another one is made"
