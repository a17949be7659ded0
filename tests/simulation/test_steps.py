"""The history of steps, as a runner writes it: what each step was, without one more transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.errors import Unavailable
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.status import ranges_of
from tidefill.jobs.steps import DoneStep
from tidefill.testing.memory.store import MemoryStore
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup

WRITES = ("change", "change_each", "add_event", "create", "delete", "open_tick", "keep_ticks")


def history(stage: Stage) -> list[DoneStep]:
    return list(stage.store.steps(stage.job_id))


def slowly(stage: Stage, call: Callable[..., Any]) -> Callable[..., Any]:
    def slow(target: MemoryTarget, *words: Any, **named: Any) -> Any:
        stage.world.now += 20.0
        return call(target, *words, **named)

    return slow


def test_each_step_is_there_with_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6, parallelism=2), rows=rows(60))
    monkeypatch.setattr(MemoryTarget, "commit", slowly(stage, MemoryTarget.commit))
    stage.go_live()
    steps = history(stage)
    assert [step.kind for step in steps[:-1]] == ["fill"] * stage.state.step
    assert steps[-1].kind == "verify"
    assert steps[-1].rows_in == 60
    first = steps[0]
    assert (first.chunks, len(list(ranges_of(first.ranges))), first.error) == (2, 2, "")
    assert first.phases["commit"] >= 20.0
    assert first.took_s >= sum(first.phases.values())
    assert set(first.phases) == {"look", "changes", "commit", "confirm"}
    assert sum(step.rows_out or 0 for step in steps) == 60
    (version,) = stage.state.versions.values()
    assert steps[-2].versions == {"t": (version.point.ordinal, version.point.ordinal)}


def test_a_forward_says_how_far_it_went() -> None:
    stage = Stage(Setup(chunk_rows=100), rows=rows(20))
    stage.go_live()
    (before,) = [version.point.ordinal for version in stage.state.versions.values()]
    assert before is not None
    stage.commit_upstream([(1, row(5))])
    stage.go(lambda: history(stage)[-1].kind == "forward")
    assert history(stage)[-1].versions == {"t": (before, before + 1)}
    assert history(stage)[-1].lag_versions == 1


def test_a_step_that_fails_is_told_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(30))
    stage.go_steps(1)
    commit = MemoryTarget.commit

    def refuse(target: MemoryTarget, *words: Any) -> None:
        raise Unavailable("the warehouse does not answer")

    monkeypatch.setattr(MemoryTarget, "commit", refuse)
    stage.go(lambda: any(step.error for step in history(stage)))
    assert history(stage)[-1].error == Unavailable.code
    monkeypatch.setattr(MemoryTarget, "commit", commit)
    stage.go_live()
    assert not history(stage)[-1].error


def test_the_history_adds_no_transaction_to_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Setup(chunk_rows=6), rows=rows(60))
    stage.go_steps(2)
    written = Counter[str]()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(store: MemoryStore, *words: Any, **named: Any) -> Any:
            written[name] += 1
            return call(store, *words, **named)

        return write

    for name in WRITES:
        monkeypatch.setattr(MemoryStore, name, counted(name, getattr(MemoryStore, name)))
    before = len(history(stage))
    stage.go_steps(3)
    assert stage.job.life is Life.BACKFILLING
    assert len(history(stage)) == before + 3
    assert written == {"change": 3 * 3}, "each step takes one write for the lease, one to begin, and one to report"
