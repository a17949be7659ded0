"""Questions of a runner about one index on its server, and the comparison with the base table."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg

from tidefill.errors import IndexBroken, NameTaken, UpstreamReplaced, UpstreamUnfit, VerifyFailed
from tidefill.indexes import checking
from tidefill.indexes.bodies import trigger_names
from tidefill.indexes.control import CONTROL, Control, grant_to_owner
from tidefill.indexes.guard import NEEDED
from tidefill.indexes.merging import names_base_now, slow_function
from tidefill.indexes.shape import LOGS, Shape, literal, renamed
from tidefill.jobs.sql_names import identifier, unquoted
from tidefill.postgres.index.session import Holder, IndexSession, told

SWEPT = 5000
POLL_S = 0.02

_NAMES = """
SELECT n.nspname, c.relname, (SELECT json_object_agg(a.attnum::text, a.attname) FROM pg_attribute a
  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
_OLDER = f"""
SELECT '', a.pid, '', a.application_name, a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8,
  left(a.query, 60), NULL
FROM pg_stat_activity a, {CONTROL} c
WHERE c.id = %s AND a.pid <> pg_backend_pid() AND a.datname = current_database()
  AND coalesce(a.backend_type, 'client backend') = 'client backend' AND age(a.backend_xmin) >= age(c.changed::xid)
"""
# A plain owner does not see the types of others' sessions. A snapshot whose oldest transaction IS the change does not
# see what that did.
_TRIGGERS = """
SELECT r.relid::regclass::text, n.name, t.tgenabled::text
FROM (SELECT relid FROM pg_partition_tree(%s) UNION SELECT %s::regclass) r CROSS JOIN unnest(%s::text[]) AS n (name)
LEFT JOIN pg_trigger t ON t.tgrelid = r.relid AND t.tgname = n.name
WHERE t.tgenabled IS DISTINCT FROM 'A' LIMIT 1
"""
_RIGHTS = """
SELECT NOT (coalesce(has_function_privilege(c.relowner, to_regproc(%s)::oid, 'EXECUTE'), true)
    AND coalesce(has_function_privilege(c.relowner, to_regproc(%s)::oid, 'EXECUTE'), true)),
  has_table_privilege(c.oid, 'SELECT'), pg_get_userbyid(c.relowner), current_user
FROM pg_class c WHERE c.oid = %s
"""
_FUNCTIONS = """
SELECT count(*) FROM pg_proc p WHERE p.pronamespace = to_regnamespace('tidefill') AND p.proname = ANY (%s)
"""


def with_names_of_now(connection: psycopg.Connection[Any], shape: Shape) -> Shape:
    """The shape with the names that table and columns have now. UpstreamReplaced if the table or a column of it is
    gone."""
    found = connection.execute(_NAMES, (shape.relation,)).fetchone()
    if found is None:
        raise UpstreamReplaced(
            f"the table {shape.schema}.{shape.table} is gone, or another one has its name now",
            hint="Drop the job, and create the index on the table that is there now.",
        )
    schema, table, names = found
    try:
        return renamed(shape, schema, table, {int(number): name for number, name in names.items()})
    except KeyError as error:
        raise UpstreamReplaced(f"a column of {shape.schema}.{shape.table} that the index needs is gone") from error


def is_renamed(session: IndexSession) -> bool:
    """Whether the table or a column of it has another name by now. The session goes on with the new names."""
    with told(f"the table {session.shape.base}"):
        before, session.shape = session.shape, with_names_of_now(session.connection, session.shape)
    return session.shape != before


def follow_rename(session: IndexSession) -> None:
    """Have the one function that names the table and its columns in PL/pgSQL name them as they are now."""
    control, found = session.control(), session.one(names_base_now(session.shape))
    if control is not None and found is not None and not found[0]:
        with session.transaction(control, "UPDATE") as connection:
            connection.execute(slow_function(session.shape))


def logged(session: IndexSession, most: int) -> tuple[int, int]:
    """How many rows the two logs have, counted no further than `most`."""
    first, second = (f"(SELECT count(*) FROM (SELECT 1 FROM {session.shape.log(n)} LIMIT {most}) q)" for n in LOGS)
    row = session.one(f"SELECT {first}, {second}")
    return int(row[0]), int(row[1])


def log_bytes(session: IndexSession) -> int:
    """What the two logs take on the server's disk, with their indexes."""
    sizes = " + ".join(f"pg_total_relation_size('{session.shape.log(number)}')" for number in LOGS)
    return int(session.one(f"SELECT {sizes}")[0])


def has_tombstones(session: IndexSession) -> bool:
    """Whether there are any."""
    return session.one(f"SELECT 1 FROM {session.shape.entries} WHERE dead LIMIT 1") is not None


def sweep(session: IndexSession, control: Control) -> int:
    """Remove some tombstones; how many."""
    entries = session.shape.entries
    with session.transaction(control) as connection:
        connection.execute("SET LOCAL lock_timeout = '100ms'")
        some = f"SELECT ctid FROM {entries} WHERE dead LIMIT {SWEPT}"
        return connection.execute(f"DELETE FROM {entries} WHERE ctid = ANY (ARRAY({some})) AND dead").rowcount


def older_snapshots(session: IndexSession) -> list[Holder]:
    """Those who still read as of a time before the last change of the body: entries may be missing in their
    snapshot."""
    return [Holder(*row) for row in session.all(_OLDER, (session.shape.id,))]


def writers_end(session: IndexSession, within_s: float) -> bool:
    """Whether all who write now have ended within that time."""
    until_s = time.monotonic() + within_s
    held = {one.transaction for one in session.writers()}
    while held:
        if time.monotonic() > until_s:
            return False
        time.sleep(POLL_S)
        held &= {one.transaction for one in session.writers()}
    return True


def end_sessions(session: IndexSession, holders: list[Holder]) -> None:
    """End the sessions of these transactions. One that is prepared has none: only its owner can end it."""
    pids = [one.pid for one in holders if one.pid is not None]
    session.all("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) q (pid)", (pids,))


def validated(session: IndexSession) -> int:
    """How many entries there are, after they were compared with the base table in one snapshot. Raises VerifyFailed,
    with up to ten rows that differ. A second session that has the same snapshot reads the entries meanwhile."""
    shape = session.shape
    with told(f"the index {shape.name}"), closing(session.another()) as other, session.connection.transaction():
        connection = session.connection
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # it may wait for the other session
        snapshot = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert snapshot is not None, "a function gives a row"
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(_entry_sums, other, snapshot[0])
            base = connection.execute(checking.base_sums(shape)).fetchone()
            entries = begun.result()
        if base != entries:
            found = connection.execute(checking.differences(shape)).fetchall()
            raise VerifyFailed(
                f"the index {shape.name} differs from its table", detail="\n".join(text for (text,) in found),
                hint="RESYNC the job to build it anew. Please report it with the log.",
            )  # fmt: skip
    return int(entries[0])


def _entry_sums(session: IndexSession, snapshot: str) -> Any:
    with session.connection.transaction():
        session.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        session.connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}")
        return session.connection.execute(checking.entry_sums(session.shape)).fetchone()


