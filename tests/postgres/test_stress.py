"""Whatever four writers do, every commit of ours is exact; and what would be wrong is found."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.postgres.harness import Postgres
from tests.postgres.stress import Effects, SessionReader, Stress
from tests.suites import in_longer_runs
from tidefill.core.keys import Key
from tidefill.core.version import Snapshot, Version
from tidefill.core.walk import Range, Split, whole
from tidefill.errors import NotYet, Unavailable, Unreadable
from tidefill.postgres import backlog as postgres_backlog
from tidefill.postgres import head as postgres_head
from tidefill.postgres import log as postgres_log
from tidefill.postgres import upstream as postgres_upstream
from tidefill.postgres.backlog import Backlog, KeyTexts, News, Transaction
from tidefill.postgres.head import Head
from tidefill.postgres.log import Told, lsn_number
from tidefill.postgres.slot import Slot
from tidefill.postgres.survey import PgTable
from tidefill.postgres.upstream import NEW, PostgresUpstream, _snapshot
from tidefill.testing.memory.tables import sides
from tidefill.testing.memory.world import Violation

ROUNDS = 5
ROUNDS_IN_FULL = 15
ROUNDS_OF_A_SOAK = 300
ROUNDS_OF_A_PLANT = 12
EVERYTHING = (Range(None, None),)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_writers(postgres: Postgres, seed: int) -> None:
    # R22
    done = Stress(postgres, seed).run()
    assert done.commits > 6
    assert done.crashes > 0


@pytest.mark.full
def test_random_writers_with_a_backlog_on_disk(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    # R22, R38
    small_batches(monkeypatch)
    done = Stress(postgres, 4).run()
    assert done.commits > 6


def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in the backlog goes to disk, and comes from there a few keys at a time."""
    monkeypatch.setattr(postgres_backlog, "KEYS_MAX", 3)
    monkeypatch.setattr(postgres_log, "PART_KEYS", 2)
    monkeypatch.setattr(postgres_upstream, "KEYS_PER_QUERY", 7)
    monkeypatch.setattr(postgres_upstream, "KEYS_SHARE_MAX", 1.0)


@pytest.mark.parametrize("rounds", in_longer_runs(ROUNDS_IN_FULL, ROUNDS_OF_A_SOAK))
def test_random_writers_for_long(postgres: Postgres, rounds: int) -> None:
    for seed in range(ROUNDS, ROUNDS + rounds):
        Stress(postgres, seed).run()


# Planted faults: a checker that finds nothing proves nothing.


class ByPlace(Effects):
    """Takes what lies behind the place where the last look ended, visible or not."""

    def _news(self, after: Version, head: Head) -> News:
        """With what lies before it taken out."""
        end, backlog = lsn_number(json.loads(after.carry)["end"]), head.told.backlog
        backlog._held = {xid: one for xid, one in backlog.held() if one.at >= end}
        return backlog.after(_snapshot(after))


def everything(log: Iterable[Transaction], seen: Snapshot, end: int, backlog: Backlog) -> Told:
    """Under numbers that no snapshot sees."""
    for number, one in enumerate(log):
        backlog.add(NEW + number, one)
    return Told(seen, backlog, end)


def past_the_invisible(log: Iterable[Transaction], seen: Snapshot, end: int, backlog: Backlog) -> Told:
    found = TOLD(log, seen, end, backlog)
    return Told(seen, found.backlog, end)


