"""What the machine asks of its upstream; and what it does when a commit fails: it finds out more, and raises what tells
most."""

from __future__ import annotations

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.core.confirm import Anchor
from tidefill.core.look import Pace
from tidefill.core.step import Knobs, Step, plan_step
from tidefill.core.version import Version
from tidefill.errors import HistoryGone, KeyNotUnique, TidefillError, Unreadable
from tidefill.jobs.row import Job
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import QUERIES
from tidefill.testing.memory.tables import VALUE
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup


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


def test_a_small_table_is_not_asked_for_its_greatest_key(monkeypatch: pytest.MonkeyPatch) -> None:
    # R7
    def beyond(self: DeltaLike, at: Version) -> None:
        raise AssertionError("asked for the greatest key")

    monkeypatch.setattr(DeltaLike, "beyond", beyond)
    stage = Stage(Setup(rows=0), rows=rows(6))
    machine = stage.build(stage.job)
    machine.prepare({})
    truth = machine.recover(stage.job, None)

    def ends(whole_rows: int) -> object:
        look = machine.glimpse(stage.job, truth, Pace(whole_rows=whole_rows), 0.0)
        return machine.look(truth, look, Knobs()).at_once

    assert ends(6) is True
    with pytest.raises(AssertionError, match="asked for"):
        ends(5)


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

    monkeypatch.setattr(DeltaLike, "on_unreadable", lost)
    stage = Stage(Setup(rows=0), rows=rows(6))
    with pytest.raises(HistoryGone):
        first_step_fails(stage, monkeypatch, Unreadable("files are gone"))
    assert len(asked) == 1


def effects_of_a_forward(query: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens in the first step of a live job after one row has changed."""
    number = next(place for place, one in enumerate(QUERIES) if one.name == query)
    table = [row(key, key, key, 1) for key in range(6)]
    stage = Stage(Setup(rows=0, query=number), rows=table)
    stage.go_live()
    stage.commit_upstream([(-1, table[3]), (1, (*table[3][:VALUE], 7))])
    happened: list[str] = []
    effect = stage.world.effect

    def noted(name: str) -> None:
        happened.append(name)
        effect(name)

    monkeypatch.setattr(stage.world, "effect", noted)
    stage.go_steps(1)
    return happened


def test_a_forward_that_needs_no_whole_input_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = effects_of_a_forward("replica", monkeypatch)
    assert "upstream.changes" in happened
    assert "upstream.rows" not in happened


def test_one_that_needs_it_asks_before_the_upstream_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = effects_of_a_forward("groups merged", monkeypatch)
    rows_at = happened.index("upstream.rows")
    assert "upstream.check" in happened[rows_at : happened.index("target.commit")]
