"""The life of a job whose machine is no backfill, on the production runner, with faults at any effect.

The life: created, waits for a writer, works, is verified, published, takes in more, fails and stops guarding, is
resumed, built anew, retires, and is dropped. What must hold at every change of the job's row:

- a job that is FAILED guards nothing, so that it refuses no writer while it stands still;
- the control row of a job is removed only after it has stopped guarding.
"""

from __future__ import annotations

from collections.abc import Callable

from tidefill.core.budget import Kept
from tidefill.errors import Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.run.runner import LEASE_S, Runner
from tidefill.testing.memory.store import MemoryStore
from tidefill.testing.memory.tally import Server, Tally, TallyRetiring, place_of
from tidefill.testing.memory.world import Died, Violation, World, WorldClock

JOB_ID, NAME, NUMBERS = "j1", "tally", 9
TURNS_MAX = 300


class TallyHistory:
    """One life. `fault`: what happens at effect number `at`: the process dies, or a call has no answer."""

    def __init__(self, at: int = 0, fault: type[BaseException] = Died) -> None:
        self.world = World()
        self.server = Server(numbers=list(range(NUMBERS)), busy=True)
        self.store = MemoryStore(self._effect)
        self.store.rows[JOB_ID] = Job(JOB_ID, NAME, "{}")
        self._fault = fault
        self._runners = 0
        self._runner = self._start()
        if at:
            self.world.next_due, self.world.on_due = at, self._strike

    def _strike(self, name: str) -> None:
        self.world.next_due = 1 << 60
        self.world.seen["fault"] += 1
        raise self._fault(f"in {name}")

    def _effect(self, name: str) -> None:
        self._check()
        self.world.effect(name)

    def _check(self) -> None:
        job = self.store.rows.get(JOB_ID)
        guards = [control for control in self.server.controls.values() if control.guards]
        if guards and (job is None or job.life in (Life.FAILED, Life.DROPPED)):
            raise Violation("no guard of the dead", f"{'no job' if job is None else job.life} and {guards}")

    def _start(self) -> Runner:
        """Another process."""
        self._runners += 1
        return Runner(
            self.store, WorldClock(self.world), lambda job: Tally(self.world, self.server, job), self,
            f"r{self._runners}", self.world.new_uuid, retires=lambda job: TallyRetiring(self.world, self.server),
        )  # fmt: skip

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove a control row (the runner's port)."""
        place = resource.name
        control = self.server.controls.get(place)
        if control is not None and control.guards and job.life is Life.CANCELLING:
            raise Violation("retired first", f"{place} still guards")
        self.world.effect("resource.remove")
        self.server.controls.pop(place, None)
        if self.server.shown.get(NAME) == place:
            del self.server.shown[NAME]

    def kept(self, resource: Resource) -> Kept | None:
        """The server keeps no log."""
        return None

    @property
    def job(self) -> Job:
        """The row in the store."""
        return self.store.rows[JOB_ID]

    def go(self, until: Callable[[], bool]) -> None:
        """Take turns until it holds. A process that dies is followed by another one after its lease."""
        for _ in range(TURNS_MAX):
            if until():
                return
            try:
                self._runner.turn(JOB_ID)
                self._check()
            except Died:
                self._runner = self._start()
                self.world.now += LEASE_S + 1
            self.world.now += 1.0
        raise AssertionError(f"still not so: {self.job.life} {self.job.waiting!r} {self.job.failure}")

    def wish(self, wish: Callable[[Job], Job]) -> None:
        """By a user."""
        self.store.rows[JOB_ID] = wish(self.job)

    def live(self) -> None:
        """The whole life, to its end."""
        self.go(lambda: self.job.waits_for == "OTHERS")
        self.server.busy = False
        self.go(self._is_up_to_date)
        self.server.numbers.append(NUMBERS)
        self.go(self._is_up_to_date)
        self._fail_and_resume()
        first = self.server.shown[NAME]
        self.wish(jobs.wish_resync)
        self.go(lambda: self._is_up_to_date() and self.server.shown[NAME] != first)
        assert list(self.server.controls) == [place_of(self.job)], "the older generation is gone"
        self.server.busy = True
        self.wish(jobs.wish_drop)
        self.go(lambda: self.job.life is Life.CANCELLING and self.job.waits_for == "OTHERS")
        self.server.busy = False
        self.go(lambda: self.job.life is Life.DROPPED)
        self.world.now += LEASE_S
        self.go(lambda: JOB_ID not in self.store.rows)
        assert (self.server.controls, self.server.shown) == ({}, {}), "nothing is left"

    def _fail_and_resume(self) -> None:
        """A number comes twice; a person mends that and resumes the job."""
        self.server.numbers.append(0)
        self.go(lambda: self.job.life is Life.FAILED)
        self.server.numbers[-1] = NUMBERS + 1
        self.wish(jobs.wish_resume)
        self.go(self._is_up_to_date)

    def _is_up_to_date(self) -> bool:
        shown = self.server.controls.get(self.server.shown.get(NAME, ""))
        copied = shown is not None and shown.entries == self.server.numbers
        return copied and self.job.life is Life.LIVE and self.job.waits_for == "IDLE"


FAULTS: tuple[type[BaseException], ...] = (Died, Unavailable)
