"""The store: jobs, their events and registered tables in one SQLite file, or in a PostgreSQL database, safe under
several processes.

A row is the JSON document of a `Job` or of a `Registered`; beside it stand only the columns that lookups need. Every
change reads, changes and writes inside one transaction that holds the write lock from its beginning, so that no update
is ever lost and no name is ever given to two. Commits are synced to disk, because a fence that was given out must never
be given out again.

What SQLAlchemy and the drivers raise never leaves this package: `named_errors` makes it an error of our own tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import sqlalchemy as sa

from tidefill.errors import StoreUnreadable, UnknownTable, WrongState
from tidefill.jobs.namespace import (
    NamesRead,
    Registered,
    Replacement,
    attached,
    check_free,
    check_needed,
    check_replaced,
    check_unused,
    ending,
    ends,
    table_to_json,
)
from tidefill.jobs.row import Job, name_key
from tidefill.jobs.steps import DoneStep, step_from_text, step_to_text
from tidefill.ports import store as ports
from tidefill.store.faults import named_errors
from tidefill.store.place import is_url
from tidefill.store.postgres import postgres_address, postgres_engine, postgres_place
from tidefill.store.rows import (
    active_jobs,
    add_job,
    changed,
    explain,
    holder,
    job_named,
    job_read,
    job_row,
    job_to_change,
    prune_events,
    remove_job,
    storable,
    stored_key,
    table_named,
    table_read,
    thin_steps,
    tick_of,
    unknown_job,
)
from tidefill.store.schema import (
    EVENTS,
    EXPLAINED,
    JOBS,
    META,
    REGISTERED,
    STEPS,
    TICKS,
    Schema,
    make_tables,
    written_version,
)
from tidefill.store.sqlite import make_file, sqlite_backup, sqlite_engine

BUSY_S = 10.0
PRUNED_EVERY = 100  # events or steps of a job, from the first in a process on: older ones are looked for that seldom


def exists(place: str | Path) -> bool:
    """Whether there is a store to open. Asking makes none."""
    return postgres_schema(str(place)) is not None if is_url(place) else Path(place).is_file()


def postgres_schema(url: str, *, busy_s: float = BUSY_S) -> int | None:
    """The schema version of the store in that database, asked for without making or migrating one; None if there is
    none."""
    with _postgres_store(url, busy_s) as store:
        return store.schema_version()


def open_store(place: str | Path, *, schema: Schema | None = None, busy_s: float = BUSY_S) -> SqlStore:
    """The store in that file, or in the schema `tidefill` of the database at that URL, made if it is missing, migrated
    if an older release wrote it."""
    store = _postgres_store(str(place), busy_s) if is_url(place) else _sqlite_store(Path(place).absolute(), busy_s)
    store.bring_up_to_date(schema or Schema())
    return store


def _sqlite_store(file: Path, busy_s: float) -> SqlStore:
    make_file(file)
    engine = sqlite_engine(file, busy_s)
    return SqlStore(engine, str(file), lambda version: sqlite_backup(file, f"{file.name}.backup-{version}"))


def _postgres_store(url: str, busy_s: float) -> SqlStore:
    address = postgres_address(url)
    return SqlStore(postgres_engine(address, busy_s), postgres_place(address))


class SqlStore:
    """`tidefill.ports.Store` on a database. Threads may share it; each call has a connection of its own."""

    def __init__(self, engine: sa.Engine, place: str, back_up: Callable[[int], None] = lambda version: None) -> None:
        """`place`: as a person may read it. `back_up` keeps a copy before a migration from that version."""
        self._engine = engine
        self._place = place
        self._back_up = back_up
        self._added: dict[str, int] = {}  # events of each job, by this process
        self._stepped: dict[str, int] = {}  # steps of each job, by this process
        self._read: Mapping[str, tuple[str, Job]] = {}  # the rows that were read last, by id, each with its text

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        self._engine.dispose()

    def store_id(self) -> str:
        """What tells this store from any other, also after a move."""
        with self._reading() as connection:
            return str(connection.execute(sa.select(META.c.store_id)).scalar_one())

    def schema_version(self) -> int | None:
        """The one that it was written with; None if nothing is there yet."""
        with self._reading() as connection:
            return written_version(connection)

    def create(self, job: Job, needs: Sequence[str] = (), explained: str = "") -> Job:
        """The new job; or the one that has the name already, if its definition is equal; else NameTaken. Only a new job
        `needs` names: one that is there was created with them."""
        with self._writing() as connection:
            if known := attached(job, holder(connection, job.name)):
                return known
            for name in needs:
                check_needed(name, holder(connection, name))
            add_job(connection, job, explained)
            return job

    def replace(self, job_id: str, wish: Callable[[Job], Job], told: Replacement) -> Job:
        """Apply the wish for another definition; what EXPLAIN says of that takes the place of what it said before."""
        with self._writing() as connection:
            for name in told.needs:
                check_needed(name, holder(connection, name))
            before = job_to_change(connection, job_id)
            check_replaced(wish(before), [job for job in active_jobs(connection) if job.id != job_id], told)
            after = changed(connection, before, wish)
            explain(connection, job_id, told.explained)
            return after

    def join(self, job: Job, of: Sequence[str], explained: str) -> Job:
        """The new job, which takes the place of others that have made nothing yet, with their names. WrongState if one
        of those was begun or dropped meanwhile."""
        with self._writing() as connection:
            for other_id in of:
                other = job_to_change(connection, other_id)
                if not other.settings.deferred or ends(other):
                    raise WrongState(f"{other.name} was begun or dropped meanwhile", hint="Try again.")
                remove_job(connection, other_id)
            check_free(job, job.name, holder(connection, job.name))
            add_job(connection, job, explained)
            return job

    def job(self, job_id: str) -> Job | None:
        """The row, if there is one."""
        with self._reading() as connection:
            return job_row(connection, job_id)

    def explained(self, job_id: str) -> str:
        """What EXPLAIN said when the job was created."""
        with self._reading() as connection:
            wanted = sa.select(EXPLAINED.c.data).where(EXPLAINED.c.job_id == job_id)
            return str(connection.execute(wanted).scalar() or "")

    def find(self, name: str) -> Job | None:
        """The job that has the name now. A dropped job has none."""
        with self._reading() as connection:
            return job_named(connection, name)

    def jobs(self) -> Sequence[Job]:
        """Every row, by name; sorted here, because databases differ in how they sort text. A runner asks twice a
        second: a row whose text is as it was last time is not parsed again."""
        with self._reading() as connection:
            found = [(job_id, data) for job_id, data in connection.execute(sa.select(JOBS.c.id, JOBS.c.data))]
        before, now = self._read, dict[str, tuple[str, Job]]()
        for job_id, data in found:
            known = before.get(job_id)
            now[job_id] = known if known is not None and known[0] == data else (data, job_read(data))
        self._read = now
        return sorted((job for _, job in now.values()), key=lambda job: (name_key(job.name), job.id))

    def change(self, job_id: str, change: Callable[[Job], Job], step: DoneStep | None = None) -> Job:
        """Apply the change to the row and return what it is then. What `change` raises leaves the row as it was, and
        writes no step."""
        with self._writing() as connection:
            after = changed(connection, job_to_change(connection, job_id), change)
            if step is not None:
                self._add_step(connection, job_id, step)
            return after

    def _add_step(self, connection: sa.Connection, job_id: str, step: DoneStep) -> None:
        connection.execute(STEPS.insert().values(job_id=job_id, data=storable(step_to_text(step))))
        if self._stepped.get(job_id, 0) % PRUNED_EVERY == 0:
            thin_steps(connection, job_id)
        self._stepped[job_id] = self._stepped.get(job_id, 0) + 1

    def steps(self, job_id: str) -> Sequence[DoneStep]:
        """The steps that are kept, oldest first."""
        of_job = sa.select(STEPS.c.data).where(STEPS.c.job_id == job_id).order_by(STEPS.c.id)
        with self._reading() as connection:
            found = connection.execute(of_job).scalars().all()
        return [step_from_text(data) for data in found]

    def steps_after(self, number: int, limit: int) -> Sequence[tuple[int, str, DoneStep]]:
        """The newest steps of all jobs after the step of that number, oldest first, no more than `limit`: number, job
        id, step."""
        newer = sa.select(STEPS.c.id, STEPS.c.job_id, STEPS.c.data).where(STEPS.c.id > number)
        newest = newer.order_by(STEPS.c.id.desc()).limit(limit)
        with self._reading() as connection:
            found = [(step_id, job_id, data) for step_id, job_id, data in connection.execute(newest)]
        return [(step_id, job_id, step_from_text(data)) for step_id, job_id, data in reversed(found)]

    def change_each(self, job_ids: Collection[str], change: Callable[[Job], Job]) -> None:
        """Apply the change to each of these rows, in one transaction: for many rows, a transaction each costs more than
        all the rest. Rows are locked in one order, so that two such changes do not wait for each other."""
        with self._writing() as connection:
            for job_id in sorted(job_ids):
                job = job_row(connection, job_id, to_change=True)
                if job is not None:
                    changed(connection, job, change)

    def wish_end(
        self, job_id: str, wish: Callable[[Job], Job], reads: NamesRead, *, cascade: bool = False
    ) -> Sequence[Job]:
        """`change` by the wish, unless a job that is not ending reads this one: InUse; or with all that read it."""
        with self._writing() as connection:
            job = job_to_change(connection, job_id)
            together = ending(job, active_jobs(connection), reads, cascade=cascade)
            return [changed(connection, one, wish) for one in together]

    def delete(self, job_id: str) -> None:
        """Remove the row, its events and its steps. Once more is no mistake."""
        with self._writing() as connection:
            remove_job(connection, job_id)

    def add_event(self, job_id: str, at_s: float, text: str) -> None:
        """Write down what happened; UnknownJob if the row is gone, for nobody would ever remove the event."""
        with self._writing() as connection:
            if connection.execute(sa.select(JOBS.c.id).where(JOBS.c.id == job_id)).first() is None:
                raise unknown_job(job_id)
            connection.execute(EVENTS.insert().values(job_id=job_id, at_s=at_s, text=storable(text)))
            if self._added.get(job_id, 0) % PRUNED_EVERY == 0:
                prune_events(connection, job_id)
            self._added[job_id] = self._added.get(job_id, 0) + 1

    def events(self, job_id: str) -> Sequence[tuple[float, str]]:
        """What happened, oldest first: the newest that are kept."""
        of_job = sa.select(EVENTS.c.at_s, EVENTS.c.text).where(EVENTS.c.job_id == job_id)
        newest = of_job.order_by(EVENTS.c.id.desc()).limit(ports.EVENTS_MAX)
        with self._reading() as connection:
            return [(at_s, text) for at_s, text in connection.execute(newest)][::-1]

    def events_after(self, number: int) -> Sequence[tuple[int, str, float, str]]:
        """What happened to all jobs after the event of that number, oldest first: number, job id, when, what."""
        columns = (EVENTS.c.id, EVENTS.c.job_id, EVENTS.c.at_s, EVENTS.c.text)
        wanted = sa.select(*columns).where(EVENTS.c.id > number).order_by(EVENTS.c.id)
        with self._reading() as connection:
            return [(event_id, job_id, at_s, text) for event_id, job_id, at_s, text in connection.execute(wanted)]

    def register(self, table: Registered) -> Registered:
        """The new table; or the one that has the name already, if its definition is equal; else NameTaken."""
        with self._writing() as connection:
            if known := attached(table, holder(connection, table.name)):
                return known
            row = {"name_key": stored_key(table.name), "data": json.dumps(table_to_json(table))}
            connection.execute(REGISTERED.insert().values(row))
            return table

    def unregister(self, name: str, reads: NamesRead) -> None:
        """Remove the table. A job that is being dropped may still read it: that counts as a use."""
        with self._writing() as connection:
            table = table_named(connection, name)
            if table is None:
                raise UnknownTable(f"there is no table {name}", hint="Check how the name is written.")
            check_unused(table.name, active_jobs(connection), reads)
            connection.execute(REGISTERED.delete().where(REGISTERED.c.name_key == stored_key(name)))

    def table(self, name: str) -> Registered | None:
        """The table that has the name."""
        with self._reading() as connection:
            return table_named(connection, name)

    def tables(self) -> Sequence[Registered]:
        """Every table, by name; sorted here like the jobs."""
        with self._reading() as connection:
            rows = [table_read(data) for data in connection.execute(sa.select(REGISTERED.c.data)).scalars()]
        return sorted(rows, key=lambda table: name_key(table.name))

    def tick(self, base: str) -> int | None:
        """The version of the base that is being gone to."""
        with self._reading() as connection:
            return tick_of(connection, base)

    def open_tick(self, base: str, after: int | None, number: int) -> int:
        """Compare-and-set: move the tick from `after` to `number`; returns the current tick."""
        with self._writing() as connection:
            known = tick_of(connection, base)
            if known is None:
                connection.execute(TICKS.insert().values(base=base, number=number))
            elif known == after:
                connection.execute(TICKS.update().where(TICKS.c.base == base).values(number=number))
            return number if known in (None, after) else known

    def keep_ticks(self, bases: Collection[str]) -> None:
        """Forget those of all other tables."""
        with self._writing() as connection:
            connection.execute(TICKS.delete().where(TICKS.c.base.not_in(list(bases))))

    def bring_up_to_date(self, schema: Schema) -> None:
        """Make the tables, or migrate them: all in one transaction, after a backup. A newer schema is an error."""
        if self.schema_version() == schema.version:
            return
        with self._writing() as connection:
            version = written_version(connection)
            if version is None:
                make_tables(connection, schema)
            elif version > schema.version:
                raise StoreUnreadable(
                    f"the store {self._place} has schema {version}, this release knows {schema.version}",
                    detail="A newer release wrote it.",
                    hint="Use that release, or another store.",
                )
            elif version < schema.version:
                self._migrate(connection, version, schema)

    def _migrate(self, connection: sa.Connection, version: int, schema: Schema) -> None:
        """The backup is taken under the write lock of the migration: nobody writes between the two."""
        steps = range(version, schema.version)
        if missing := [step for step in steps if step not in schema.migrations]:
            raise StoreUnreadable(
                f"the store {self._place} has schema {version}, which this release cannot migrate",
                detail=f"There is no way on from schema {missing[0]}.",
                hint="Open it once with a release between the two.",
            )
        self._back_up(version)
        for step in steps:
            schema.migrations[step](connection)
        connection.execute(META.update().values(schema_version=schema.version))

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """One consistent look, which waits for no writer."""
        with named_errors(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """One transaction that holds the write lock from its beginning; rolled back if anything is raised inside."""
        writer = self._engine.execution_options(writing=True)
        with named_errors(self._place), writer.begin() as connection:
            yield connection
