"""The rows of a store: how jobs, tables, events and ticks are read and written on an open connection.

The caller opens the transaction and ends it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tidefill.errors import StoreUnreadable, UnknownJob
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Holder, Registered, check_free, table_from_json
from tidefill.jobs.row import Job, name_key
from tidefill.jobs.row_json import job_from_json, job_to_json
from tidefill.jobs.steps import thinned
from tidefill.ports import store as ports
from tidefill.store.schema import EVENTS, EXPLAINED, JOBS, NAMES, REGISTERED, STEPS, TICKS


def job_columns(job: Job) -> dict[str, Any]:
    """The columns of the job's row, without its id."""
    return {
        "name_key": stored_key(job.name),
        "active": job.life is not Life.DROPPED,
        "data": json.dumps(job_to_json(job)),
    }


def stored_key(name: str) -> str:
    """The name as lookups compare it, in Unicode that any database takes."""
    return storable(name_key(name))


def storable(text: str) -> str:
    """The text in Unicode that any database takes. The halves of surrogate pairs that undecodable file names carry
    become escapes, and so does the character zero."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def job_read(data: Any) -> Job:
    """The job in the document of a row; StoreUnreadable if this release cannot read it."""
    return job_from_json(_document(data, "a job"))


def table_read(data: Any) -> Registered:
    """The table in the document of a row; StoreUnreadable if this release cannot read it."""
    return table_from_json(_document(data, "a table"))


def _document(data: Any, what: str) -> Any:
    try:
        return json.loads(data)
    except (TypeError, ValueError) as error:
        raise StoreUnreadable(f"{what} in the store cannot be read", detail=f"It is no JSON: {error}.") from error


def job_row(connection: sa.Connection, job_id: str, *, to_change: bool = False) -> Job | None:
    """The row. One that is to be changed is locked, where a database locks rows and not the whole file."""
    wanted = sa.select(JOBS.c.data).where(JOBS.c.id == job_id)
    found = connection.execute(wanted.with_for_update() if to_change else wanted).first()
    return None if found is None else job_read(found.data)


def job_to_change(connection: sa.Connection, job_id: str) -> Job:
    """The row, locked; UnknownJob if it is gone."""
    job = job_row(connection, job_id, to_change=True)
    if job is None:
        raise unknown_job(job_id)
    return job


def changed(connection: sa.Connection, before: Job, change: Callable[[Job], Job]) -> Job:
    """Apply the change to the row and return what it is then. A row that stays equal is not written."""
    after = change(before)
    if after != before:
        connection.execute(JOBS.update().where(JOBS.c.id == before.id).values(job_columns(after)))
    gone = before.part_names if after.life is Life.DROPPED else set(before.part_names) - set(after.part_names)
    if gone:
        free = NAMES.c.name_key.in_(map(stored_key, gone))
        connection.execute(NAMES.delete().where(NAMES.c.job_id == before.id, free))
    return after


def add_job(connection: sa.Connection, job: Job, explained: str) -> None:
    """Write the row of a new job, whose own name is free; NameTaken if somebody has a name of one of its parts."""
    connection.execute(JOBS.insert().values(id=job.id, **job_columns(job)))
    _take_part_names(connection, job)
    explain(connection, job.id, explained)


def explain(connection: sa.Connection, job_id: str, explained: str) -> None:
    """Keep what EXPLAIN says of the job, in place of what it said before; empty: nothing."""
    connection.execute(EXPLAINED.delete().where(EXPLAINED.c.job_id == job_id))
    if explained:
        connection.execute(EXPLAINED.insert().values(job_id=job_id, data=storable(explained)))


def remove_job(connection: sa.Connection, job_id: str) -> None:
    """Remove the row with its names, events and steps."""
    for table in (EVENTS, NAMES, EXPLAINED, STEPS):
        connection.execute(table.delete().where(table.c.job_id == job_id))
    connection.execute(JOBS.delete().where(JOBS.c.id == job_id))


def active_jobs(connection: sa.Connection) -> Sequence[Job]:
    """The jobs that are not dropped."""
    return [job_read(data) for data in connection.execute(sa.select(JOBS.c.data).where(JOBS.c.active)).scalars()]


def holder(connection: sa.Connection, name: str) -> Holder | None:
    """The job or the table that has the name."""
    return job_named(connection, name) or table_named(connection, name)


def job_named(connection: sa.Connection, name: str) -> Job | None:
    """The job that has the name, or a part of it has, and that is not dropped."""
    key = stored_key(name)
    of_part = sa.select(NAMES.c.job_id).where(NAMES.c.name_key == key)
    wanted = sa.select(JOBS.c.data).where(sa.or_(JOBS.c.name_key == key, JOBS.c.id.in_(of_part)), JOBS.c.active)
    found = connection.execute(wanted).first()
    return None if found is None else job_read(found.data)


def _take_part_names(connection: sa.Connection, job: Job) -> None:
    """Take the names of the job's parts; NameTaken if somebody has one of them."""
    for name in job.part_names:
        check_free(job, name, holder(connection, name))
    if job.part_names:
        rows = [{"name_key": stored_key(name), "job_id": job.id} for name in job.part_names]
        connection.execute(NAMES.insert(), rows)


def table_named(connection: sa.Connection, name: str) -> Registered | None:
    """The registered table that has the name."""
    wanted = sa.select(REGISTERED.c.data).where(REGISTERED.c.name_key == stored_key(name))
    found = connection.execute(wanted).first()
    return None if found is None else table_read(found.data)


def tick_of(connection: sa.Connection, base: str) -> int | None:
    """The version of the base that its tick names; None if the base has no tick."""
    return connection.execute(sa.select(TICKS.c.number).where(TICKS.c.base == base)).scalar()


def prune_events(connection: sa.Connection, job_id: str) -> None:
    """Forget all but the newest of the job."""
    of_job = sa.select(EVENTS.c.id).where(EVENTS.c.job_id == job_id)
    last = of_job.order_by(EVENTS.c.id.desc()).offset(ports.EVENTS_MAX).limit(1).scalar_subquery()
    connection.execute(EVENTS.delete().where(EVENTS.c.job_id == job_id, EVENTS.c.id <= last))


def thin_steps(connection: sa.Connection, job_id: str) -> None:
    """Remove some of the older steps of the job, if it has many."""
    of_job = sa.select(STEPS.c.id).where(STEPS.c.job_id == job_id).order_by(STEPS.c.id)
    gone = thinned(connection.execute(of_job).scalars().all())
    if gone:
        connection.execute(STEPS.delete().where(STEPS.c.id.in_(gone)))


def unknown_job(job_id: str) -> UnknownJob:
    """What is raised for a row that is gone."""
    return UnknownJob(f"there is no job {job_id}", hint="It was dropped. SHOW JOBS lists those that are there.")
