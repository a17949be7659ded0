"""The tables of a store, the version of their schema, and how an older schema is migrated."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from tidefill.errors import StoreUnreadable
from tidefill.store.postgres import refuse_closed_schema

SCHEMA_VERSION = 5
TABLES = sa.MetaData()
META = sa.Table(
    "meta",
    TABLES,
    sa.Column("only", sa.Integer, sa.CheckConstraint('"only" = 1'), primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("store_id", sa.Text, nullable=False),
)
JOBS = sa.Table(
    "jobs",
    TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name_key", sa.Text, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)
EVENTS = sa.Table(
    "events",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("at_s", sa.Double, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
REGISTERED = sa.Table(
    "tables",
    TABLES,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
)
NAMES = sa.Table(
    "names",
    TABLES,
    sa.Column("name_key", sa.Text, primary_key=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
)
EXPLAINED = sa.Table(
    "explained",
    TABLES,
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
)
TICKS = sa.Table(
    "ticks",
    TABLES,
    sa.Column("base", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
STEPS = sa.Table(
    "steps",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("data", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
sa.Index("jobs_name_held", JOBS.c.name_key, unique=True, sqlite_where=JOBS.c.active, postgresql_where=JOBS.c.active)


def _add_tables(connection: sa.Connection) -> None:
    """From 1 to 2. Written out, because what `REGISTERED` says may change while this must not."""
    connection.exec_driver_sql("CREATE TABLE tables (name_key TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL)")


def _add_ticks(connection: sa.Connection) -> None:
    """From 2 to 3."""
    connection.exec_driver_sql("CREATE TABLE ticks (base TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL)")


def _add_names(connection: sa.Connection) -> None:
    """From 3 to 4: the names of parts of jobs, and what EXPLAIN said of jobs."""
    of_job = "job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE"
    connection.exec_driver_sql(f"CREATE TABLE names (name_key TEXT NOT NULL PRIMARY KEY, {of_job})")
    connection.exec_driver_sql(f"CREATE TABLE explained ({of_job} PRIMARY KEY, data TEXT NOT NULL)")


def _add_steps(connection: sa.Connection) -> None:
    """From 4 to 5: the history of steps."""
    number = "SERIAL PRIMARY KEY" if connection.dialect.name == "postgresql" else "INTEGER PRIMARY KEY AUTOINCREMENT"
    of_job = "job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE"
    connection.exec_driver_sql(f"CREATE TABLE steps (id {number} NOT NULL, {of_job}, data TEXT NOT NULL)")
    connection.exec_driver_sql("CREATE INDEX ix_steps_job_id ON steps (job_id)")


_MIGRATIONS = {1: _add_tables, 2: _add_ticks, 3: _add_names, 4: _add_steps}


@dataclass(frozen=True, slots=True)
class Schema:
    """The version that this release writes, and for each older one the function that leads to the version after it."""

    version: int = SCHEMA_VERSION
    migrations: Mapping[int, Callable[[sa.Connection], None]] = field(default_factory=lambda: dict(_MIGRATIONS))


def written_version(connection: sa.Connection) -> int | None:
    """The schema version; None if nothing is there yet."""
    if connection.dialect.name == "postgresql":
        refuse_closed_schema(connection)
    tables = sa.inspect(connection).get_table_names()
    if not tables:
        return None
    version = connection.execute(sa.select(META.c.schema_version)).scalar() if "meta" in tables else None
    if not isinstance(version, int):
        raise StoreUnreadable(
            "the database is not a store of Tidefill",
            detail=f"It has the tables {', '.join(tables)}.",
            hint="Name another file as the store.",
        )
    return version


def make_tables(connection: sa.Connection, schema: Schema) -> None:
    """Make all tables in an empty database, and write down the schema version and a new id of the store."""
    TABLES.create_all(connection)
    connection.execute(META.insert().values(only=1, schema_version=schema.version, store_id=str(uuid.uuid4())))
