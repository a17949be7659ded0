"""Processes for `test_store.py`, each of which does the same as the others, to the same jobs, at the same time.

    python -m tests.store.worker FILE PROCESSES share|contend

prints as JSON what each says that it did. The processes are forked, so that the imports are paid for once.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Any

import sqlalchemy as sa

from tidefill.errors import Fenced, InUse, NameTaken, UnknownJob, UnknownTable
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Pause, acquire, fenced, intend, release_lease, wish_pause, wish_resume
from tidefill.store.sql_store import SqlStore, open_store

NAMES = ("orders", "Events", "überall")
CONTENDED = "fought_over"
READER = "reader of it"
DEFINITION = '{"query": "SELECT 1"}'
OPERATIONS = 24
LEASE_S = 0.004


@dataclass
class Done:
    """What this process was told that it did, by job."""

    created: list[str] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    fences: list[tuple[str, int]] = field(default_factory=list)
    marks: list[tuple[str, str]] = field(default_factory=list)
    wishes: list[str] = field(default_factory=list)


def main(path: str, processes: str, what: str) -> None:
    context, number = get_context("fork"), int(processes)
    together = context.Barrier(number)
    with context.Pool(number, together.wait) as pool:
        print(json.dumps(pool.map(partial(WORK[what], path), range(number), chunksize=1)))


def share(path: str, worker: int) -> dict[str, Any]:
    """Several at work on jobs that all of them have."""
    chance, done = Random(worker), Done()
    with open_store(path) as store:
        for name in chance.sample(NAMES, len(NAMES)):
            create(store, name, worker, done)
        for number in range(OPERATIONS):
            name = chance.choice(NAMES)
            chance.choice(OPERATE)(store, done.ids[name], f"{worker}-{number}", done)
    return asdict(done)


def create(store: SqlStore, name: str, worker: int, done: Done) -> None:
    mine = f"{name} by {worker}"
    job = store.create(Job(mine, name, DEFINITION))
    done.ids[name] = job.id
    done.created += [name] if job.id == mine else []


def wish(store: SqlStore, job_id: str, mark: str, done: Done) -> None:
    wished = wish_resume if mark.endswith(("1", "4", "7")) else wish_pause(Pause.ALL)
    store.change(job_id, wished)
    done.wishes.append(job_id)


def append(store: SqlStore, job_id: str, mark: str, done: Done) -> None:
    store.change(job_id, intend(Resource("mark", mark)))
    done.marks.append((job_id, mark))


def lease(store: SqlStore, job_id: str, mark: str, done: Done) -> None:
    """Take the lease if it can be taken, then write under its fence, unless somebody has taken it over by then."""
    owner, before = mark.partition("-")[0], []

    def taken(job: Job) -> Job:
        before.append(job.lease.fence)
        return acquire(owner, time.time(), LEASE_S)(job)

    job = store.change(job_id, taken)
    if job.lease.fence == before[-1]:
        return
    done.fences.append((job_id, job.lease.fence))
    try:
        store.change(job_id, fenced(job.lease.fence, intend(Resource("mark", mark))))
        done.marks.append((job_id, mark))
        if mark.endswith("0"):
            store.change(job_id, fenced(job.lease.fence, release_lease))
    except Fenced:
        pass


OPERATE: tuple[Callable[[SqlStore, str, str, Done], None], ...] = (wish, append, lease)


LOOK = """
    SELECT (SELECT count(*) FROM jobs WHERE active AND name_key = :name),
           (SELECT count(*) FROM tables WHERE name_key = :name),
           (SELECT count(*) FROM jobs WHERE active AND name_key LIKE :reader)
"""


def contend(path: str, worker: int) -> dict[str, Any]:
    """Several at odds over what a name shall be, a table, a job or nothing, while others read whatever it is. What is
    seen comes from one statement, for two would see two moments."""
    chance, outcomes, seen = Random(worker), [], []
    with open_store(path) as store:
        for number in range(OPERATIONS):
            operate, mark = chance.choice(CONTEND), f"{worker}-{number}"
            name = chance.choice((CONTENDED, CONTENDED.upper()))
            outcomes.append(f"{operate.__name__}: {_outcome(partial(operate, store, name, mark))}")
            seen.append(_look(store))
            if outcomes[-1] == "reader: done":
                store.change(mark, _dropped)  # a name that is always read could never be taken away
    return {"outcomes": outcomes, "seen": seen}


def _look(store: SqlStore) -> tuple[int, ...]:
    with store._reading() as connection:
        return tuple(connection.execute(sa.text(LOOK), {"name": CONTENDED, "reader": f"{READER}%"}).one())


def _outcome(operate: Callable[[], object]) -> str:
    try:
        operate()
    except (InUse, NameTaken, UnknownJob, UnknownTable) as error:
        return error.code
    return "done"


def table(store: SqlStore, name: str, mark: str) -> None:
    store.register(Registered(name, DEFINITION))


def job(store: SqlStore, name: str, mark: str) -> None:
    store.create(Job(mark, name, DEFINITION))


def reader(store: SqlStore, name: str, mark: str) -> None:
    store.create(Job(mark, f"{READER} {mark}", DEFINITION), needs=[name])


def no_table(store: SqlStore, name: str, mark: str) -> None:
    store.unregister(name, _reads)


def no_job(store: SqlStore, name: str, mark: str) -> None:
    found = store.find(name)
    if found is not None:
        store.wish_end(found.id, _dropped, _reads)


def no_job_nor_readers(store: SqlStore, name: str, mark: str) -> None:
    found = store.find(name)
    if found is not None:
        store.wish_end(found.id, _dropped, _reads, cascade=True)


def _reads(found: Job) -> list[str]:
    return [CONTENDED] if found.name.startswith(READER) else []


def _dropped(found: Job) -> Job:
    return replace(found, life=Life.DROPPED)


CONTEND: tuple[Callable[[SqlStore, str, str], None], ...] = (table, job, reader, no_table, no_job, no_job_nor_readers)
WORK = {"share": share, "contend": contend}

if __name__ == "__main__":
    main(*sys.argv[1:])
