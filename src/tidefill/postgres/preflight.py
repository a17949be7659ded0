"""Whether a table of PostgreSQL can be followed: asked before anything is made. Each refusal says what mends it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg

from tidefill.errors import UpstreamUnfit
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.server import FREE_A_SLOT, NO_FREE_SLOT, PostgresServer, translated
from tidefill.postgres.survey import PgTable, Survey, check_fit, check_published
from tidefill.postgres.types import key_type

VERSION_MIN = 150000

_RIGHTS = """
SELECT current_user, current_database(),
  (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user),
  has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
  pg_has_role(c.relowner, 'USAGE') AND has_database_privilege(current_database(), 'CREATE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_SLOTS_LEFT = "SELECT current_setting('max_replication_slots')::int - count(*)::int FROM pg_replication_slots"


def preflight(
    server: PostgresServer, table: PgTable, publication_given: bool, slot_given: bool, *, made: bool = False
) -> tuple[Survey, int | None]:
    """What the table is, and how many slots the server has left, if one of them is needed; UpstreamUnfit if the table
    cannot be followed. `made`: the job is there already, and so may have its slot."""
    with closing(server.session("tidefill")) as session, translated(f"the server of {server.name}"):
        _check_server(session, server.name)
        seen = table.survey(session)
        check_fit(table, seen)
        _check_rights(session, table, publication_given)
        slot_missing = slot_given and table.confirmed(session) is None
        slots_left = None if slot_given or made else _slots_left(session)
    for name in seen.key:
        key_type(seen.column(name))
    if publication_given:
        check_published(table, seen)
    if slot_missing:
        raise UpstreamUnfit(
            f"there is no slot {table.slot} that can be used",
            hint=f"SELECT pg_create_logical_replication_slot('{table.slot}', 'pgoutput')",
        )
    if slots_left is not None and slots_left < 1:
        raise UpstreamUnfit(NO_FREE_SLOT, hint=FREE_A_SLOT)
    return seen, slots_left


def introduce(server: PostgresServer, prefix: str) -> tuple[str, list[str], int]:
    """The server's release, if it can be followed, its slots whose names begin like this, and how many are left."""
    with closing(server.session("tidefill")) as session, translated(f"the server of {server.name}"):
        _check_server(session, server.name)
        release = session.execute("SELECT current_setting('server_version')").fetchone()
        assert release is not None
        slots = session.execute("SELECT slot_name FROM pg_replication_slots ORDER BY slot_name").fetchall()
        return str(release[0]), [name for (name,) in slots if name.startswith(prefix)], _slots_left(session)


def _slots_left(session: psycopg.Connection[Any]) -> int:
    """How many may still be made. (No WAL sender is needed: the log is read by queries.)"""
    row = session.execute(_SLOTS_LEFT).fetchone()
    assert row is not None
    return int(row[0])


def _check_server(session: psycopg.Connection[Any], name: str) -> None:
    if session.info.server_version < VERSION_MIN:
        raise UpstreamUnfit(f"the server of {name} is too old", hint="PostgreSQL 15 or later is needed.")
    row = session.execute("SELECT pg_is_in_recovery(), current_setting('wal_level')").fetchone()
    assert row is not None
    if row[0]:
        raise UpstreamUnfit(
            f"the server of {name} is a standby", hint="Give the connection the address of the primary."
        )
    if row[1] != "logical":
        raise UpstreamUnfit(
            f"the server of {name} does not record changes by row",
            detail=f"wal_level is {row[1]}",
            hint="ALTER SYSTEM SET wal_level = logical; then restart the server.",
        )


def _check_rights(session: psycopg.Connection[Any], table: PgTable, publication_given: bool) -> None:
    row = session.execute(_RIGHTS, (table.schema, table.name)).fetchone()
    assert row is not None
    role, database, replicates, reads, publishes = row
    who = identifier(role)
    if not reads:
        raise UpstreamUnfit(
            f"the role {role} may not read {table.sql}",
            hint=f"GRANT USAGE ON SCHEMA {identifier(table.schema)} TO {who}; GRANT SELECT ON {table.sql} TO {who}",
        )
    if not replicates:
        raise UpstreamUnfit(f"the role {role} may not read the log", hint=f"ALTER ROLE {who} REPLICATION")
    if not publishes and not publication_given:
        raise UpstreamUnfit(
            f"the role {role} may not publish {table.sql}",
            detail=f"To make a publication it has to own the table and may have to create in {database}.",
            hint=f"As its owner: CREATE PUBLICATION {identifier('tidefill_' + table.name)} FOR TABLE {table.sql}; "
            f"then create the replica WITH (publication = 'tidefill_{table.name}').",
        )
