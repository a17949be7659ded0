"""Runs the jobs of a store: whose turn it is, how long an idle one is left alone, and the heartbeat of the leases.

One turn at a time. An idle job is asked less and less often; a wish, or work on something that it reads, wakes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from tidefill.errors import RetryLater, TidefillError
from tidefill.jobs import row as jobs
from tidefill.jobs.graph import Graph, GraphOf
from tidefill.jobs.row import Job
from tidefill.ports.clock import Clock
from tidefill.ports.store import Store
from tidefill.run.runner import LEASE_S, POLL_S, Turn

IDLE_S_MAX = 30.0
HEARTBEAT_S = LEASE_S / 4
STORE_POLL_S = 0.5  # how soon a wish is seen

LOG = logging.getLogger("tidefill.service")


@dataclass(frozen=True, slots=True)
class _Due:
    at_s: float = 0.0
    idle_s: float = POLL_S
    wish_number: int = -1


class Turns(Protocol):
    """`tidefill.run.runner.Runner`, as far as it is needed here."""

    def turn(self, job_id: str, graph: Graph | None = None) -> Turn: ...


class Scheduler:
    """`graph_of`: who reads whom, by the rows of the store. `let_go`: ends what the runner holds, when no turn will
    follow."""

    def __init__(
        self,
        store: Store,
        runner: Turns,
        clock: Clock,
        owner: str,
        graph_of: GraphOf = Graph,
        log: logging.Logger = LOG,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._runner = runner
        self._clock = clock
        self._owner = owner
        self._graph_of = graph_of
        self._log = log
        self._let_go = let_go
        self._due: dict[str, _Due] = {}

    def look(self) -> Graph:
        """All jobs, as they are now."""
        return self._graph_of(self._store.jobs())

    def run(self, stop: threading.Event, until: Callable[[], bool] = lambda: False) -> None:
        """Take turns of every job until `stop` is set or `until` returns True. The turn that is under way is
        finished."""
        with self.alive():
            while not stop.is_set() and not until():
                wait_s = self.round(stop)
                stop.wait(min(wait_s, STORE_POLL_S))

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Keep the leases while a turn takes long; give them back at the end."""
        done = threading.Event()
        beating = threading.Thread(target=self._beat, args=(done,), name="tidefill-heartbeat", daemon=True)
        beating.start()
        try:
            yield
        finally:
            try:
                self._let_go()
            finally:
                done.set()
                beating.join()
                self._release()

    def round(self, stop: threading.Event) -> float:
        """Take one turn of each job that is due. Returns in how many seconds the next turn is due. The store is read
        once, and again after each turn that did something, so that the turns after it see what it did."""
        try:
            graph = self.look()
        except RetryLater as error:
            self._log.warning("the store does not answer: %s", error.fact)
            return POLL_S
        seen, self._due = graph, {job.id: self._due_of(job) for job in graph.rows}
        for job in graph.rows:
            if self._due[job.id].at_s <= self._clock.now_s() and not stop.is_set() and self.turn(job, seen).worked:
                with suppress(RetryLater):
                    seen = self.look()
        now_s = self._clock.now_s()
        return max(0.0, min((due.at_s for due in self._due.values()), default=now_s + POLL_S) - now_s)

    def _due_of(self, job: Job) -> _Due:
        known = self._due.get(job.id, _Due())
        return known if known.wish_number == job.wish_number else _Due(wish_number=job.wish_number)

    def turn(self, job: Job, graph: Graph | None = None) -> Turn:
        """One turn of this job, and when the next is due. `graph`: as for `Runner.turn`; without it no other job is
        woken."""
        turn = self._runner.turn(job.id, graph)
        before = self._due.get(job.id, _Due(wish_number=job.wish_number))
        now_s = self._clock.now_s()
        if turn.worked:
            self._due[job.id] = _Due(now_s + (turn.again_in_s or 0.0), POLL_S, before.wish_number)
            for other in () if graph is None else graph.woken_by(job):
                self._due[other.id] = _Due(wish_number=self._due_of(other).wish_number)
        else:
            wait_s = before.idle_s if turn.again_in_s in (None, POLL_S) else turn.again_in_s
            idle_s = min(before.idle_s * 2, IDLE_S_MAX)
            self._due[job.id] = _Due(now_s + (wait_s or 0.0), idle_s, before.wish_number)
        return turn

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(HEARTBEAT_S):
            self._for_each_of_ours(jobs.renew(self._owner, self._clock.now_s(), LEASE_S))

    def _release(self) -> None:
        self._for_each_of_ours(jobs.release_own(self._owner))

    def _for_each_of_ours(self, change: Callable[[Job], Job]) -> None:
        """Apply the change, which leaves other jobs alone, to every job whose lease this runner has. Errors are
        ignored: a lease that is not renewed or given back ends by itself after LEASE_S."""
        with suppress(TidefillError):
            ours = [job.id for job in self._store.jobs() if change(job) != job]
            if ours:
                self._store.change_each(ours, change)
