"""A version of a PostgreSQL table that can be read: an open transaction with an exported snapshot.

First the lock, then the snapshot: a rewrite of the table between the two would show an empty one. The lock stops no
writer, but whoever wants to alter the table waits for it, and everybody else waits behind him. So a watcher looks out
for those who wait, and gives the head up when one has waited too long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tidefill.core.version import Snapshot
from tidefill.errors import TidefillError, Unavailable, Unreadable
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.backlog import Backlog
from tidefill.postgres.log import Told, lsn_number, lsn_text, snapshot_of, told, transactions
from tidefill.postgres.server import PostgresServer, translated
from tidefill.postgres.survey import PgTable, Survey, log_gone

LOCK = "LOCK TABLE {table} IN ACCESS SHARE MODE"
LOCK_TIMEOUT_MS = 200
OTHERS_WAIT_S_MAX = 1.0
LOOK_S = 0.2
FLUSH_S_MAX = 30.0
LOG_ROWS_AT_A_TIME = 10_000

_SNAPSHOT = "SELECT pg_current_snapshot()::text, pg_export_snapshot(), extract(epoch FROM clock_timestamp())"
_WAITING = """
SELECT count(*) FROM pg_locks waits
WHERE NOT waits.granted AND waits.locktype = 'relation'
  AND clock_timestamp() - waits.waitstart > make_interval(secs => %s)
  AND pg_blocking_pids(waits.pid) && (
    SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name = %s AND usename = current_user)
"""
_END_READERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()
"""


@dataclass(slots=True)
class Head:
    """`admin` is a session outside of the snapshot. `at_s`: when it was opened, by the server's clock. `exported`: the
    snapshot's name for readers. `end`: where the log was read up to. `confirmed`: the slot's position after that."""

    session: psycopg.Connection[Any]
    admin: psycopg.Connection[Any]
    snapshot: Snapshot
    at_s: float
    exported: str
    survey: Survey
    told: Told
    end: int
    confirmed: int | None
    closed: threading.Event

    @property
    def alive(self) -> bool:
        """Whether it can be read."""
        return not self.closed.is_set() and not self.session.closed

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows as of the snapshot. Unreadable if that is gone."""
        if not self.alive:
            raise Unreadable("the snapshot is gone")
        try:
            with translated("the server"):
                cursor = self.session.execute(sql.encode())
                return cursor.fetchall() if cursor.description else []
        except Unavailable as error:
            raise Unreadable("the snapshot is gone", detail=error.detail) from error

    def batches(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """The same, so many rows at a time."""
        self.query(f"DECLARE tidefill_rows NO SCROLL CURSOR FOR {sql}")
        try:
            while rows := self.query(f"FETCH {size} FROM tidefill_rows"):
                yield rows
        finally:
            self.query("CLOSE tidefill_rows")


@contextmanager
def open_head(server: PostgresServer, table: PgTable, application: str) -> Iterator[Head]:
    """Lock, snapshot, the end of the log, what the log tells up to there, and where the slot is after that."""
    with ExitStack() as ends:
        session, admin = (ends.enter_context(closing(server.session(application))) for _ in range(2))
        with translated(f"the table {table.schema}.{table.name}"):
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            session.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
            session.execute(LOCK.format(table=table.sql).encode())
            closed = ends.enter_context(_watched(server, application))
            row = session.execute(_SNAPSHOT).fetchone()
        assert row is not None
        snapshot, exported, at_s = snapshot_of(row[0]), str(row[1]), float(row[2])
        survey = table.survey(session)
        end = _end_of_log(admin)
        parts = frozenset(leaf.oid for leaf in survey.leaves)
        with translated(f"the slot {table.slot}"):
            try:
                log = transactions(_messages(admin, table, end), parts, survey.key)
                found = told(log, snapshot, end, ends.enter_context(closing(Backlog(len(survey.key)))))
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                raise log_gone(table) from error
        confirmed = table.confirmed(admin)
        yield Head(session, admin, snapshot, at_s, exported, survey, found, end, confirmed, closed)


def newest_snapshot(server: PostgresServer) -> Snapshot:
    """What the server shows now."""
    with closing(server.session("tidefill")) as session, translated(f"the server of {server.name}"):
        return snapshot_of(_one(session, "SELECT pg_current_snapshot()::text"))


def _end_of_log(admin: psycopg.Connection[Any]) -> int:
    """Where the log ends, once it is flushed up to there. An idle server would take its time, so a tiny message makes
    it."""
    with translated("the log"):
        end = lsn_number(_one(admin, "SELECT pg_current_wal_insert_lsn()::text"))
        admin.execute("SELECT pg_logical_emit_message(true, 'tidefill', '')")
        deadline_s = time.monotonic() + FLUSH_S_MAX
        while lsn_number(_one(admin, "SELECT pg_current_wal_flush_lsn()::text")) < end:
            if time.monotonic() > deadline_s:
                raise Unavailable("the server does not flush its log")
            time.sleep(0.001)
        return end


def _messages(admin: psycopg.Connection[Any], table: PgTable, end: int) -> Iterator[bytes]:
    """What the slot holds up to there, a batch at a time; it stays in the slot."""
    peek = (
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, "
        "'proto_version', '1', 'publication_names', %s)"
    )
    with admin.transaction(), admin.cursor("tidefill_log", binary=True) as cursor:
        cursor.itersize = LOG_ROWS_AT_A_TIME
        for (data,) in cursor.execute(peek, (table.slot, lsn_text(end), identifier(table.publication))):
            yield data


def _one(session: psycopg.Connection[Any], sql: str) -> str:
    row = session.execute(sql.encode()).fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def _watched(server: PostgresServer, application: str) -> Iterator[threading.Event]:
    """The event is set when the head is over: at the end, or when somebody has waited for us too long."""
    closed = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(server, application, closed), name="tidefill-lock-watcher", daemon=True
    )
    watcher.start()
    try:
        yield closed
    finally:
        closed.set()
        watcher.join()


def _watch(server: PostgresServer, application: str, closed: threading.Event) -> None:
    """Give the head up when somebody waits for us; also when it cannot be seen any more whether somebody does."""
    try:
        with closing(server.session(f"{application} watcher"[-63:])) as session, translated("the server"):
            while not closed.wait(LOOK_S):
                row = session.execute(_WAITING, (OTHERS_WAIT_S_MAX, application)).fetchone()
                if row is not None and row[0]:
                    closed.set()
                    session.execute(_END_READERS, (application,))
    except TidefillError:
        closed.set()
