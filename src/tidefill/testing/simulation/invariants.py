"""What must hold of a running job beside its commits: it is not starved, its chunks have their size, its progress never
falls, what users see stays, and a drop leaves nothing. Each check raises Violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.checkers import Seen, inside

if TYPE_CHECKING:
    from tidefill.testing.simulation.simulation import Simulation

CHUNK_ROWS_MAX = 16
PARALLELISM_MAX = 6
FORWARDS_IN_A_ROW_MAX = 1

# After these a runner starts again with small chunks.
DISTURBING = ("die", "outage", "zombie", "sleeping maker", "rate", "restore store")


def check_no_starvation(sim: Simulation, finished: bool) -> None:
    """A job that may fill takes a chunk at least in every other step."""
    job = sim.store.rows.get(sim.job_id)
    may_fill = (
        job is not None
        and job.life is Life.BACKFILLING
        and job.settings.rate_limit is None
        and job.pause is Pause.NOTHING
        and not _is_held_back(sim)
    )
    new_lease = job is not None and job.lease.fence != sim.fence
    sim.fence = job.lease.fence if job is not None else 0
    if not may_fill or finished or new_lease:
        sim.checkers.forwards = 0
    elif sim.checkers.forwards > FORWARDS_IN_A_ROW_MAX:
        raise Violation("I5 progress", "step after step without a chunk, while there is something to fill")


def _is_held_back(sim: Simulation) -> bool:
    """Whether a slot keeps so much that nothing need be filled. (A commit of ours lets go of it only later.)"""
    if not sim.setup.postgres or sim.setup.wal_budget is None:
        return False
    starts = [slot.position for slot in sim.server.slots.values()]
    starts += [open_.since for open_ in sim.server.pending.values()]
    return len(sim.server.log) - min(starts, default=0) > sim.setup.wal_budget


def check_bounded(sim: Simulation, before: Seen, after: Seen) -> None:
    """A chunk has about as many rows as was asked for, and there are not many more chunks than that takes."""
    parallelism = PARALLELISM_MAX if sim.world.seen["rescale"] or sim.world.seen["zombie"] else sim.setup.parallelism
    chunk_rows = sim.setup.chunk_rows or CHUNK_ROWS_MAX
    for name in sim.checkers.derivation.shape.walked:
        if before.stretches[name] == after.stretches[name]:
            continue
        rows = sim.rows_at(after.state.versions["t"]) or []
        places = [sim.checkers.place(row) for row in rows]
        taken = sum(inside(after.stretches[name], at) and not inside(before.stretches[name], at) for at in places)
        slack = len(set(rows) ^ set(sim.upstream_rows()))
        if taken > parallelism * chunk_rows + slack:
            raise Violation("I4 bounded", f"{taken} rows in one step of {parallelism} chunks of {chunk_rows} rows")
        sized = sim.setup.chunk_rows is None and sim.setup.rate_limit is None
        undisturbed = not any(sim.world.seen[kind] for kind in DISTURBING)
        if sized and undisturbed and sim.checkers.fills > 8 + 2 * parallelism + len(rows) // 8:
            raise Violation("I5 progress", f"{sim.checkers.fills} fills for {len(rows)} rows")


def check_published(sim: Simulation, job: Job) -> None:
    """What users see stays until its successor is there. (An older copy of the store may name an older one.)"""
    if job.published is None or job.life is Life.CANCELLING or sim.world.seen["restore store"]:
        return
    path = sim.path(job, job.published)
    if path not in sim.catalog.tables:
        raise Violation("I9 clean", f"the published generation {job.published} of {job.id} was removed")
    if job.published_definition != sim.made_by[path]:
        told = f"{path} was made by {sim.made_by[path]}, and is read as {job.published_definition}"
        raise Violation("I11 one query", told)


def check_shown(sim: Simulation, job: Job) -> None:
    """Readers are not switched to a generation before it is live."""
    mark, shown = f"-{job.id}-", list(sim.catalog.published.values())
    ahead = [path for path in shown if mark in path and int(path.rpartition("-")[2]) > (job.published or 0)]
    if ahead and not sim.world.seen["restore store"]:
        raise Violation("I11 one query", f"readers see {ahead[0]}, which is not live")


def check_progress(sim: Simulation, job: Job) -> None:
    """The share that is told never falls within a generation."""
    if job.progress is None:
        return
    key = (job.id, job.progress.generation)
    if not sim.shares.get(key, 0.0) <= job.progress.share <= 1.0 and "restore store" not in sim.world.seen:
        raise Violation("progress", f"{job.progress.share} after {sim.shares.get(key)}")
    sim.shares[key] = job.progress.share


def check_clean(sim: Simulation, job_id: str) -> None:
    """Nothing is left of a job that was dropped."""
    mark = f"-{job_id}-"
    left = [path for path in sim.catalog.tables if mark in path]
    left += [path for path in sim.catalog.published.values() if mark in path]
    left += [name for name in sim.kept_outside() if mark in name]
    if left or job_id in sim.store.rows:
        raise Violation("I9 clean", f"{job_id} left {left}")
