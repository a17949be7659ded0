"""The store: jobs, their events and registered tables in one SQLite file, or in a PostgreSQL database, safe under
several processes.

A row is the JSON document of a `Job` or of a `Registered`; beside it stand only the columns that lookups need. Every
change reads, changes and writes inside one transaction that holds the write lock from its beginning, so that no update
is ever lost and no name is ever given to two. Commits are synced to disk, because a fence that was given out must never
be given out again.

What SQLAlchemy and the drivers raise never leaves this module: it becomes an error of our own tree.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tidefill.errors import (
    BadInput,
    Bug,
    Conflict,
    DiskFull,
    StoreUnreadable,
    TidefillError,
    Unavailable,
    UnknownJob,
    UnknownTable,
)
from tidefill.extras import with_extra
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import (
    Holder,
    NamesRead,
    Registered,
    attached,
    check_needed,
    check_unused,
    ending,
    table_from_json,
    table_to_json,
)
from tidefill.jobs.row import Job, job_from_json, job_to_json, name_key
from tidefill.ports import store as ports
from tidefill.run.private import make_private
from tidefill.store.place import is_url

SCHEMA_VERSION = 3
POSTGRES_SCHEMA = "tidefill"
POSTGRES_LOCK = 7_449_358  # any number, the same for all
BUSY_S = 10.0
BUSY_POLL_S = 0.02
PRUNED_EVERY = 100  # events of a job, from its first in a process on: older ones are looked for that seldom
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BACKUPS_MAX = 100  # a migration that fails at every start shall not fill the disk

_TABLES = sa.MetaData()
_META = sa.Table(
    "meta",
    _TABLES,
    sa.Column("only", sa.Integer, sa.CheckConstraint('"only" = 1'), primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("store_id", sa.Text, nullable=False),
)
_JOBS = sa.Table(
    "jobs",
    _TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name_key", sa.Text, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)
_EVENTS = sa.Table(
    "events",
    _TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("at_s", sa.Double, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
_REGISTERED = sa.Table(
    "tables",
    _TABLES,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
)
_TICKS = sa.Table(
    "ticks",
    _TABLES,
    sa.Column("base", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
sa.Index("jobs_name_held", _JOBS.c.name_key, unique=True, sqlite_where=_JOBS.c.active, postgresql_where=_JOBS.c.active)


def _add_tables(connection: sa.Connection) -> None:
    """From 1 to 2. Written out, because what `_REGISTERED` says may change while this must not."""
    connection.exec_driver_sql("CREATE TABLE tables (name_key TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL)")


def _add_ticks(connection: sa.Connection) -> None:
    """From 2 to 3."""
    connection.exec_driver_sql("CREATE TABLE ticks (base TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL)")


_MIGRATIONS = {1: _add_tables, 2: _add_ticks}


@dataclass(frozen=True, slots=True)
class Schema:
    """The version that this release writes, and for each older one the function that leads to the version after it."""

    version: int = SCHEMA_VERSION
    migrations: Mapping[int, Callable[[sa.Connection], None]] = field(default_factory=lambda: dict(_MIGRATIONS))


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


class SqlStore:
    """`tidefill.ports.Store` on a database. Threads may share it; each call has a connection of its own."""

    def __init__(self, engine: sa.Engine, place: str, back_up: Callable[[int], None] = lambda version: None) -> None:
        """`place`: as a person may read it. `back_up` keeps a copy before a migration from that version."""
        self._engine = engine
        self._place = place
        self._back_up = back_up
        self._added: dict[str, int] = {}  # events of each job, by this process

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
            return str(connection.execute(sa.select(_META.c.store_id)).scalar_one())

    def schema_version(self) -> int | None:
        """The one that it was written with; None if nothing is there yet."""
        with self._reading() as connection:
            return _version(connection)

    def create(self, job: Job, needs: Sequence[str] = ()) -> Job:
        """The new job; or the one that has the name already, if its definition is equal; else NameTaken. Only a new job
        `needs` names: one that is there was created with them."""
        with self._writing() as connection:
            if known := attached(job, _holder(connection, job.name)):
                return known
            for name in needs:
                check_needed(name, _holder(connection, name))
            connection.execute(_JOBS.insert().values(id=job.id, **_columns(job)))
            return job

    def job(self, job_id: str) -> Job | None:
        """The row, if there is one."""
        with self._reading() as connection:
            return _row(connection, job_id)

    def find(self, name: str) -> Job | None:
        """The job that has the name now. A dropped job has none."""
        with self._reading() as connection:
            return _job_named(connection, name)

    def jobs(self) -> Sequence[Job]:
        """Every row, by name; sorted here, because databases differ in how they sort text."""
        with self._reading() as connection:
            rows = [_job_read(data) for data in connection.execute(sa.select(_JOBS.c.data)).scalars()]
        return sorted(rows, key=lambda job: (name_key(job.name), job.id))

    def change(self, job_id: str, change: Callable[[Job], Job]) -> Job:
        """Apply the change to the row and return what it is then. What `change` raises leaves the row as it was."""
        with self._writing() as connection:
            return _changed(connection, _to_change(connection, job_id), change)

    def wish_end(
        self, job_id: str, wish: Callable[[Job], Job], reads: NamesRead, *, cascade: bool = False
    ) -> Sequence[Job]:
        """`change` by the wish, unless a job that is not ending reads this one: InUse; or with all that read it."""
        with self._writing() as connection:
            job = _to_change(connection, job_id)
            together = ending(job, _active(connection), reads, cascade=cascade)
            return [_changed(connection, one, wish) for one in together]

    def delete(self, job_id: str) -> None:
        """Remove the row and its events. Once more is no mistake."""
        with self._writing() as connection:
            connection.execute(_EVENTS.delete().where(_EVENTS.c.job_id == job_id))
            connection.execute(_JOBS.delete().where(_JOBS.c.id == job_id))

    def add_event(self, job_id: str, at_s: float, text: str) -> None:
        """Write down what happened; UnknownJob if the row is gone, for nobody would ever remove the event."""
        with self._writing() as connection:
            if connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.id == job_id)).first() is None:
                raise _unknown(job_id)
            connection.execute(_EVENTS.insert().values(job_id=job_id, at_s=at_s, text=_storable(text)))
            if self._added.get(job_id, 0) % PRUNED_EVERY == 0:
                _prune_events(connection, job_id)
            self._added[job_id] = self._added.get(job_id, 0) + 1

    def events(self, job_id: str) -> Sequence[tuple[float, str]]:
        """What happened, oldest first: the newest that are kept."""
        of_job = sa.select(_EVENTS.c.at_s, _EVENTS.c.text).where(_EVENTS.c.job_id == job_id)
        newest = of_job.order_by(_EVENTS.c.id.desc()).limit(ports.EVENTS_MAX)
        with self._reading() as connection:
            return [(at_s, text) for at_s, text in connection.execute(newest)][::-1]

    def events_after(self, number: int) -> Sequence[tuple[int, str, float, str]]:
        """What happened to all jobs after the event of that number, oldest first: number, job id, when, what."""
        columns = (_EVENTS.c.id, _EVENTS.c.job_id, _EVENTS.c.at_s, _EVENTS.c.text)
        wanted = sa.select(*columns).where(_EVENTS.c.id > number).order_by(_EVENTS.c.id)
        with self._reading() as connection:
            return [(event_id, job_id, at_s, text) for event_id, job_id, at_s, text in connection.execute(wanted)]

    def register(self, table: Registered) -> Registered:
        """The new table; or the one that has the name already, if its definition is equal; else NameTaken."""
        with self._writing() as connection:
            if known := attached(table, _holder(connection, table.name)):
                return known
            row = {"name_key": _key(table.name), "data": json.dumps(table_to_json(table))}
            connection.execute(_REGISTERED.insert().values(row))
            return table

    def unregister(self, name: str, reads: NamesRead) -> None:
        """Remove the table. A job that is being dropped may still read it: that counts as a use."""
        with self._writing() as connection:
            table = _table_named(connection, name)
            if table is None:
                raise UnknownTable(f"there is no table {name}", hint="Check how the name is written.")
            check_unused(table.name, _active(connection), reads)
            connection.execute(_REGISTERED.delete().where(_REGISTERED.c.name_key == _key(name)))

    def table(self, name: str) -> Registered | None:
        """The table that has the name."""
        with self._reading() as connection:
            return _table_named(connection, name)

    def tables(self) -> Sequence[Registered]:
        """Every table, by name; sorted here like the jobs."""
        with self._reading() as connection:
            rows = [_table_read(data) for data in connection.execute(sa.select(_REGISTERED.c.data)).scalars()]
        return sorted(rows, key=lambda table: name_key(table.name))

    def tick(self, base: str) -> int | None:
        """The version of the base that is being gone to."""
        with self._reading() as connection:
            return _tick(connection, base)

    def open_tick(self, base: str, after: int | None, number: int) -> int:
        """Go on to this version if the last one is still the one `after` which it comes; which it is then."""
        with self._writing() as connection:
            known = _tick(connection, base)
            if known is None:
                connection.execute(_TICKS.insert().values(base=base, number=number))
            elif known == after:
                connection.execute(_TICKS.update().where(_TICKS.c.base == base).values(number=number))
            return number if known in (None, after) else known

    def keep_ticks(self, bases: Collection[str]) -> None:
        """Forget those of all other tables."""
        with self._writing() as connection:
            connection.execute(_TICKS.delete().where(_TICKS.c.base.not_in(list(bases))))

    def bring_up_to_date(self, schema: Schema) -> None:
        """Make the tables, or migrate them: all in one transaction, after a backup. A newer schema is an error."""
        if self.schema_version() == schema.version:
            return
        with self._writing() as connection:
            version = _version(connection)
            if version is None:
                _make_tables(connection, schema)
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
        connection.execute(_META.update().values(schema_version=schema.version))

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """One consistent look, which waits for no writer."""
        with _named_errors(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """One transaction that holds the write lock from its beginning; rolled back if anything is raised inside."""
        writer = self._engine.execution_options(writing=True)
        with _named_errors(self._place), writer.begin() as connection:
            yield connection


def _columns(job: Job) -> dict[str, Any]:
    return {
        "name_key": _key(job.name),
        "active": job.life is not Life.DROPPED,
        "data": json.dumps(job_to_json(job)),
    }


def _key(name: str) -> str:
    return _storable(name_key(name))


def _storable(text: str) -> str:
    """The text in Unicode that any database takes. The halves of surrogate pairs that undecodable file names carry
    become escapes, and so does the character zero."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _job_read(data: Any) -> Job:
    return job_from_json(_document(data, "a job"))


