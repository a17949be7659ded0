"""A store in a PostgreSQL database: its URL, its connections and its schema."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from tidefill.errors import BadInput
from tidefill.extras import with_extra

POSTGRES_SCHEMA = "tidefill"
POSTGRES_LOCK = 7_449_358  # any number, the same for all


def postgres_address(url: str) -> sa.URL:
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


def postgres_engine(address: sa.URL, busy_s: float) -> sa.Engine:
    """A schema of its own. A writer has the store to himself, as in SQLite: it takes the lock first."""
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

    return engine


def postgres_place(address: sa.URL) -> str:
    """As a person may read it. Options may be secret too."""
    return address.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def refuse_closed_schema(connection: sa.Connection) -> None:
    """To a role that may not use the schema, the store would look like none."""
    usable = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = "
    if connection.exec_driver_sql(f"{usable}'{POSTGRES_SCHEMA}'").scalar() is False:
        raise BadInput(
            f"the role may not use the schema {POSTGRES_SCHEMA} of the store",
            hint="Give the URL the role that made the store.",
        )
