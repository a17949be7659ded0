"""The changes of an index's state, each one statement or one transaction on its server."""

from __future__ import annotations

from psycopg import errors

from tidefill.errors import NotYet, TidefillError, Unavailable, VerifyFailed
from tidefill.indexes.bodies import shared_function, truncate_function
from tidefill.indexes.control import CONTROL, LOCK_MS, Control, install
from tidefill.indexes.guard import guard, guard_name
from tidefill.indexes.states import Body, Method, State
from tidefill.jobs.sql_names import unquoted
from tidefill.postgres.index import looking, partitions, repair
from tidefill.postgres.index.session import IndexSession, told, waits_for

_LACKS_GUARD = """
SELECT rolsuper AND NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = %s) FROM pg_roles
WHERE rolname = current_user
"""


def installed(session: IndexSession, method: Method) -> tuple[str, ...]:
    """Make tables, functions and triggers. Returns what happened. Raises NotYet if the table is busy."""
    shape = session.shape
    try:
        with told(f"the index {shape.name}"):
            done = session.locked(install(shape, method, session.fence))
    except errors.UniqueViolation:
        done = False
    except TidefillError as error:
        if isinstance(error.__cause__, (errors.UndefinedTable, errors.InvalidSchemaName)):
            raise Unavailable("the schema of Tidefill is being removed on the server", detail=str(error)) from error
        raise
    if not done:
        raise NotYet(f"the table {shape.table} is busy", detail=waits_for(session.writers()))
    make_guard(session)
    return ("installed",)


def make_guard(session: IndexSession) -> None:
    """Have the server refuse statements that would break the index, if our role may make an event trigger, and the
    index is there and has none. One that is broken already gets none: it would refuse the statements that mend it."""
    shape, control = session.shape, session.control()
    if control is None or control.body is Body.ABSENT:
        return
    lacks_it = session.one(_LACKS_GUARD, (unquoted(guard_name(shape)),))[0]
    if not lacks_it or looking.broken_trigger(session) is not None:
        return
    with session.transaction(control, "UPDATE") as connection:
        for statement in guard(shape):
            connection.execute(statement)


def advance(session: IndexSession, control: Control, state: State, body: Body, rows: int = 0) -> None:
    """Change the state, and the body if it is another one. `changed` is the transaction of the last change of the body:
    publishing waits for older snapshots."""
    shape = session.shape
    if state is State.MERGING:  # the drained log is written next
        repair.empty_resting_log(session, control)
    with session.transaction(control, "UPDATE") as connection:
        changed = ""
        if body is not control.body:
            connection.execute(shared_function(shape, body))
            changed = ", changed = pg_current_xact_id()"
        connection.execute(
            f"UPDATE {CONTROL} SET state = %s, body = %s, step = step + 1, rows = %s{changed} WHERE id = %s",
            (state.value, body.value, rows, shape.id),
        )


def validate(session: IndexSession, control: Control) -> None:
    """Compare entries and base in one snapshot, then let the index be READ_WRITE_AND_DELETE."""
    try:
        rows = looking.validated(session)
    except VerifyFailed as error:
        leaves = partitions.changed_leaves(session)
        if leaves.new or leaves.lost:
            raise NotYet("a partition came or went while the index was compared", detail=error.detail) from error
        raise
    advance(session, control, State.READ_WRITE_AND_DELETE, Body.READ_WRITE_AND_DELETE, rows)


def show(session: IndexSession, control: Control | None) -> None:
    """Let users read it, if it is valid and they cannot yet."""
    if control is None or control.is_public or control.state is not State.READ_WRITE_AND_DELETE:
        return
    with session.transaction(control, "UPDATE") as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")  # readers of the view would queue behind us
        connection.execute(truncate_function(session.shape, public=True))
        looking.make_view(connection, session.shape)
        looking.grant_view(connection, session.shape)
        connection.execute(f"UPDATE {CONTROL} SET is_public = true, step = step + 1 WHERE id = %s", (session.shape.id,))
