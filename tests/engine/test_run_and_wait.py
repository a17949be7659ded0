"""Several calls that run jobs, in several threads of one engine: each is a runner of its own, and `wait` stands back
behind a runner that lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.engine.lakes import Lakes
from tidefill.errors import TimedOut
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Lease, release_lease
from tidefill.run.owner_process import new_owner
from tidefill.run.runner import LEASE_S, Runner, Turn

VIEW, OTHER = row("view", 1), row("other", 2)
HANGS_S = 60.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made(tmp_path, VIEW, OTHER).close()
    with connect(store=tmp_path / ".tidefill") as made_of_it:
        yield made_of_it


@pytest.fixture
def turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Which owner took a turn of which job. A turn makes its job live."""
    taken: list[tuple[str, str]] = []

    def turn(runner: Runner, job_id: str, graph: object = None) -> Turn:
        taken.append((runner._owner, job_id))
        engine._store.change(job_id, lambda job: replace(job, life=Life.LIVE))
        return Turn(True, None)

    monkeypatch.setattr(Runner, "turn", turn)
    return taken


class Polls(threading.Event):
    """A wish to stop that never comes. Whoever waits for it does something else first, and does not wait."""

    def __init__(self, at: dict[int, Callable[[], object]]) -> None:
        super().__init__()
        self._at = at
        self._hangs_s = time.monotonic() + HANGS_S
        self.count = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.count += 1
        assert time.monotonic() < self._hangs_s, "it hangs"
        self._at.get(self.count, lambda: None)()
        return False


def hold(engine: Engine, job_id: str, *, until_s: float = LEASE_S / 2) -> None:
    lease = Lease(new_owner(), 1, engine._clock.now_s() + until_s)
    engine._store.change(job_id, lambda job: replace(job, lease=lease))


def test_two_calls_have_two_owners(engine: Engine, turns: list[tuple[str, str]]) -> None:
    engine.job("view").wait(60)
    engine.job("other").wait(60)
    engine._store.change(VIEW.id, lambda job: replace(job, life=Life.CREATED))
    engine.job("view").wait(60)
    assert len({owner for owner, _ in turns}) == 2


def test_who_waits_takes_no_turn_while_a_live_runner_holds_the_job(
    engine: Engine, turns: list[tuple[str, str]]
) -> None:
    hold(engine, VIEW.id)
    with pytest.raises(TimedOut):
        engine.job("view").wait(0.5)
    assert turns == []
    polls = Polls({3: lambda: engine._store.change(VIEW.id, lambda job: replace(job, life=Life.LIVE))})
    engine.job("view").wait(60, stop=polls)
    assert turns == [], "the other runner has made it live"


@pytest.mark.parametrize("how", ["released", "over", "of a wrong clock"])
def test_who_waits_takes_over_when_the_runner_is_gone(engine: Engine, turns: list[tuple[str, str]], how: str) -> None:
    hold(engine, VIEW.id)

    def die() -> None:
        assert turns == []
        if how == "released":
            engine._store.change(VIEW.id, release_lease)
        else:
            hold(engine, VIEW.id, until_s=-1.0 if how == "over" else 100 * LEASE_S)

    polls = Polls({3: die})
    engine.job("view").wait(60, stop=polls)
    assert VIEW.id in {job for _, job in turns}


def test_a_new_job_is_left_to_a_runner_of_other_jobs_for_a_while(engine: Engine, turns: list[tuple[str, str]]) -> None:
    """The other may be in a turn that takes long: then the job is run here."""
    hold(engine, OTHER.id)
    polls = Polls({2: lambda: hold(engine, VIEW.id), 5: lambda: engine._store.change(VIEW.id, release_lease)})
    engine.job("view").wait(60, stop=polls)
    assert polls.count > 5, "it did not take the job at once"
    assert VIEW.id in {job for _, job in turns}


def test_spark_is_started_once_for_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together, inside, started = threading.Barrier(2, timeout=60), threading.Barrier(2), []

    class Lake:
        spark = None

    def make(lakes: Lakes) -> Lake:
        started.append(lakes)
        with suppress(threading.BrokenBarrierError):
            inside.wait(0.5)
        return Lake()

    monkeypatch.setattr(Lakes, "_make", make)
    with connect(store=tmp_path) as engine, ThreadPoolExecutor(2) as threads:

        def ask(_: int) -> object:
            together.wait()
            return engine._lake

        first, second = threads.map(ask, range(2))
    assert first is second
    assert len(started) == 1