def _table_read(data: Any) -> Registered:
    return table_from_json(_document(data, "a table"))


def _document(data: Any, what: str) -> Any:
    try:
        return json.loads(data)
    except (TypeError, ValueError) as error:
        raise StoreUnreadable(f"{what} in the store cannot be read", detail=f"It is no JSON: {error}.") from error


def _row(connection: sa.Connection, job_id: str, *, to_change: bool = False) -> Job | None:
    """The row. One that is to be changed is locked, where a database locks rows and not the whole file."""
    wanted = sa.select(_JOBS.c.data).where(_JOBS.c.id == job_id)
    found = connection.execute(wanted.with_for_update() if to_change else wanted).first()
    return None if found is None else _job_read(found.data)


def _to_change(connection: sa.Connection, job_id: str) -> Job:
    job = _row(connection, job_id, to_change=True)
    if job is None:
        raise _unknown(job_id)
    return job


def _changed(connection: sa.Connection, before: Job, change: Callable[[Job], Job]) -> Job:
    after = change(before)
    if after != before:
        connection.execute(_JOBS.update().where(_JOBS.c.id == before.id).values(_columns(after)))
    return after


def _active(connection: sa.Connection) -> Sequence[Job]:
    """The jobs that are not dropped."""
    return [_job_read(data) for data in connection.execute(sa.select(_JOBS.c.data).where(_JOBS.c.active)).scalars()]