def broken_trigger(session: IndexSession) -> tuple[str, str, str | None] | None:
    """A row trigger that is gone or disabled: its table, its name, and how it is enabled if it is there."""
    shape = session.shape
    names = [unquoted(name) for name in trigger_names(shape)]
    found: tuple[str, str, str | None] | None = session.one(_TRIGGERS, (shape.relation, shape.relation, names))
    return found


def check_whole(session: IndexSession, control: Control | None) -> None:
    """IndexBroken if a part of a live index is gone or disabled."""
    shape = session.shape
    if control is None or not control.is_public:
        raise _broken(shape, "it was stopped on the server")
    found = broken_trigger(session)
    if found is not None:
        table, name, enabled = found
        what = "gone" if enabled is None else "not enabled for all writers"
        raise _broken(shape, f"its trigger {name} on {table} is {what}")
    functions = [f"{shape.id}_{name}" for name in NEEDED]
    if session.one(_FUNCTIONS, (functions,))[0] < len(functions):
        raise _broken(shape, "one of its functions is gone")
    if session.one("SELECT to_regclass(%s)", (shape.entries,))[0] is None:
        raise _broken(shape, "its entries are gone")


def lacks_grants(session: IndexSession) -> bool:
    """Whether the table belongs to a role that may not call the trigger functions, and so can make no partitions.
    Raises UpstreamUnfit if our own role may not read the table any more."""
    shape = session.shape
    called = [shape.function(what) for what in ("row", "truncate")]
    is_lacking, may_read, owner, role = session.one(_RIGHTS, (*called, shape.relation))
    if not may_read:
        raise UpstreamUnfit(
            f"{shape.base} belongs to {owner} now, and the role {role} may not read it",
            detail=f"The trigger of the index {shape.name} reads the table by that role: all writers are refused.",
            hint=f"GRANT {identifier(owner)} TO {identifier(role)}, then RESUME the job.",
        )
    return bool(is_lacking)


