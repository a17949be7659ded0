"""Puts single rows right under locks, merges the log, and judges rows that have the same key."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

from tidefill.errors import DuplicateKeys, Fenced, KeyUnindexable, NotYet, TidefillError
from tidefill.indexes.checking import DUPLICATES_MAX, duplicates
from tidefill.indexes.control import CONFLICT, CONTROL, LOCK_MS, LOG_TOO_LONG, TAKEN_OVER, Control, cut_over
from tidefill.indexes.entries import WIDE_BYTES, key_bytes
from tidefill.indexes.shape import LOGS, Shape, as_texts, parameters, same_key
from tidefill.indexes.states import resting_log
from tidefill.postgres.index.session import BAD_KEY, BUSY, IndexSession

TRIES_S = 60.0
"""How long one row is tried, before the runner does something else."""

BATCH = 2000
"""Primary keys that are merged in one transaction: some 50 to 100 ms."""

SHOWN = 3
"""Keys that an error names; the report has up to 1,000."""


def put_right(session: IndexSession, control: Control, keys: Iterable[Any], *, logged: bool) -> None:
    """Have the entries of these base rows be what the rows are now. `logged`: the rows' log entries are drained."""
    for key in keys:
        _slow(session, control, key, logged)


def _slow(session: IndexSession, control: Control, key: Any, logged: bool) -> None:
    def put() -> None:
        if not is_put(session, control, key, logged):
            raise duplicate_keys(session)  # after the transaction, which would take the report with it

    _tried(session, key, put)


def is_put_right(session: IndexSession, control: Control, key: Any) -> bool:
    """Have the entry of one base row be what the row is now; False if another row has its key."""
    return _tried(session, key, lambda: is_put(session, control, key, False))


T = TypeVar("T")


def _tried(session: IndexSession, key: Any, put: Callable[[], T]) -> T:
    """The answer of `put`, which is tried again while a writer is in its way."""
    until_s = time.monotonic() + TRIES_S
    while True:
        try:
            return put()
        except BAD_KEY as error:
            raise unindexable(session.shape, key, error) from error
        except NotYet:
            if time.monotonic() > until_s:
                raise
            time.sleep(random.uniform(0.002, 0.02))  # back-off, so that two do not meet again


def is_put(session: IndexSession, control: Control, key: Any, logged: bool) -> bool:
    """Whether the row was put right; False if another row, locked, has its key."""
    shape = session.shape
    with session.transaction(control) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
        row = connection.execute(
            f"SELECT {shape.function('slow')} ({parameters(shape)}, %s)", (*key, logged)
        ).fetchone()
        if row is not None and row[0] is not None:
            raise psycopg.Rollback
        return True
    return False


def drain(session: IndexSession, control: Control) -> int:
    """Put some logged rows right, under locks; how many."""
    shape = session.shape
    keys = [
        key
        for number in LOGS
        for key in session.all(f"SELECT DISTINCT {as_texts(shape.p)} FROM {shape.log(number)} LIMIT 100")
    ]
    put_right(session, control, dict.fromkeys(keys), logged=True)
    return len(keys)


def merge(session: IndexSession, control: Control, log: int) -> int:
    """Merge a batch of one log; how many primary keys. Raises DuplicateKeys if two rows have one key in one snapshot at
    now."""
    shape, active = session.shape, control.body.log or 1
    try:
        with session.transaction(control, isolation="REPEATABLE READ") as connection:
            call = f"SELECT * FROM {shape.function('merge')} (%s, %s, %s)"
            row = connection.execute(call, (log, active, BATCH)).fetchone()
    except BAD_KEY as error:
        raise _bad_logged_row(session, error) from error
    assert row is not None, "a function with OUT parameters gives a row"
    merged, _, suspects = row
    if any(_both_have_it(session, *pair) for pair in suspects):
        raise duplicate_keys(session)
    return int(merged)


def empty_resting_log(session: IndexSession, control: Control) -> None:
    """Give the room of a drained log back: a cut-over counts both logs under the table lock, and would read all rows
    that were merged before. The barrier of the last exchange has passed, so nobody writes this log any more, and nobody
    but us ever reads it. Done if it can be had at once; what it has is counted under its lock."""
    log = session.shape.log(resting_log(control.body))
    if not session.one(f"SELECT pg_relation_size('{log}')")[0]:
        return
    with suppress(NotYet), session.transaction(control) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
        connection.execute(f"LOCK TABLE {log} IN ACCESS EXCLUSIVE MODE")
        if connection.execute(f"SELECT 1 FROM {log} LIMIT 1").fetchone() is None:
            connection.execute(f"TRUNCATE {log}")


