"""What the machine does when a commit fails: it finds out more, and raises what tells most."""

from __future__ import annotations

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.core.confirm import Anchor
from tidefill.core.jobs import Job
from tidefill.core.step import Knobs, Pace, Step, plan_step
from tidefill.core.version import Version
from tidefill.errors import HistoryGone, KeyNotUnique, TidefillError, Unreadable
from tidefill.testing.memory_delta import DeltaLike
from tidefill.testing.memory_target import MemoryTarget
from tidefill.testing.script import Setup


def first_step_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch, error: TidefillError) -> None:
    """The first step of the stage's job, whose commit raises the error."""

    def commit(*ignored: object) -> None:
        raise error

    monkeypatch.setattr(MemoryTarget, "commit", commit)
    job: Job = stage.job
    machine = stage.build(job)
    machine.prepare({})
    anchor: Anchor | None = None
    truth = machine.recover(job, anchor)
    seen = machine.look(truth, machine.glimpse(job, truth, Pace(), 0.0), Knobs())
    step = plan_step(truth.state, seen, Knobs(), machine.shape)
    assert isinstance(step, Step)
    machine.execute(job, truth, step)


def test_a_key_that_a_count_found_twice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # R34
    stage = Stage(Setup(rows=0), rows=[*rows(6), row(10, 3)])
    with pytest.raises(KeyNotUnique, match=r"e\.g\. \[10\]"):
        first_step_fails(stage, monkeypatch, KeyNotUnique("a change of one row met several rows"))


def test_a_count_that_nobody_can_explain_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(rows=0), rows=rows(6))
    with pytest.raises(KeyNotUnique, match="a change of one row met several rows"):
        first_step_fails(stage, monkeypatch, KeyNotUnique("a change of one row met several rows"))


def test_what_could_not_be_read_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    # R13
    asked: list[Version] = []

    def lost(self: DeltaLike, at: Version) -> None:
        asked.append(at)
        raise HistoryGone("nothing newer will do")

    monkeypatch.setattr(DeltaLike, "lost", lost)
    stage = Stage(Setup(rows=0), rows=rows(6))
    with pytest.raises(HistoryGone):
        first_step_fails(stage, monkeypatch, Unreadable("files are gone"))
    assert len(asked) == 1
