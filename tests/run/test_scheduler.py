"""Whose turn it is: back-off, waking, wishes, heartbeat, leases given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from tests.cli.stores import VIEW, row
from tidefill.errors import Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import Part, PlannedViewDefinition, job_to_text
from tidefill.jobs.graph import Graph
from tidefill.jobs.row import Job, Lease
from tidefill.run import scheduler as service
from tidefill.run.runner import LEASE_S, POLL_S, Turn
from tidefill.run.scheduler import IDLE_S_MAX, Scheduler
from tidefill.testing.memory.store import MemoryStore

IDLE = Turn(False)


@dataclass
class Clock:
    now: float = 1000.0

    def now_s(self) -> float:
        return self.now


@dataclass
class Turns:
    """A runner that answers as it is told and remembers when it was asked."""

    clock: Clock
    answers: dict[str, list[Turn]] = field(default_factory=dict)
    asked: list[tuple[str, float]] = field(default_factory=list)
    inside: Callable[[], None] = lambda: None

    def turn(self, job_id: str, graph: Graph | None = None) -> Turn:
        self.asked.append((job_id, self.clock.now))
        self.inside()
        answers = self.answers.get(job_id, [])
        return answers.pop(0) if answers else IDLE


@dataclass
class Stage:
    clock: Clock = field(default_factory=Clock)
    store: MemoryStore = field(default_factory=MemoryStore)
    turns: Turns = field(init=False)
    service: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.turns = Turns(self.clock)
        self.service = Scheduler(self.store, self.turns, self.clock, "me")

    def rounds(self, until_s: float) -> None:
        """Rounds, each as soon as the last one says."""
        while self.clock.now < until_s:
            self.clock.now += max(self.service.round(threading.Event()), 0.01)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.store.create(Job("a", "a", "{}"))
    return made


def test_an_idle_job_is_asked_less_and_less_often(stage: Stage) -> None:
    stage.rounds(1200.0)
    times = [at for _, at in stage.turns.asked]
    gaps = [round(after - before) for before, after in pairwise(times)]
    assert gaps[:6] == [POLL_S, 2, 4, 8, 16, IDLE_S_MAX]
    assert set(gaps[6:]) == {IDLE_S_MAX}


def test_a_wish_is_seen_at_once(stage: Stage) -> None:
    stage.rounds(1100.0)
    stage.service.round(threading.Event())
    asked = len(stage.turns.asked)
    stage.service.round(threading.Event())
    assert len(stage.turns.asked) == asked, "it is not due"
    stage.store.change("a", jobs.wish_resync)
    stage.service.round(threading.Event())
    assert len(stage.turns.asked) == asked + 1


def over(*tables: str) -> str:
    return job_to_text(PlannedViewDefinition("", (), (), tuple(Part(name, name, (), (), ("id",)) for name in tables)))


def asked_after_a_turn_of_a(stage: Stage, turn: Turn, **reads: str) -> list[str]:
    """Who has a turn in the round in which `a`, long idle like all others, has this one. `reads`: their definitions."""
    for name in ("b", "c"):
        stage.store.create(Job(name, name, reads[name]))
    stage.store.change("a", lambda job: replace(job, definition=reads["a"]))
    stage.rounds(1100.0)
    stage.service.round(threading.Event())
    stage.turns.asked.clear()
    stage.turns.answers["a"] = [turn]
    stage.store.change("a", jobs.wish_resync)
    stage.service.round(threading.Event())
    return [job for job, _ in stage.turns.asked]


def test_work_on_one_wakes_those_that_share_an_input_and_nobody_else(stage: Stage) -> None:
    reads = {"a": over("t"), "b": over("u"), "c": over("t", "u")}
    assert asked_after_a_turn_of_a(stage, Turn(True, 0.0), **reads) == ["a", "c"]


def test_a_turn_in_which_nothing_was_done_wakes_nobody(stage: Stage) -> None:
    assert asked_after_a_turn_of_a(stage, IDLE, a=over("t"), b=over("t"), c=over("a")) == ["a"]


def test_who_shares_an_input() -> None:
    """What was made, what is read, and who reads the same; a name is a name however it is written."""
    view, beside, other = row("view", 1), row("beside", 2), row("other", 3, replace(VIEW, input="others"))
    above = row("above", 4, replace(VIEW, input="VIEW"))
    graph = Graph((view, beside, other, above))
    pairs = {(one.name, two.name) for one in graph.rows for two in graph.woken_by(one)}
    assert pairs == {("view", "beside"), ("beside", "view"), ("view", "above"), ("above", "view")}


def test_what_a_job_waits_for_says_when_it_is_asked_again(stage: Stage) -> None:
    stage.turns.answers["a"] = [Turn(False, 7.0)]
    stage.rounds(1008.0)
    assert [at for _, at in stage.turns.asked][:2] == pytest.approx([1000.0, 1007.0], abs=0.1)


def test_a_store_that_does_not_answer_is_asked_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[Job]:
        raise Unavailable("locked")

    monkeypatch.setattr(stage.store, "jobs", fail)
    assert stage.service.round(threading.Event()) == POLL_S


def test_leases_are_kept_while_a_turn_takes_long_and_given_back_at_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_S", 0.01)
    stage.store.create(Job("b", "b", "{}"))
    stage.store.change("a", lambda job: replace(job, lease=Lease("me", 1, 1001.0)))
    stage.store.change("b", lambda job: replace(job, lease=Lease("other", 1, 1001.0)))
    stop, renewed = threading.Event(), threading.Event()

    def until_renewed() -> None:
        while stage.store.rows["a"].lease.until_s < 1000.0 + LEASE_S:
            assert not renewed.wait(0.01)
        stop.set()

    stage.turns.inside = until_renewed
    stage.service.run(stop)
    assert stage.store.rows["a"].lease == Lease("", 1, 0.0)
    assert stage.store.rows["b"].lease == Lease("other", 1, 1001.0)