def _both_have_it(session: IndexSession, one: Any, other: Any) -> bool:
    shape = session.shape
    at = f"{shape.function('at')} ({parameters(shape)})"
    query = f"SELECT 1 FROM {at} a JOIN {at} b ON {same_key(shape, 'a.', 'b.')}"
    return one != other and session.one(query, [*one, *other]) is not None


def _bad_logged_row(session: IndexSession, error: psycopg.Error) -> TidefillError:
    """The first logged row whose key cannot be computed or is too wide now; NotYet if somebody has mended it."""
    shape = session.shape
    query = f"SELECT {key_bytes(shape, '')} FROM {shape.function('at')} ({parameters(shape)})"
    for number in LOGS:
        for key in session.all(f"SELECT DISTINCT {as_texts(shape.p)} FROM {shape.log(number)}"):
            try:
                found = session.one(query, key)
            except BAD_KEY as reason:
                return unindexable(shape, key, reason)
            if isinstance(error, errors.ProgramLimitExceeded) and found is not None and found[0] > WIDE_BYTES:
                return unindexable(shape, key, error)
    return NotYet(f"the index {shape.name} met a row that was mended meanwhile", detail=str(error))


def unindexable(shape: Shape, key: Any, reason: psycopg.Error) -> KeyUnindexable:
    """The stop at a row that can have no entry."""
    row = ", ".join(f"{column.name} = {value}" for column, value in zip(shape.primary_key, key, strict=True))
    return KeyUnindexable(
        f"a row of {shape.table} cannot be indexed by {shape.name}",
        detail=f"The row with {row}: {str(reason).strip().splitlines()[0]}",
        hint="Mend the row, or leave it out by a WHERE, then RESUME the job.",
    )


def try_cut_over(session: IndexSession, log_rows_max: int) -> str:
    """The last merge under the table lock. Returns "" if it is done, else why not: "lock", "log" or "conflict"."""
    try:
        return "" if session.locked(cut_over(session.shape, session.fence, log_rows_max)) else "lock"
    except psycopg.Error as error:
        match error.sqlstate:
            case state if state == LOG_TOO_LONG:
                return "log"
            case state if state == CONFLICT:
                return "conflict"
            case state if state == TAKEN_OVER:
                raise _taken_over(session) from error
            case _ if isinstance(error, (*BUSY, *BAD_KEY)):
                return "conflict"
        raise


def _taken_over(session: IndexSession) -> TidefillError:
    return Fenced(f"another runner has taken the index {session.shape.name} over")


def duplicate_keys(session: IndexSession) -> DuplicateKeys | NotYet:
    """The stop at duplicates, with a report of all that there are now; NotYet if they are gone meanwhile. The report
    goes into the control row."""
    shape = session.shape
    found = session.all(duplicates(shape))
    if not found:
        return NotYet(f"rows of {shape.table} had one key for a moment", hint="Nothing has to be done.")
    report = [{"key": key, "rows": rows, "count": count} for key, rows, count, _ in found]
    total = found[0][3]
    session.one(
        f"UPDATE {CONTROL} SET report = %s WHERE id = %s RETURNING 1",
        (Jsonb({"total": total, "keys": report[:DUPLICATES_MAX]}), shape.id),
    )
    return _as_error(shape, report, total)


def _as_error(shape: Shape, report: list[dict[str, Any]], total: int) -> DuplicateKeys:
    first = "; ".join(f"{one['key']} by the rows {', '.join(one['rows'])}" for one in report[:SHOWN])
    columns = ", ".join(column.shown for column in shape.keys)
    return DuplicateKeys(
        f"several rows of {shape.table} have the same ({columns}): {total} key{'s' * (total != 1)}",
        detail=f"{first}{'; ...' if total > SHOWN else ''}",
        hint=f"SHOW VIOLATIONS {shape.name} lists them. Mend the rows, then RESUME the job.",
    )
