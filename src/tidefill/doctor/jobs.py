"""The jobs of the store: which have failed, which nobody runs, and what is left of dropped ones."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import assert_never

from tidefill.doctor.case import Case
from tidefill.doctor.findings import Finding, Verdict, not_too_many, with_detail
from tidefill.doctor.reading import read_rows
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.run.runner import LEASE_S
from tidefill.storage.local import why_not_made


def check_jobs(case: Case) -> Iterator[Finding]:
    """What is left of dropped jobs, which jobs have failed, and which wait for a runner."""
    dropped = [row for row in read_rows(case) or () if _has_residue(row, case.now_s)]
    yield from not_too_many("jobs", [_residue(row, case.config.warehouse) for row in dropped])
    rows = [row for row in read_rows(case) or () if row.life is not Life.DROPPED]
    if not rows:
        return
    alive = any(_is_run(row, case.now_s) for row in rows)
    count = "1 job" if len(rows) == 1 else f"{len(rows)} jobs"
    yield Finding("jobs", Verdict.OK, f"{count}, {'and a runner is alive' if alive else 'and no runner is alive'}")
    yield from not_too_many("jobs", [_failed(row) for row in rows if row.life is Life.FAILED and not _is_wished(row)])
    if not alive:  # one that is alive comes to every job in time
        yield from not_too_many("jobs", [_left_alone(row) for row in rows if _has_work(row)])


def _has_residue(row: Job, now_s: float) -> bool:
    """Whether something of a dropped job could not be removed at the time when it should have been."""
    return row.life is Life.DROPPED and bool(row.resources) and now_s > row.ended_at_s + 2 * LEASE_S


def _residue(row: Job, warehouse: str) -> Finding:
    """What a runner cannot remove, because it is not in the warehouse or not what the job made, a person has to."""
    fact = f"dropped, but not everything of it is removed yet: {', '.join(map(str, row.resources))}"
    paths = [resource.name for resource in row.resources if resource.kind == "path"]
    reasons = [f"{path}: {why}" for path in paths if (why := why_not_made(warehouse, path, row.id))]
    remedy = "tidefill run (it is tried again as long as that runs)"
    if reasons:
        remedy = f"remove it by hand if it is not needed, or set the warehouse back ({'; '.join(reasons)})"
    return Finding(f"job {row.name}", Verdict.WARNING, fact, remedy)


def _is_run(row: Job, now_s: float) -> bool:
    """Whether the lease holds. One that ends further ahead than any lease does was written by a wrong clock."""
    return row.lease.owner != "" and now_s < row.lease.until_s <= now_s + 2 * LEASE_S


def _is_wished(row: Job) -> bool:
    return row.wants_end or row.wants_generation or row.wants_resume


def _has_work(row: Job) -> bool:
    """Whether it waits for a runner. A live job does not, unless its runner died: between two runs of
    `tidefill run --once` nobody is meant to hold it."""
    match row.life:
        case Life.CREATED | Life.BACKFILLING | Life.VERIFYING | Life.PAUSED:
            return row.pause is not Pause.ALL or _is_wished(row)
        case Life.LIVE:
            return row.lease.owner != "" or _is_wished(row)
        case Life.FAILED:
            return _is_wished(row)
        case Life.CANCELLING:
            return True
        case Life.DROPPED:
            return False
        case never:
            assert_never(never)


def _failed(row: Job) -> Finding:
    failure = row.failure
    fact = "it has failed" if failure is None else with_detail(f"{failure.fact} [{failure.code}]", failure.detail)
    hint = f"{failure.hint.rstrip('.')}. Then: " if failure is not None and failure.hint else ""
    return Finding(f"job {row.name}", Verdict.BAD, fact, f"{hint}tidefill resume {quote(row.name)}")


def _left_alone(row: Job) -> Finding:
    why = "its runner died" if row.lease.owner else "nobody runs it"
    return Finding(f"job {row.name}", Verdict.WARNING, f"{row.life.value}, but {why}", "tidefill run")
