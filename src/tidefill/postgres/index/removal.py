"""Takes an index away from its server: first it stops doing anything to writers, then, when none of them runs an older
body any more, its tables, functions and triggers go.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from tidefill.errors import Fenced, NotYet
from tidefill.indexes.control import CONTROL, LOCK_MS, TAKEN_OVER
from tidefill.indexes.guard import guard_name
from tidefill.indexes.leaves import CHUNKS, LEAVES, forget_all
from tidefill.indexes.locking import DECLARED, lock_tree
from tidefill.indexes.shape import LOGS, SCHEMA, Shape, literal
from tidefill.indexes.states import Body
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.index.session import IndexSession, told, waits_for

FUNCTIONS = ("guard", "row", "truncate", "do", "merge", "slow", "leaf", "at", "of", "raw", "try", "key")
"""In an order in which each can be dropped."""

_TRIGGERS = f"""
SELECT t.tgrelid::regclass::text, t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE p.pronamespace = to_regnamespace('{SCHEMA}') AND p.proname = ANY (%s) AND t.tgparentid = 0 ORDER BY 2 DESC, 1
"""


def stop(session: IndexSession) -> None:
    """Have the trigger do nothing from now on. Needs no lock on the table. The fence is not asked: whoever drops the
    job may stop what an older runner still does."""
    name = session.shape.id
    with told(f"the index {session.shape.name}"), session.connection.transaction():
        session.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
        row = session.connection.execute(f"SELECT stops FROM {CONTROL} WHERE id = %s FOR UPDATE", (name,)).fetchone()
        if row is None:
            return
        if base_is_there(session):
            session.connection.execute(row[0])
        session.connection.execute(
            f"UPDATE {CONTROL} SET state = 'ABSENT', body = 'ABSENT', step = step + 1, is_public = false, "
            f"by_hand = false, fence = %s, changed = pg_current_xact_id() WHERE id = %s",
            (session.fence, name),
        )


def base_is_there(session: IndexSession) -> bool:
    """Whether the base table still exists. DROP TABLE ... CASCADE takes triggers and functions along."""
    query = "SELECT 1 FROM pg_class WHERE oid = %s"
    return session.connection.execute(query, (session.shape.relation,)).fetchone() is not None


def clear(session: IndexSession) -> None:
    """Remove everything but the control row and its report. The trigger has been stopped, and its barrier has passed.
    Dropping a trigger needs the table for a moment: NotYet if that cannot be had now."""
    shape = session.shape
    control = session.control()
    if control is None:
        return  # it is the last to go
    if control.body is not Body.ABSENT:
        raise NotYet(f"the index {shape.name} still works")
    drop_view(session)
    tables = ", ".join((shape.entries, *map(shape.log, LOGS)))
    _remove(session, f"DROP TABLE IF EXISTS {tables}; {forget_all(shape)}")
    _remove(session, f"DROP EVENT TRIGGER IF EXISTS {guard_name(shape)}")
    _drop_triggers(session)
    _remove(session, _drop_functions(shape))


def _remove(session: IndexSession, statement: str, *, exclusive: str = "") -> bool:
    """Execute it in ONE statement with a look at the control row, which it holds: a runner that was taken over must not
    remove what the next one has made. `exclusive`: a table that it needs for itself with all its partitions; False if
    that cannot be had now."""
    fenced = _fenced(session.shape, session.fence, statement, exclusive)
    with told(f"the index {session.shape.name}"):
        try:
            if exclusive:
                return session.locked(fenced, exclusive)
            with session.short_locks() as connection:
                connection.execute(fenced)
            return True
        except errors.DependentObjectsStillExist as error:
            detail = str(error.diag.message_detail)
            raise NotYet(f"something of yours depends on the index {session.shape.name}", detail=detail) from error
        except psycopg.Error as error:
            if error.sqlstate == TAKEN_OVER:
                raise Fenced(f"another runner has taken the index {session.shape.name} over") from error
            raise


def _fenced(shape: Shape, fence: int, statement: str, exclusive: str = "") -> str:
    mine = f"SELECT 1 FROM {CONTROL} WHERE id = {literal(shape.id)} AND fence <= {fence} AND body = 'ABSENT' FOR UPDATE"
    refusal = f"RAISE EXCEPTION 'taken over' USING ERRCODE = '{TAKEN_OVER}'"
    held = f"PERFORM x FROM ({mine}) q (x); IF NOT FOUND THEN {refusal}; END IF;"
    locked = lock_tree(f"{literal(exclusive)}::regclass", "ACCESS EXCLUSIVE", LOCK_MS) if exclusive else ""
    return f"DO {literal(f'DECLARE {DECLARED} BEGIN {held} {locked} EXECUTE {literal(statement)}; END')}"


def _drop_triggers(session: IndexSession) -> None:
    """One table at a time: a trigger of a partition would keep the lock of the table before it. Those of rows go with
    the root's. A partition that was detached still has its trigger for TRUNCATE. DROP TRIGGER needs ACCESS EXCLUSIVE,
    behind which readers queue, too: it is not tried beside a reader that has held the table for longer than a
    moment."""
    shape = session.shape
    functions = [f"{shape.id}_row", f"{shape.id}_truncate"]
    for table, name in session.all(_TRIGGERS, (functions,)):
        if not _remove(session, f"DROP TRIGGER IF EXISTS {identifier(name)} ON {table}", exclusive=table):
            others = waits_for(session.users(table)) or "the table to be quiet"
            raise NotYet(f"the index {shape.name} is still on {table}, and waits for {others}")


def _drop_functions(shape: Shape) -> str:
    names = ", ".join(f"'{shape.id}_{name}'" for name in FUNCTIONS)
    return (
        f"DO $$ DECLARE r record; BEGIN FOR r IN SELECT p.oid::regprocedure::text AS f FROM pg_proc p "
        f"WHERE p.pronamespace = to_regnamespace('{SCHEMA}') AND p.proname IN ({names}) "
        f"ORDER BY array_position(ARRAY[{names}], p.proname::text) LOOP "
        f"EXECUTE 'DROP FUNCTION IF EXISTS ' || r.f; END LOOP; END $$"
    )


def forget(session: IndexSession) -> None:
    """Remove the control row, and the schema if nothing else is in it."""
    with told(f"the index {session.shape.name}"):
        if not session.one(f"SELECT to_regclass('{CONTROL}') IS NOT NULL")[0]:
            return
        gone = f"DELETE FROM {CONTROL} WHERE id = %s AND fence <= %s AND body = 'ABSENT'"
        session.connection.execute(gone, (session.shape.id, session.fence))
        try:
            with session.connection.transaction():
                session.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
                session.connection.execute(f"LOCK TABLE {CONTROL} IN ACCESS EXCLUSIVE MODE")
                left = session.connection.execute(f"SELECT count(*) FROM {CONTROL}").fetchone()
                if left == (0,):
                    session.connection.execute(f"DROP TABLE {CONTROL}, {CHUNKS}, {LEAVES}")
                    session.connection.execute(f"DROP FUNCTION {SCHEMA}.stop")
                    session.connection.execute(f"DROP SCHEMA {SCHEMA}")
        except (errors.LockNotAvailable, errors.DependentObjectsStillExist, errors.InsufficientPrivilege):
            return  # somebody else uses it


def drop_view(session: IndexSession) -> None:
    """Remove the view that users read, if it is there and shows this index."""
    shape = session.shape
    with told(f"the index {shape.name}"):
        found = session.connection.execute(
            "SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass "
            "WHERE r.ev_class = to_regclass(%s) AND d.refobjid = to_regclass(%s)",
            (shape.view, shape.entries),
        ).fetchone()
        if found is not None:
            try:
                with session.short_locks() as connection:
                    connection.execute(f"DROP VIEW IF EXISTS {shape.view}")
            except errors.DependentObjectsStillExist as error:
                raise NotYet(f"something of yours reads {shape.view}", detail=str(error.diag.message_detail)) from error
