"""What many jobs, and views on views, cost before anything is read: definitions are parsed, and the store is asked, as
often as needed and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stores import VIEW, made, row
from tests.jobs.test_definitions import JOIN
from tidefill.core.reasons import Reason
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.jobs import agreement as ticks
from tidefill.jobs import definition_text, definitions, graph
from tidefill.jobs.definitions import PlannedViewDefinition
from tidefill.jobs.graph import Graph
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.ports.machine import Outcome, Standing, Wait
from tidefill.run.in_step import Ticking
from tidefill.run.runner import LEASE_S, Runner, Turn
from tidefill.store.sql_store import SqlStore

LEVELS = 30
PARSES_MAX = 5_000


class Counted:
    """A function that counts how often it was called, and gives up when that is absurd."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        assert self.calls < PARSES_MAX, "it does not end"
        return self._function(*arguments, **named)


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Reads of definitions as values; most need no parse."""
    counted = Counted(definitions.job_from_text)
    monkeypatch.setattr(definitions, "job_from_text", counted)
    monkeypatch.setattr(graph, "job_from_text", counted)
    return counted


def over(*tables: str) -> PlannedViewDefinition:
    parts = (replace(JOIN.parts[0], table=name, occurrence=name) for name in tables)
    return replace(JOIN, parts=tuple(parts))


def ladder() -> list[Job]:
    """Two views a level, each over both views of the level below: there are 2^30 ways down."""
    names = [(f"a{level:02}", f"b{level:02}") for level in range(LEVELS)]
    lowest = [row(name, number, VIEW, life=Life.LIVE, published=1) for number, name in enumerate(names[0], 1)]
    above = [(name, below) for below, level in pairwise(names) for name in level]
    views = [
        row(name, number, over(*below), life=Life.LIVE, published=1)
        for number, (name, below) in enumerate(above, len(lowest) + 1)
    ]
    return [*lowest, *views]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made(tmp_path, *ladder()).close()
    with connect(store=tmp_path / ".tidefill") as made_of_it:
        yield made_of_it


def test_a_ladder_of_views_is_put_in_order(engine: Engine, parses: Counted) -> None:
    rows = list(reversed(engine._store.jobs()))
    names = [job.name[1:] for job in Graph(rows).order()]
    assert names == sorted(names)


def test_a_ladder_of_views_is_looked_through_for_replicas(engine: Engine, parses: Counted) -> None:
    engine._inputs.refuse_mixtures([f"a{LEVELS - 1:02}", f"b{LEVELS - 1:02}"])


def test_a_ladder_of_views_goes_in_step(engine: Engine, parses: Counted) -> None:
    rows = engine._store.jobs()
    found = engine._graph_of(rows)
    reads = found.reads
    (members,) = ticks.in_step(reads).values()
    assert len(members) == 2 * LEVELS - 2
    assert ticks.blocked_by(rows[-1].id, reads, {job.id: job for job in rows}) is None
    assert Ticking(engine._store).group(rows[0], found).member


# A round of idle jobs


class Idle:
    """A machine that finds nothing new."""

    resources: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None

    def recover(self, job: Job, last: object) -> Outcome[str]:
        return Outcome("what is true")

    def plan(self, *arguments: object) -> Wait:
        return Wait(Reason.IDLE)

    def standing(self) -> Standing:
        return Standing()


ASKS = ("jobs", "job", "find", "table", "tables", "events", "change")


def test_an_idle_round_reads_the_store_once_and_parses_and_writes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "_build", lambda *_: Idle())
    service, now_s = engine.scheduler(), 1000.0
    monkeypatch.setattr(engine._clock, "now_s", lambda: now_s)
    service.round(threading.Event())
    assert {job.waits_for for job in engine._store.jobs()} == {Reason.IDLE.code}
    parsed = Counted(definition_text.parsed)
    monkeypatch.setattr(definitions, "parsed", parsed)
    counts = {name: Counted(getattr(SqlStore, name)) for name in ASKS}
    for name, counted in counts.items():
        monkeypatch.setattr(SqlStore, name, partialmethod(counted))
    now_s += LEASE_S / 4
    turns = Counted(Runner.turn)
    monkeypatch.setattr(Runner, "turn", partialmethod(turns))
    service.round(threading.Event())
    assert turns.calls == 2 * LEVELS, "all of them are due"
    read = {name: counted.calls for name, counted in counts.items() if counted.calls}
    assert (read, parsed.calls) == ({"jobs": 1, "tables": 1}, 0)


def test_a_turn_that_did_something_is_seen_by_the_next_of_the_round(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a view would come to a new version only a round after what it reads."""
    seen: list[int] = []

    def turn(runner: Runner, job_id: str, seen_now: Graph) -> Turn:
        seen.append(len([job for job in seen_now.rows if job.waiting == "worked"]))
        engine._store.change(job_id, lambda job: replace(job, waiting="worked"))
        return Turn(True, None)

    monkeypatch.setattr(Runner, "turn", turn)
    engine.scheduler().round(threading.Event())
    assert seen == list(range(2 * LEVELS))