def _holder(connection: sa.Connection, name: str) -> Holder | None:
    """The job or the table that has the name."""
    return _job_named(connection, name) or _table_named(connection, name)


def _job_named(connection: sa.Connection, name: str) -> Job | None:
    wanted = sa.select(_JOBS.c.data).where(_JOBS.c.name_key == _key(name), _JOBS.c.active)
    found = connection.execute(wanted).first()
    return None if found is None else _job_read(found.data)


def _table_named(connection: sa.Connection, name: str) -> Registered | None:
    wanted = sa.select(_REGISTERED.c.data).where(_REGISTERED.c.name_key == _key(name))
    found = connection.execute(wanted).first()
    return None if found is None else _table_read(found.data)


def _tick(connection: sa.Connection, base: str) -> int | None:
    return connection.execute(sa.select(_TICKS.c.number).where(_TICKS.c.base == base)).scalar()


def _prune_events(connection: sa.Connection, job_id: str) -> None:
    """Forget all but the newest of the job."""
    of_job = sa.select(_EVENTS.c.id).where(_EVENTS.c.job_id == job_id)
    last = of_job.order_by(_EVENTS.c.id.desc()).offset(ports.EVENTS_MAX).limit(1).scalar_subquery()
    connection.execute(_EVENTS.delete().where(_EVENTS.c.job_id == job_id, _EVENTS.c.id <= last))


