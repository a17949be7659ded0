"""A simulation without a script of its own: the test says what happens when."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidefill.core.state import JobState
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.testing.memory.tables import Row, Table
from tidefill.testing.simulation.script import Act, Script, Setup
from tidefill.testing.simulation.simulation import Simulation

TURNS_MAX = 400


class Stage(Simulation):
    """Every commit is checked as in any simulation; faults excuse nothing unless the test says so."""

    def __init__(self, setup: Setup, acts: Iterable[Act] = (), rows: Iterable[Row] | None = None) -> None:
        super().__init__(Script(0, setup, tuple(acts)))
        if rows is not None:
            self.make_upstream(list(rows))

    @property
    def job(self) -> Job:
        """The row in the store."""
        return self.store.rows[self.job_id]

    @property
    def target(self) -> Table:
        """The table of the newest generation."""
        return self.catalog.tables[self.path(self.job, self.job.generation)]

    @property
    def state(self) -> JobState:
        """The newest state in the target's log."""
        payloads = [entry.payload for entry in self.target.entries if entry.payload is not None]
        return payloads[-1].state

    def go(self, until: Callable[[], bool], turns_max: int = TURNS_MAX) -> None:
        """Play until it holds."""
        for number in range(turns_max):
            if until():
                return
            self.play(number)
        raise AssertionError(f"still not so after {turns_max} turns: {self.job.life} {self.job.waiting!r}")

    def go_steps(self, steps: int) -> None:
        """Play so many commits."""
        wanted = self.steps + steps
        self.go(lambda: self.steps >= wanted)

    def go_live(self) -> None:
        """Play until the job is live."""
        self.go(lambda: self.job.life is Life.LIVE)

    def play_out(self) -> None:
        """Play until nothing more is scripted, then to the right end."""
        for number in range(TURNS_MAX):
            if not self.acts:
                break
            self.play(number)
        self.settle()

    def rest(self) -> None:
        """Let it catch up; what is published has to equal the recompute."""
        self.come_to_rest()

    def rows_of_target(self) -> list[Row]:
        """What the target holds."""
        return sorted(self.target.rows(), key=repr)


def row(key: int, group: int | None = 0, ref: int = 0, value: int = 1) -> Row:
    """A row of the upstream."""
    return (key, group, ref, value)


def rows(count: int, *, step: int = 10) -> list[Row]:
    """Rows with gaps between their keys."""
    return [row(number * step, number % 5, number * step, number) for number in range(count)]
