"""The replication slot and the publication of a table: made, found, advanced and removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from typing import Any

import psycopg

from tidefill.core.budget import Kept
from tidefill.core.version import Version
from tidefill.errors import HistoryGone, NotYet, UpstreamUnfit
from tidefill.jobs.resources import Resource
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.head import Head
from tidefill.postgres.log import lsn_number, lsn_text
from tidefill.postgres.server import PostgresServer, translated
from tidefill.postgres.survey import RESYNC, PgTable, Survey, check_fit, check_published, kept_by, log_gone

SLOT_S_MAX = 10


class Slot:
    """The slot and the publication of one table, which are ours to make and to remove unless somebody else's are named.
    `admin` gives a session outside of any snapshot."""

    def __init__(
        self,
        table: PgTable,
        admin: Callable[[], AbstractContextManager[psycopg.Connection[Any]]],
        *,
        own_slot: bool,
        own_publication: bool,
    ) -> None:
        self._table = table
        self._admin = admin
        self._own_slot = own_slot
        self._own_publication = own_publication
        self._first_xid: int | None = None
        self._slot_then: int | None = None
        self._released = 0

    def resources(self, server: str) -> tuple[Resource, ...]:
        """Those that are ours."""
        slot = Resource("slot", f"{server}/{self._table.slot}")
        publication = Resource("publication", f"{server}/{self._table.publication}")
        return tuple(one for own, one in ((self._own_slot, slot), (self._own_publication, publication)) if own)

    def prepare(self, survey: Callable[[], Survey], released: Version | None) -> Survey:
        """The publication, then the slot, then, once, a transaction number: every transaction that the slot does not
        tell of is older. (A new number each time would wait for ever while there is always somebody writing.) Returns
        the survey of the table that is published."""
        seen = survey()
        check_fit(self._table, seen)
        if not seen.publication and self._own_publication:
            self._make_publication()
            seen = survey()
        check_published(self._table, seen)
        if not seen.has_slot:
            self._make_slot()
        if self._first_xid is None:
            self._take_number()
        self._released = _safe(released) if released is not None else 0
        return seen

    def _make_publication(self) -> None:
        sql = f"CREATE PUBLICATION {identifier(self._table.publication)} FOR TABLE {self._table.sql}"
        try:
            with (
                translated(f"the table {self._table.sql}"),
                suppress(psycopg.errors.DuplicateObject),
                self._admin() as admin,
            ):
                admin.execute(sql.encode())
        except UpstreamUnfit as error:
            raise UpstreamUnfit(
                f"the role may not publish {self._table.sql}",
                detail=error.detail,
                hint=f"As its owner: {sql}; then name it: WITH (publication = '{self._table.publication}')",
            ) from error

    def _make_slot(self) -> None:
        """It waits for those who write at this moment; somebody may take long."""
        if not self._own_slot:
            raise UpstreamUnfit(
                f"there is no slot {self._table.slot}",
                hint=f"SELECT pg_create_logical_replication_slot('{self._table.slot}', 'pgoutput')",
            )
        with self._admin() as admin, translated(f"the slot {self._table.slot}"):
            try:
                with admin.transaction():
                    admin.execute(f"SET LOCAL statement_timeout = {SLOT_S_MAX * 1000}")
                    admin.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._table.slot,))
            except psycopg.errors.DuplicateObject:
                return
            except psycopg.errors.QueryCanceled:
                raise NotYet(f"waits for {_oldest(admin)} to end, to make a slot") from None

    def _take_number(self) -> None:
        with self._admin() as admin, translated("the server"):
            confirmed = self._table.confirmed(admin)
            if confirmed is None:
                raise self._gone()
            row = admin.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        self._first_xid, self._slot_then = int(row[0]), confirmed

    def wait_for_older(self, head: Head) -> None:
        """The first version has to see every transaction that the slot does not tell of. If somebody has moved the slot
        since the number was taken, the number is worth nothing."""
        if head.confirmed is None:
            raise self._gone()
        if head.confirmed != self._slot_then:
            self._take_number()
        if head.snapshot.xmin <= (self._first_xid or 0):
            with translated("the server"):
                raise NotYet(f"waits for {_oldest(head.admin)} to end, which is older than the slot")

    def _gone(self) -> HistoryGone:
        with self._admin() as admin:
            if self._table.is_lost(admin):
                return log_gone(self._table)
        return HistoryGone(f"the slot {self._table.slot} was dropped or moved by somebody else", hint=RESYNC)

    def check(self, after: Version, confirmed: int | None) -> None:
        """HistoryGone unless the slot still holds all that was not taken in."""
        if confirmed is None or confirmed > max(_safe(after), self._released):
            raise self._gone()

    def release(self, version: Version) -> None:
        """Let the slot go on to the first commit that the version does not see."""
        safe = _safe(version)
        self._released = max(self._released, safe)
        with suppress(NotYet), translated(f"the slot {self._table.slot}"), self._admin() as admin:
            confirmed = self._table.confirmed(admin)
            if confirmed is not None and safe > confirmed:
                admin.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self._table.slot, lsn_text(safe)))

    def kept(self) -> Kept | None:
        """What the slot keeps of the log."""
        with self._admin() as admin:
            return kept_by(admin, self._table.slot)


def kept_by_slot(server: PostgresServer, name: str) -> Kept | None:
    """None if it is not there."""
    with closing(server.session("tidefill")) as session:
        return kept_by(session, name)


def remove_slot(server: PostgresServer, name: str) -> None:
    """If it is there."""
    with server.session("tidefill") as session, translated(f"the slot {name}"):
        session.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active", (name,)
        )
        session.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,)
        )


def remove_publication(server: PostgresServer, name: str) -> None:
    """If it is there."""
    with server.session("tidefill") as session, translated(f"the publication {name}"):
        session.execute(f"DROP PUBLICATION IF EXISTS {identifier(name)}".encode())


def _oldest(admin: psycopg.Connection[Any]) -> str:
    """Who has been writing for the longest time, in words."""
    prepared = "SELECT 'the prepared transaction ' || gid FROM pg_prepared_xacts ORDER BY prepared LIMIT 1"
    running = (
        "SELECT 'the transaction of ' || usename || ' (process ' || pid || ', ' || application_name || ')' "
        "FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY age(backend_xid) DESC LIMIT 1"
    )
    for query in (prepared, running):
        row = admin.execute(query.encode()).fetchone()
        if row is not None:
            return str(row[0])
    return "a transaction"


def _safe(version: Version) -> int:
    return lsn_number(json.loads(version.carry)["safe"])