def _unknown(job_id: str) -> UnknownJob:
    return UnknownJob(f"there is no job {job_id}", hint="It was dropped. SHOW JOBS lists those that are there.")


def _version(connection: sa.Connection) -> int | None:
    """The schema version; None if nothing is there yet."""
    if connection.dialect.name == "postgresql":
        _refuse_closed_schema(connection)
    tables = sa.inspect(connection).get_table_names()
    if not tables:
        return None
    version = connection.execute(sa.select(_META.c.schema_version)).scalar() if "meta" in tables else None
    if not isinstance(version, int):
        raise StoreUnreadable(
            "the database is not a store of Tidefill",
            detail=f"It has the tables {', '.join(tables)}.",
            hint="Name another file as the store.",
        )
    return version


def _make_tables(connection: sa.Connection, schema: Schema) -> None:
    _TABLES.create_all(connection)
    connection.execute(_META.insert().values(only=1, schema_version=schema.version, store_id=str(uuid.uuid4())))


def _sqlite_store(file: Path, busy_s: float) -> SqlStore:
    _make_file(file)
    engine = _sqlite_engine(file, busy_s)
    return SqlStore(engine, str(file), lambda version: _sqlite_backup(file, f"{file.name}.backup-{version}"))


def _make_file(file: Path) -> None:
    """An empty file that only its owner may read, in a directory made if it is missing. SQLite gives the files that it
    puts beside it the same mode. If the file was there, others lose what they may do to it and its backups."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        make_private(file)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise _disk_full(str(file), f"{error.strerror}.") from error
        raise BadInput(
            f"the store {file} cannot be written",
            detail=f"{error.strerror}.",
            hint="Name a file on a local disk, in a directory that you may write.",
        ) from error


def _postgres_store(url: str, busy_s: float) -> SqlStore:
    """A schema of its own. Whoever writes has the store to himself, as in SQLite: the lock comes first."""
    address = _postgres_address(url)
    with with_extra("postgres"):
        engine = sa.create_engine(
            address,
            poolclass=NullPool,
            connect_args={
                "application_name": "tidefill store",
                "connect_timeout": int(busy_s),
                "options": f"-c search_path={POSTGRES_SCHEMA} -c lock_timeout={int(busy_s * 1000)}",
            },
        )

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("writing", False):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRES_LOCK})")
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {POSTGRES_SCHEMA}")

    return SqlStore(engine, _postgres_place(address))


def _postgres_place(address: sa.URL) -> str:
    """As a person may read it. Options may be secret too."""
    return address.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def _refuse_closed_schema(connection: sa.Connection) -> None:
    """To a role that may not use the schema, the store would look like none."""
    usable = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = "
    if connection.exec_driver_sql(f"{usable}'{POSTGRES_SCHEMA}'").scalar() is False:
        raise BadInput(
            f"the role may not use the schema {POSTGRES_SCHEMA} of the store",
            hint="Give the URL the role that made the store.",
        )


def _postgres_address(url: str) -> sa.URL:
    """The parts of the URL. What is said of one that cannot be read may hold the password, and so may what was taken
    for the host."""
    try:
        address = sa.make_url(url)
    except (SQLAlchemyError, ValueError):
        address = None
    if address is None or "@" in (address.host or ""):
        raise BadInput(
            "the URL of the store cannot be read",
            hint="postgresql://user:password@host:5432/database, with %40 for @ and %25 for % in the password.",
        ) from None
    return address.set(drivername="postgresql+psycopg")


def _postgres_named(cause: BaseException | None, place: str) -> TidefillError:
    """By the SQLSTATE."""
    detail = f"{type(cause).__name__}: {str(cause).strip().splitlines()[0] if str(cause).strip() else ''}"
    match str(getattr(cause, "sqlstate", None) or "")[:2]:
        case "23":
            return Conflict(f"the store {place} has such a row already", detail=detail)
        case "53" if getattr(cause, "sqlstate", "") == "53100":
            hint = "Free space on the disk of the server. The store is unharmed."
            return DiskFull(f"the disk of the store {place} is full", detail=detail, hint=hint)
        case "42" if getattr(cause, "sqlstate", "") == "42501":
            return BadInput(
                f"the store {place} cannot be written", detail=detail, hint="Let the role create in the database."
            )
        case "42":
            return _unreadable(place, detail)
        case "":
            return Unavailable(
                f"the store {place} cannot be reached",
                detail=detail,
                hint="Check the URL, that the server runs, and that it lets you in.",
            )
    return Unavailable(f"the store {place} does not answer", detail=detail)


def _sqlite_engine(file: Path, busy_s: float) -> sa.Engine:
    """What is special about SQLite. A connection lives for one call: an open one must not pass through a fork, and a
    file that was removed must not come back empty (`mode=rw`). Transactions are begun by us, for the driver would
    begin them too late."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode=rw", uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            _sqlite_use_wal(connection, busy_s)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN DEFERRED")

    return engine


