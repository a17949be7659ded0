"""What may happen at an effect of a history of several jobs, by name. Each is a function of the history, of the job it
meets, and of a number that says which of its forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidefill.core.confirm import Effect
from tidefill.errors import Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import ending
from tidefill.jobs.row import Job, Pause
from tidefill.run.runner import LEASE_S
from tidefill.testing.memory.tables import ID, Table
from tidefill.testing.memory.world import Died
from tidefill.testing.simulation.workload import transact

if TYPE_CHECKING:
    from tidefill.testing.simulation.several.several import Several


def write(sim: Several, number: int) -> None:
    """A writer's transaction. Now and then nobody writes t for a while, or u."""
    write_to(sim, sim.bases["u" if number % 4 == 0 else "t"], number)


def write_to(sim: Several, table: Table, number: int) -> None:
    """A writer's transaction on that table."""
    transaction = transact({row[ID]: row for row in table.rows()}, number)
    if transaction.changes:
        sim.writes_since_commit += 1
        sim.world.tell("writer of %s: %s", table.identity, transaction.changes)
        sim.commit(table, transaction.changes)


def die(sim: Several, job: Job, number: int) -> None:
    """kill -9."""
    raise Died


def outage(sim: Several, job: Job, number: int) -> None:
    """Whatever was asked does not answer."""
    raise Unavailable("no answer")


def zombie(sim: Several, job: Job, number: int) -> None:
    """Whoever is in the middle of something sleeps past its lease, while another goes on."""
    if sim.nested:
        return
    sim.nested = True
    sim.world.now += LEASE_S + number % 100
    other = sim.start_runner()
    try:
        for name in sim.graph:
            if sim.has(name):
                other.turn(sim.row(name).id)
    finally:
        sim.nested = False


def pause(sim: Several, job: Job, number: int) -> None:
    """PAUSE JOB, or RESUME."""
    sim.wish(job.name, jobs.wish_pause(Pause.ALL) if number % 3 else jobs.wish_resume)


def touch(sim: Several, job: Job, number: int) -> None:
    """A stranger writes into what a job has made: it will fail."""
    table = sim.target(job.name)
    if table is not None and table.version >= 1 and -1 not in table.snapshots[-1]:
        sim.excuses.add("TARGET_TOUCHED")
        table.touched = True
        table.commit({**table.snapshots[-1], -1: ((-1, None, 0, 0),)}, [(1, (-1, None, 0, 0))], Effect.FOREIGN)


def resync(sim: Several, job: Job, number: int) -> None:
    """RESYNC JOB."""
    sim.wish(job.name, jobs.wish_resync)


def replace(sim: Several, job: Job, number: int) -> None:
    """CREATE OR REPLACE."""
    sim.replace(job.name)


def drop(sim: Several, job: Job, number: int) -> None:
    """DROP ... CASCADE of the job, or DROP of one that nobody reads."""
    if number % 3 == 0:
        _drop_cascade(sim, job)
    else:
        sim.wish(_top(sim, number), jobs.wish_drop)


def _drop_cascade(sim: Several, job: Job) -> None:
    sim.world.seen["cascade"] += 1
    active = [other for other in sim.store.rows.values() if other.life is not Life.DROPPED]
    for one in ending(job, active, lambda other: sim.graph[other.name], cascade=True):
        sim.wish(one.name, jobs.wish_drop)


def _top(sim: Several, number: int) -> str:
    read = {name for job, inputs in sim.graph.items() if sim.has(job) for name in inputs}
    tops = [name for name in sim.graph if sim.has(name) and name not in read]
    return tops[number % len(tops)]


def optimize(sim: Several, job: Job, number: int) -> None:
    """A stranger compacts the target: the data stays."""
    table = sim.target(job.name)
    if table is not None:
        table.commit(table.snapshots[-1], [], Effect.NONE)


def clock(sim: Several, job: Job, number: int) -> None:
    """The clock jumps."""
    sim.world.now += (-30.0, 100.0, 4000.0)[number % 3]


def vacuum(sim: Several, job: Job, number: int) -> None:
    """Old versions of t can no longer be read; their changes can."""
    sim.bases["t"].vacuum(number % 4, changes_too=False)


ACTS: dict[str, Callable[[Several, Job, int], None]] = {
    "die": die,
    "outage": outage,
    "zombie": zombie,
    "pause": pause,
    "touch": touch,
    "resync": resync,
    "replace": replace,
    "drop": drop,
    "optimize": optimize,
    "clock": clock,
    "vacuum": vacuum,
}