def grant_owner(session: IndexSession, control: Control) -> None:
    """Give the owner of now the rights that the owner had when the index was made."""
    with session.transaction(control, "UPDATE") as connection:
        connection.execute(grant_to_owner(session.shape))
        grant_view(connection, session.shape)


def stopped_by_hand(shape: Shape) -> IndexBroken:
    """The stop of a build that somebody has ended on the server: nobody begins it again unasked."""
    return IndexBroken(
        f"the index {shape.name} was stopped on the server by tidefill.stop",
        hint="RESUME the job to build it from the beginning, or drop it.",
    )


def _broken(shape: Shape, what: str) -> IndexBroken:
    return IndexBroken(
        f"the index {shape.name} is broken: {what}",
        detail="Writes since then may be missing from it, and duplicates were not refused.",
        hint="RESYNC the job builds it anew beside the broken one.",
    )


# The view.


def view_names(shape: Shape) -> tuple[str, ...]:
    """The names of the view's columns, in SQL, for key, primary key and included columns; empty for a column that was
    shown before. An expression is called key, or key_2 and so on."""
    by_text = {text: one.name for one in shape.used for text in (one.name, identifier(one.name))}
    names = list[str]()
    for at, key in enumerate(shape.keys, 1):
        names.append(by_text.get(key.name, "key" if len(shape.keys) == 1 else f"key_{at}"))
    names += [column.name for column in (*shape.primary_key, *shape.include)]
    return tuple("" if name in names[:at] else identifier(name) for at, name in enumerate(names))


def make_view(connection: psycopg.Connection[Any], shape: Shape) -> None:
    """Make the view, or have it show this generation. A view cannot rename its columns: after a RENAME in the table it
    is made anew."""
    names = view_names(shape)
    known = connection.execute(
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = to_regclass(%s) "
        "AND attnum > 0 AND NOT attisdropped",
        (shape.view,),
    ).fetchone()
    if known is not None and known[0] is not None and known[0] != [unquoted(name) for name in names if name]:
        connection.execute(f"DROP VIEW {shape.view}")
    connection.execute(checking.view(shape, names))


def check_name(session: IndexSession) -> None:
    """NameTaken if something else has the name of the view."""
    shape = session.shape
    query = (
        "SELECT c.relkind = 'v' AND EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
        "JOIN pg_class e ON e.oid = d.refobjid JOIN pg_namespace n ON n.oid = e.relnamespace "
        "WHERE r.ev_class = c.oid AND n.nspname = 'tidefill') FROM pg_class c WHERE c.oid = to_regclass(%s)"
    )
    found = session.one(query, (shape.view,))
    if found is not None and not found[0]:
        raise NameTaken(
            f"{shape.view} is there already", detail="The index is read by a view of its name.",
            hint="Rename what has the name, then RESUME the job.",
        )  # fmt: skip


def grant_view(connection: psycopg.Connection[Any], shape: Shape) -> None:
    """Whoever may read the table may read the view and the entries behind it."""
    query = (
        "SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END "
        "FROM pg_class c CROSS JOIN LATERAL aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a "
        "WHERE c.oid = %s AND a.privilege_type = 'SELECT'"
    )
    for (role,) in connection.execute(query, (shape.relation,)).fetchall():
        connection.execute(f"GRANT SELECT ON {shape.view}, {shape.entries} TO {role}")
        connection.execute(f"GRANT USAGE ON SCHEMA tidefill TO {role}")