def _sqlite_use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Readers and the writer do not wait for each other. The file remembers the mode; the one switch of its life does
    not heed the busy timeout, so the waiting is done here."""
    deadline_s = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _sqlite_code(error) != "SQLITE_BUSY" or time.monotonic() >= deadline_s:
                raise
        time.sleep(BUSY_POLL_S)


def _sqlite_backup(file: Path, name: str) -> None:
    """A copy of the committed content beside the file; half a copy is removed, lest it be taken for a whole one."""
    copy = _new_file(file, name)
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as sink:
            source.backup(sink)
    except BaseException:
        copy.unlink()
        raise


def _new_file(beside: Path, name: str) -> Path:
    """An empty file that was not there before: if the name is in use, it gets a number."""
    for number in range(1, BACKUPS_MAX + 1):
        file = beside.with_name(name if number == 1 else f"{name}-{number}")
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
            return file
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno in NO_ROOM:
                raise _disk_full(str(beside), f"{error.strerror}.") from error
            raise Unavailable(f"the backup {file} cannot be written", detail=f"{error.strerror}.") from error
    raise BadInput(f"there are {BACKUPS_MAX} backups beside {beside}", hint="Move those away that you do not need.")


@contextmanager
def _named_errors(place: str) -> Iterator[None]:
    """Errors of the database as errors of our own tree; everything else passes."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise named(error, place) from error


def named(error: SQLAlchemyError | sqlite3.Error, file: str) -> TidefillError:
    """The error of our own tree that says what the database said of the store."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if type(cause).__module__.startswith("psycopg"):
        return _postgres_named(cause, file)
    detail = f"{type(cause).__name__}: {cause}."
    match _sqlite_code(cause).removeprefix("SQLITE_").partition("_")[0]:
        case "BUSY" | "LOCKED":
            return Unavailable(f"the store {file} is locked by another process", detail=detail)
        case "READONLY" | "PERM" | "AUTH":
            return BadInput(f"the store {file} cannot be written", detail=detail, hint="Check who may write the file.")
        case "FULL" | "IOERR":  # IOERR: SQLite says so, too, when a file beside the store cannot grow
            return _disk_full(file, detail)
        case "CONSTRAINT":
            return Conflict(f"the store {file} has such a row already", detail=detail)
        case "NOTADB" | "CORRUPT" | "ERROR":  # ERROR: a table or a column that should be there is not
            return _unreadable(file, detail)
        case "" if isinstance(cause, sqlite3.OperationalError):  # the driver's own: a text that is not Unicode
            return _unreadable(file, detail)
    if isinstance(cause, sqlite3.OperationalError):
        return Unavailable(f"the store {file} does not answer", detail=detail)
    return Bug(f"the store {file} cannot do what was asked", detail=detail)


def _sqlite_code(error: BaseException | None) -> str:
    """SQLite's name of the error, such as SQLITE_BUSY; empty if it has none."""
    return str(getattr(error, "sqlite_errorname", ""))


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether SQLite found the file itself to be wrong: not a database, or malformed."""
    return _sqlite_code(error).startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def _disk_full(file: str, detail: str) -> DiskFull:
    folder = Path(file).parent
    return DiskFull(
        f"the disk of the store {file} is full, or cannot be written",
        detail=detail,
        hint=f"Free space on the disk of {folder} (df -h {quote(str(folder))}). The store is unharmed.",
    )


def _unreadable(file: str, detail: str) -> StoreUnreadable:
    return StoreUnreadable(
        f"the store {file} cannot be read",
        detail=detail,
        hint="It is damaged or no store. Restore it from a backup, or move it away to begin with an empty one.",
    )
