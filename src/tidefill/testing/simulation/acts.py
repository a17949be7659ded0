"""What may happen at an effect, by name: writers, crashes, second runners, strangers, wishes. Each is a function of the
simulation and a number that says which of its forms. None of them causes an effect itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tidefill.core.confirm import Effect
from tidefill.errors import Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.run.runner import LEASE_S
from tidefill.testing.memory.tables import ID, Row, Table
from tidefill.testing.memory.world import Died
from tidefill.testing.simulation.checkers import moved_across
from tidefill.testing.simulation.workload import initial_rows, transact

if TYPE_CHECKING:
    from tidefill.testing.simulation.simulation import Simulation


def write(sim: Simulation, number: int) -> None:
    """A writer's transaction, on PostgreSQL perhaps one that stays open."""
    rows = {row[ID]: row for row in sim.upstream_rows()}
    transaction = transact(rows, number)
    if not transaction.changes:
        return
    sim.writes_since_commit += len(transaction.changes)
    _count_moves(sim, transaction.moved)
    sim.world.tell("writer: %s", transaction.changes)
    if not sim.setup.postgres:
        sim.commit_upstream(transaction.changes)
        return
    changed = {row[ID]: transaction.rows.get(row[ID]) for _, row in transaction.changes}
    xid = sim.server.begin(changed)
    for _ in range(2 if number % 3 else number % 2):
        if xid in sim.server.pending:
            (sim.server.show if sim.server.pending[xid].logged else sim.server.log_commit)(xid)
    if number % 5 == 0:
        sim.server.move_on()
    if number % 61 == 0 and xid in sim.server.pending and not sim.server.pending[xid].logged:
        del sim.server.pending[xid]


def _count_moves(sim: Simulation, moved: list[tuple[Row, Row]]) -> None:
    if not moved:
        return
    last = next(reversed(sim.checkers.seen.values()), None)
    sim.world.seen["moves"] += len(moved)
    for old, new in moved if last is not None else ():
        if moved_across(last.stretches, sim.checkers.place(old), sim.checkers.place(new)):  # type: ignore[union-attr]
            sim.world.seen["moves across"] += 1


def die(sim: Simulation, number: int) -> None:
    """kill -9."""
    raise Died


def outage(sim: Simulation, number: int) -> None:
    """Whatever was asked does not answer; if it was done, nobody knows."""
    raise Unavailable("no answer")