TOLD = postgres_log.told
PLANTS: dict[str, tuple[type[Effects], Callable[..., Told]]] = {
    "by place in the log": (ByPlace, everything),
    "slot advanced past an invisible commit": (Effects, past_the_invisible),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(postgres: Postgres, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # R22
    make, told = PLANTS[name]
    monkeypatch.setattr(postgres_head, "told", told)
    with pytest.raises(Violation, match="I1 covered"):
        rounds(postgres, make)


def test_a_batch_that_is_lost_is_found(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    # R38
    small_batches(monkeypatch)
    batches = Backlog.batches

    def all_but_the_last(self: Backlog, old: Snapshot, size: int) -> Iterator[list[KeyTexts]]:
        found = list(batches(self, old, size))
        return iter(found[:-1] if len(found) > 1 else found)

    monkeypatch.setattr(Backlog, "batches", all_but_the_last)
    with pytest.raises(Violation, match="I1 covered"):
        rounds(postgres, Effects)


def rounds(postgres: Postgres, make: type[Effects]) -> None:
    for seed in range(1, 2 * ROUNDS_OF_A_PLANT, 2):
        Stress(postgres, seed, make).run()


# The first version.


def upstream_of(postgres: Postgres, name: str) -> Any:
    return PostgresUpstream(SessionReader(), postgres.ours, PgTable("public", name, name, name), own_publication=False)


@contextmanager
def table(postgres: Postgres, name: str) -> Iterator[str]:
    postgres.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, value int)")
    postgres.execute(f"INSERT INTO {name} SELECT n, n FROM generate_series(1, 100) n")
    postgres.publish(name, name)
    try:
        yield name
    finally:
        postgres.drop(name, name, name)


HANGING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@contextmanager
def commit_that_hangs(postgres: Postgres, sql: str) -> Iterator[Callable[[], None]]:
    """A transaction whose commit is in the log, and which nobody sees until the standby, that there is not, answers."""
    set_standby(postgres, "'nobody'")
    try:
        wait_until_commits_hang(postgres)
        writer = committing(postgres, sql)
        wait_until(postgres, f"SELECT 1 {HANGING}")

        def show() -> None:
            set_standby(postgres, "''")
            writer.join()

        yield show
        show()
    finally:
        set_standby(postgres, "''")


def set_standby(postgres: Postgres, names: str) -> None:
    postgres.execute("SET synchronous_commit = local")
    postgres.execute(f"ALTER SYSTEM SET synchronous_standby_names = {names}")
    postgres.execute("SELECT pg_reload_conf()")


def wait_until_commits_hang(postgres: Postgres) -> None:
    """The server heeds a new setting when its checkpointer has read it; which no query tells."""
    probes: list[threading.Thread] = []

    def probe() -> None:
        if not any(writer.is_alive() for writer in probes):
            probes.append(committing(postgres, "SELECT pg_logical_emit_message(true, 'probe', '')"))

    wait_until(postgres, f"SELECT 1 {HANGING}", probe)
    postgres.execute(f"SELECT pg_cancel_backend(pid) {HANGING}")
    wait_until(postgres, f"SELECT 1 WHERE NOT EXISTS (SELECT {HANGING})")


def committing(postgres: Postgres, sql: str) -> threading.Thread:
    """A session of its own that runs the statement."""

    def run() -> None:
        with psycopg.connect(postgres.server.url(), autocommit=True) as session:
            session.execute(sql.encode())

    writer = threading.Thread(target=run)
    writer.start()
    return writer


def wait_until(postgres: Postgres, query: str, meanwhile: Callable[[], object] = lambda: None) -> None:
    deadline_s = time.monotonic() + 60
    while not postgres.execute(query):
        assert time.monotonic() < deadline_s, query
        meanwhile()
        time.sleep(0.01)


@contextmanager
def slot_behind_a_hanging_commit(postgres: Postgres, name: str) -> Iterator[Callable[[], None]]:
    """A slot that somebody made and has moved on, past a commit that nobody sees yet."""
    postgres.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
    with commit_that_hangs(postgres, f"INSERT INTO {name} VALUES (1000, 1)") as show:
        postgres.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", name)
        yield show


def test_the_first_version_has_what_the_slot_does_not_tell(postgres: Postgres) -> None:
    # R37
    with table(postgres, "hanging") as name, slot_behind_a_hanging_commit(postgres, name) as show:
        upstream = upstream_of(postgres, name)
        upstream.prepare(None)
        with pytest.raises(NotYet, match="older than the slot"), upstream.open_head(first=True):
            pass
        show()
        with upstream.open_head(first=True) as first:
            assert (1000, 1) in upstream.rows(EVERYTHING, first)()


def test_who_does_not_wait_loses_what_the_slot_does_not_tell(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    # R37
    monkeypatch.setattr(Slot, "wait_for_older", lambda self, head: None)  # takes the first snapshot there is
    with table(postgres, "impatient") as name:
        upstream = upstream_of(postgres, name)
        with slot_behind_a_hanging_commit(postgres, name):
            upstream.prepare(None)
            with upstream.open_head(first=True) as first:
                assert (1000, 1) not in upstream.rows(EVERYTHING, first)()
        with upstream.open_head(first=False) as later:
            assert upstream.read_changes(first, later, ()).rows() == [], "lost"


# The lock.


def rewrite(postgres: Postgres, name: str) -> threading.Thread:
    def alter() -> None:
        with closing(psycopg.connect(postgres.server.url(), autocommit=True)) as session:
            session.execute(f"ALTER TABLE {name} ALTER COLUMN value TYPE bigint".encode())

    thread = threading.Thread(target=alter)
    thread.start()
    return thread


def test_a_rewrite_waits_for_the_head_no_longer_than_it_may(postgres: Postgres) -> None:
    # R36
    with table(postgres, "rewritten") as name:
        upstream = upstream_of(postgres, name)
        upstream.prepare(None)
        with upstream.open_head(first=True) as head:
            frame = upstream.rows(EVERYTHING, head)
            assert len(frame()) == 100
            altering = rewrite(postgres, name)
            altering.join(30)
            assert not altering.is_alive(), "we gave way"
            assert not upstream.readable(head)
            with pytest.raises(Unreadable):
                frame()


def test_without_the_lock_a_rewrite_empties_the_snapshot(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    # R36
    monkeypatch.setattr(postgres_head, "LOCK", "SELECT 1")
    with table(postgres, "unlocked") as name:
        upstream = upstream_of(postgres, name)
        upstream.prepare(None)
        seen = upstream._survey()
        monkeypatch.setattr(PgTable, "survey", lambda self, session: seen)
        with upstream.open_head(first=True) as head:
            rewrite(postgres, name).join()
            assert upstream.rows(EVERYTHING, head)() == []


def test_a_rewrite_need_not_wait_until_the_log_is_read(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog may take minutes: who alters the table meanwhile is let through, and the head is given up."""
    # R36
    with table(postgres, "backlog") as name:
        upstream = upstream_of(postgres, name)
        upstream.prepare(None)
        passed: list[bool] = []

        def slowly(log: Iterable[Transaction], seen: Snapshot, end: int, backlog: Backlog) -> Told:
            altering = rewrite(postgres, name)
            altering.join(10)
            passed.append(not altering.is_alive())
            return postgres_log.told(log, seen, end, backlog)

        monkeypatch.setattr(postgres_head, "told", slowly)
        with pytest.raises(Unavailable), upstream.open_head(first=True):
            pass
        assert passed == [True]


def test_a_partition_that_is_attached_later_is_not_in_the_snapshot(postgres: Postgres) -> None:
    # R36
    postgres.execute("CREATE TABLE parted (id int PRIMARY KEY, value int) PARTITION BY RANGE (id)")
    postgres.execute("CREATE TABLE parted_0 PARTITION OF parted FOR VALUES FROM (0) TO (100)")
    postgres.execute("CREATE TABLE parted_1 (id int PRIMARY KEY, value int)")
    postgres.execute("INSERT INTO parted VALUES (1, 1); INSERT INTO parted_1 VALUES (101, 1), (102, 1)")
    postgres.publish("parted", "parted")
    try:
        upstream = upstream_of(postgres, "parted")
        upstream.prepare(None)
        with upstream.open_head(first=True) as head:
            postgres.execute(
                "BEGIN; DELETE FROM parted_1 WHERE id = 102; "
                "ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES FROM (100) TO (200); COMMIT"
            )
            assert upstream.rows(EVERYTHING, head)() == [(1, 1)]
            assert upstream.beyond(head) == (Range(Key((1,)), None),)
        with upstream.open_head(first=False) as later:
            _, came = sides(upstream.read_changes(head, later, whole()).rows)
            assert sorted(came()) == [(101, 1)]
    finally:
        postgres.drop("parted", "parted", "parted")


def test_bounds_are_even_where_neighbours_in_the_table_are_neighbours_in_the_key(postgres: Postgres) -> None:
    """The slowest reader ends a chunk: a sample of a few whole blocks would be off by a tenth and more."""
    with table(postgres, "even") as name:
        postgres.execute(f"INSERT INTO {name} SELECT n, n FROM generate_series(101, 100000) n; ANALYZE {name}")
        upstream = upstream_of(postgres, name)
        upstream.prepare(None)
        with upstream.open_head(first=True) as head:
            found = [key.values[0] for key in upstream.bounds(Split(None, None), 25_000, head)][:3]
        shares = [upto - after for after, upto in pairwise([0, *found, 100_000])]
        assert all(abs(share - 25_000) < 1_500 for share in shares), shares
