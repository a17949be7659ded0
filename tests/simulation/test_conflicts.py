"""A commit that lost against another one is tried again at once; one that loses again and again is not."""

from __future__ import annotations

import pytest

from tests.simulation.stage import Stage, rows
from tidefill.errors import CommitConflict
from tidefill.jobs.lifecycle import Life
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup


def test_conflicts_in_a_row_back_off_like_other_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(20))
    runner = stage.start_runner()

    def lose(*_: object) -> None:
        raise CommitConflict("somebody committed to the same table at the same moment")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTarget, "commit", lose)
        waits = [runner.turn(stage.job_id).again_in_s for _ in range(5)]
        assert waits == [0.0, 1.0, 2.0, 4.0, 8.0]
        assert stage.job.waiting == "somebody committed to the same table at the same moment"
    runner.turn(stage.job_id)
    assert stage.job.waiting == ""
    with monkeypatch.context() as patch:
        patch.setattr(MemoryTarget, "commit", lose)
        assert runner.turn(stage.job_id).again_in_s == 0.0, "the last one went well"
    stage.go_live()
    assert stage.job.life is Life.LIVE