def zombie(sim: Simulation, number: int) -> None:
    """Whoever is in the middle of something sleeps past its lease; another takes over; then the first wakes up."""
    if sim.depth:
        return
    sim.depth = 1
    sim.world.now += LEASE_S + number % 100
    other = sim.start_runner(sim.setup.skew_s)
    if number % 3 == 0:
        rescale(sim, number // 3)
    if number % 7 == 0:
        drop(sim, number)
    elif number % 5 == 0:
        resync(sim, number)
    elif number % 13 == 0:
        replace_query(sim, number // 13)
    if number % 11 == 0:
        sim.later("die", 1, True)
    try:
        for _ in range(1 + number % 5):
            sim.turn(other)
    finally:
        sim.depth = 0


def sleeping_maker(sim: Simulation, number: int) -> None:
    """Whoever is about to make something sleeps while another drops the job; it wakes up, makes it, and dies."""
    zombie(sim, 77 * (4 + number % 10))


def rescale(sim: Simulation, number: int) -> None:
    """ALTER JOB SET PARALLELISM."""
    sim.wish(lambda job: jobs.wish_settings(replace(job.settings, parallelism=1 + number % 6))(job))


def rate(sim: Simulation, number: int) -> None:
    """ALTER JOB SET RATE_LIMIT."""
    limit = (None, 0, 1, 5, 50)[number % 5]
    sim.wish(lambda job: jobs.wish_settings(replace(job.settings, rate_limit=limit))(job))


def pause(sim: Simulation, number: int) -> None:
    """PAUSE JOB, and later RESUME."""
    sim.wish(jobs.wish_resume if number % 2 else jobs.wish_pause(Pause.ALL))
    sim.later("pause", 60, number % 2 == 0)


def pause_fill(sim: Simulation, number: int) -> None:
    """PAUSE JOB FILL, and later RESUME."""
    sim.wish(jobs.wish_resume if number % 2 else jobs.wish_pause(Pause.FILL))
    sim.later("pause fill", 120, number % 2 == 0)


def resync(sim: Simulation, number: int) -> None:
    """RESYNC JOB."""
    sim.wish(jobs.wish_resync)


def replace_query(sim: Simulation, number: int) -> None:
    """CREATE OR REPLACE; now and then with a query that the view had before."""
    sim.replace(number)


def drop(sim: Simulation, number: int) -> None:
    """DROP; the same name is created again afterwards."""
    sim.wish(jobs.wish_drop)


def clock(sim: Simulation, number: int) -> None:
    """The clock jumps."""
    sim.world.now += (-30.0, 100.0, 4000.0, -3.0)[number % 4]


def _target(sim: Simulation) -> Table | None:
    job = sim.store.rows.get(sim.job_id)
    return None if job is None else sim.catalog.tables.get(sim.path(job, job.generation))


def optimize(sim: Simulation, number: int) -> None:
    """A stranger compacts the target: the data stays."""
    table = _target(sim)
    if table is not None:
        table.commit(table.snapshots[-1], [], Effect.NONE)


def touch(sim: Simulation, number: int) -> None:
    """A stranger appends to, deletes from or restores the target."""
    table = _target(sim)
    if table is None or table.version < 1:
        return
    bag = dict(table.snapshots[-1])
    match number % 3:
        case 0:
            bag[-1] = ((-1, "stranger"),)
        case 1 if bag:
            bag.pop(next(iter(bag)))
        case _:
            bag = table.snapshots[number % table.version]
    table.touched = True
    table.commit(bag, [], Effect.FOREIGN)


def clean_log(sim: Simulation, number: int) -> None:
    """The target's log loses its old entries."""
    table = _target(sim)
    if table is not None:
        table.clean_log(1 + number % 6)


def vacuum(sim: Simulation, number: int) -> None:
    """Old versions of the upstream can no longer be read; their changes can."""
    sim.table.vacuum(number % 4, changes_too=False)


def vacuum_changes(sim: Simulation, number: int) -> None:
    """Nor their changes."""
    sim.table.vacuum(number % 6, changes_too=True)


def recreate_upstream(sim: Simulation, number: int) -> None:
    """Another table under the same name, with as many versions."""
    versions = 0 if sim.setup.postgres else sim.table.version
    sim.make_upstream(initial_rows(number, 20))
    while not sim.setup.postgres and sim.table.version <= versions:
        rows = {row[ID]: row for row in sim.table.rows()}
        sim.commit_upstream(transact(rows, number + sim.table.version).changes)


def drop_head(sim: Simulation, number: int) -> None:
    """Our snapshot is gone."""
    sim.server.drop_heads()


def rewrite(sim: Simulation, number: int) -> None:
    """A rewriting ALTER TABLE."""
    sim.server.rewrite()


def truncate(sim: Simulation, number: int) -> None:
    """TRUNCATE."""
    sim.server.truncate()


def server_crash(sim: Simulation, number: int) -> None:
    """The server restarts."""
    sim.server.crash()


def advance_slot(sim: Simulation, number: int) -> None:
    """Somebody advances our slot by hand."""
    for slot in sim.server.slots.values():
        slot.position = slot.durable = len(sim.server.log)


def duplicate(sim: Simulation, number: int) -> None:
    """A writer inserts a second row with a key that is there (Delta does not mind)."""
    rows = sim.upstream_rows()
    if rows and not sim.setup.postgres:
        row = rows[number % len(rows)]
        sim.commit_upstream([(1, (*row[:-1], row[-1] + 1))])
        sim.checkers.excused = True


def restore_store(sim: Simulation, number: int) -> None:
    """The store is put back to an older copy."""
    usable = [backup for backup in sim.backups if _is_of_now(sim, backup)]
    if usable:
        sim.store.restore(usable[number % len(usable)])
        sim.wanted = sim.store.rows[sim.job_id].newest_definition


def _is_of_now(sim: Simulation, backup: dict[str, Job]) -> bool:
    """A copy in which the same jobs live, in the same generation: else things would be lost that nobody lists."""
    now = sim.store.rows
    return backup.keys() == now.keys() and all(
        (backup[key].generation_uuid, backup[key].resources, backup[key].life in (Life.CANCELLING, Life.DROPPED))
        == (now[key].generation_uuid, now[key].resources, now[key].life in (Life.CANCELLING, Life.DROPPED))
        for key in now
    )


ACTS: dict[str, Callable[[Simulation, int], None]] = {
    "write": write,
    "die": die,
    "outage": outage,
    "zombie": zombie,
    "sleeping maker": sleeping_maker,
    "rescale": rescale,
    "rate": rate,
    "pause": pause,
    "pause fill": pause_fill,
    "resync": resync,
    "replace": replace_query,
    "drop": drop,
    "cancel at once": drop,
    "clock": clock,
    "optimize": optimize,
    "touch": touch,
    "clean log": clean_log,
    "vacuum": vacuum,
    "vacuum changes": vacuum_changes,
    "recreate upstream": recreate_upstream,
    "drop head": drop_head,
    "rewrite": rewrite,
    "truncate": truncate,
    "server crash": server_crash,
    "advance slot": advance_slot,
    "duplicate": duplicate,
    "restore store": restore_store,
}
