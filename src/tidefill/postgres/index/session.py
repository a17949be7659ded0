"""A runner's session for one index: the control row, the fence, the barrier, and locks that hold no writer for long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors

from tidefill.errors import Fenced, NotYet
from tidefill.indexes.control import CONTROL, LOCK_MS, LOCKED_MS, Control, schema
from tidefill.indexes.shape import SCHEMA, Shape, literal
from tidefill.indexes.states import Body, Method, State
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.server import PostgresServer, translated

BUSY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
"""What passes if one tries again."""

BAD_KEY = (psycopg.DataError, errors.ProgramLimitExceeded, errors.RaiseException)
"""A key that cannot be computed, or is too wide. (A function of the user may raise what it likes.)"""

BAD_VALUE = (*BAD_KEY, errors.UniqueViolation)
"""The same, or a key that is there already."""

OLD_S = 0.1
"""A transaction that has held its lock for longer is not about to end: nobody queues for a table lock behind it."""

TRANSACTION_TIMEOUT_RELEASE = 170000

IDLE_IN_TRANSACTION = "2s"
"""After so long the server ends a transaction of ours whose runner hangs: a writer may wait for a row that it holds."""

_USUAL = {"default_transaction_isolation": "read committed", "lock_timeout": "0", "statement_timeout": "0"}
SHORT = {"lock_timeout": f"{LOCK_MS}ms"}
LOCKING = {**_USUAL, **SHORT, "statement_timeout": f"{LOCKED_MS}ms"}
"""The settings of a session while it executes a statement that locks the table, whatever the role's own are."""

_WRITING = "'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'"
_CONFLICTING = f"'ShareUpdateExclusiveLock', 'ShareLock', {_WRITING}"
_HOLDERS = """
SELECT l.virtualtransaction, l.pid, l.mode, a.application_name, a.state,
  extract(epoch FROM clock_timestamp() - a.xact_start)::float8, left(a.query, 60), p.gid
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid'
  AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.locktype = 'relation' AND l.granted AND l.mode IN ({modes}) AND l.pid IS DISTINCT FROM pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation IN (SELECT relid FROM pg_partition_tree({relation}) UNION SELECT {relation}::oid)
"""
# Locks that conflict with SHARE ROW EXCLUSIVE, and with ACCESS EXCLUSIVE: readers hold those.
_SHARED = f"'AccessShareLock', 'RowShareLock', {_CONFLICTING}"


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction that holds a lock on the table or on a partition. `transaction`: its virtual number, which stays
    the same if it is prepared. What a plain owner may not see is None."""

    transaction: str
    pid: int | None
    mode: str
    application: str | None
    state: str | None
    age_s: float | None
    query: str | None
    prepared: str | None

    def __str__(self) -> str:
        if self.prepared is not None:
            return f"the prepared transaction {self.prepared!r} (ROLLBACK PREPARED '{self.prepared}' ends it)"
        age = "" if self.age_s is None else f", {self.age_s:.0f} s old"
        name = f" of {self.application}" if self.application else ""
        query = f": {' '.join(self.query.split())}" if self.query else ""
        return f"pid {self.pid}{name}{age}{query}"


class IndexSession:
    """One session. `fence`: the number of the runner's lease; a greater one in the control row is another runner's."""

    def __init__(self, server: PostgresServer, shape: Shape, fence: int) -> None:
        self.shape = shape
        self.fence = fence
        self._server = server
        self._open: psycopg.Connection[Any] | None = None
        self.opened = 0
        """How many sessions there were so far. What an earlier one saw may be of the server before a restart."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The session on the server; a new one if there is none, or if it was lost."""
        if self._open is None or self._open.closed or self._open.broken:
            self._open = self._server.session(self.application)
            self.opened += 1
            self._open.execute(f"SET search_path = {self.search_path}")
            self._open.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION}'")
            self._open.execute("SET client_min_messages = error")
            if self._open.info.server_version >= TRANSACTION_TIMEOUT_RELEASE:
                self._open.execute("SET transaction_timeout = 0")  # to build a key takes its time
            self._set(_USUAL)
        return self._open

    def another(self) -> IndexSession:
        """One more session of the same runner, for the same index."""
        return IndexSession(self._server, self.shape, self.fence)

    @property
    def search_path(self) -> str:
        """The schemas of the operators of key types, in SQL."""
        return ", ".join(map(identifier, self.shape.path))

    @property
    def application(self) -> str:
        """How the server lists the session: which index, and by which runner."""
        return f"tidefill {self.shape.id[-40:]} {self.fence}"

    def close(self) -> None:
        """End the session."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def one(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """The first row of the answer, if there is one."""
        with told(f"the server of {self._server.name}"):
            return self.connection.execute(query, values or None).fetchone()

    def all(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """All rows of the answer."""
        with told(f"the server of {self._server.name}"):
            return self.connection.execute(query, values or None).fetchall()

    # The control row.

    def prepare(self) -> None:
        """Make what all indexes of the database share. Two runners that do that at once meet in the catalog: the one
        that loses finds everything there."""
        if self.one(f"SELECT to_regclass('{CONTROL}') IS NOT NULL AND to_regproc('{SCHEMA}.stop') IS NOT NULL")[0]:
            return
        for statement in schema():
            with translated("the schema of Tidefill"):
                try:
                    self.connection.execute(statement)
                except (errors.UniqueViolation, errors.DuplicateSchema, errors.DuplicateTable, errors.InternalError_):
                    continue

    def control(self) -> Control | None:
        """The control row as it is; None if the index is not installed."""
        if not self.one(f"SELECT to_regclass('{CONTROL}') IS NOT NULL")[0]:
            return None
        return _control(self.one(f"SELECT {_FIELDS} FROM {CONTROL} WHERE id = %s", (self.shape.id,)))

    def take_over(self) -> None:
        """Write our fence into the control row, and end our sessions of older ones: first, if one of them is in the
        way. Raises Fenced if a newer runner has the index."""
        with translated(f"the index {self.shape.name}"):
            try:
                found = self._raise_fence()
            except errors.LockNotAvailable:
                self.end_older()
                found = self._raise_fence()
            if not found and self.control() is not None:
                raise Fenced(f"another runner has taken the index {self.shape.name} over")
            self.end_older()

    def _raise_fence(self) -> bool:
        with self.connection.transaction():
            self.connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
            query = f"UPDATE {CONTROL} SET fence = %s WHERE id = %s AND fence <= %s"
            return self.connection.execute(query, (self.fence, self.shape.id, self.fence)).rowcount > 0

    def end_older(self) -> None:
        """End the sessions of runners that had the index before us."""
        self.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, %s) "
            "AND substring(application_name FROM '[0-9]+$')::bigint < %s AND usename = current_user",
            (f"{self.application.rpartition(' ')[0]} ", self.fence),
        )

    @contextmanager
    def transaction(
        self, control: Control, how: str = "SHARE", isolation: str = ""
    ) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that begins with the control row: FOR SHARE to move rows, FOR UPDATE to change the state.
        Raises Fenced if another runner has the index, or has moved it on."""
        with told(f"the index {self.shape.name}"), self.connection.transaction():
            if isolation:
                self.connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            self.hold(self.shape, control, how)
            yield self.connection

    def hold(self, shape: Shape, control: Control, how: str = "SHARE") -> None:
        """Lock the control row of an index of ours until the end of the transaction. Raises Fenced if it is not as it
        was."""
        query = f"SELECT {_FIELDS} FROM {CONTROL} WHERE id = %s FOR {how}"
        found = _control(self.connection.execute(query, (shape.id,)).fetchone())
        if found is None or (found.fence, found.step) != (self.fence, control.step):
            raise Fenced(f"another runner has taken the index {shape.name} over")

    # Those who write.

    def writers(self) -> list[Holder]:
        """The transactions that write to the table now, or hold it locked; prepared ones too."""
        return self._holders(_WRITING)

    def users(self, table: str) -> list[Holder]:
        """The transactions that hold any lock on that table or on its partitions: readers, too."""
        return self._holders(_SHARED, f"to_regclass({literal(table)})")

    def _holders(self, modes: str, relation: str = "") -> list[Holder]:
        query = _HOLDERS.format(modes=modes, relation=relation or self.shape.relation)
        return [Holder(*row) for row in self.all(query)]

    def is_quiet(self, exclusive: str = "") -> bool:
        """Whether a table lock could be had at once: nobody holds a conflicting one for longer than a moment, and no
        vacuum runs. (A plain owner sees no ages: who is still there a moment later counts as old.) `exclusive`: a table
        of which ACCESS EXCLUSIVE is needed, with which readers conflict, too."""

        def conflicting() -> list[Holder]:
            return self.users(exclusive) if exclusive else self._holders(_CONFLICTING)

        before = conflicting()
        if any(_is_in_the_way(one) for one in before):
            return False
        unknown = {one.transaction for one in before if one.age_s is None}
        if not unknown:
            return True
        time.sleep(OLD_S)  # this is a measurement, not a wait for something
        return not any(one.transaction in unknown for one in conflicting())

    def locked(self, statement: str, exclusive: str = "") -> bool:
        """Execute ONE statement that locks the table, alone in autocommit; False if the lock cannot be had now. READ
        COMMITTED: else the snapshot would be older than the lock, and rows be lost. `exclusive`: as of `is_quiet`."""
        if not self.is_quiet(exclusive):
            return False
        try:
            with self.short_locks(LOCKING) as connection:
                connection.execute(statement)
            return True
        except (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected):
            return False

    @contextmanager
    def short_locks(self, settings: Mapping[str, str] = SHORT) -> Iterator[psycopg.Connection[Any]]:
        """The session, which waits for no lock longer than a moment until the end of the block."""
        connection = self.connection
        try:
            self._set(settings)
            yield connection
        finally:
            if not (connection.closed or connection.broken):
                self._set(_USUAL)

    def _set(self, settings: Mapping[str, str]) -> None:
        assert self._open is not None, "settings are of an open session"
        self._open.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))


def waits_for(holders: list[Holder]) -> str:
    """The transactions by name."""
    shown = [str(one) for one in {one.transaction: one for one in holders}.values()]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"transactions that began earlier to end: {'; '.join(shown[:3])}{more}" if shown else ""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Errors of the driver become errors of ours, but for those that a value of the data raises: the caller knows which
    row it is. What passes if one tries again is NotYet."""
    try:
        with translated(what):
            try:
                yield
            except BAD_VALUE as error:
                raise _BadValue(error) from error
            except BUSY as error:
                raise NotYet(f"{what} met a writer", detail=str(error).strip().splitlines()[0]) from error
    except _BadValue as error:
        raise error.error from None


class _BadValue(Exception):
    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


def _is_in_the_way(holder: Holder) -> bool:
    old = holder.age_s is not None and holder.age_s > OLD_S
    return old or holder.pid is None or holder.mode == "ShareUpdateExclusiveLock"


_FIELDS = "state, body, fence, step, method, rows, is_public, by_hand, coalesce((report->>'refused')::bigint, 0)"


def _control(row: Any) -> Control | None:
    if row is None:
        return None
    state, body, fence, step, method, *more = row
    return Control(State(state), Body(body), fence, step, Method(method), *more)
