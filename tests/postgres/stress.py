"""Four writers and the production runner on a real PostgreSQL, with a target in memory: after each commit of ours the
target has to be the table as the recorded snapshot shows it, as far as it is covered. Crashes at any effect.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg

from tests.postgres.harness import Postgres
from tidefill.core.budget import Kept
from tidefill.core.confirm import Entry
from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.core.sizing import Sizing
from tidefill.core.version import Version
from tidefill.core.walk import Done, Split, Upto
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.ports.frames import Changes
from tidefill.postgres.connections import Databases
from tidefill.postgres.head import Head
from tidefill.postgres.survey import PgTable
from tidefill.postgres.types import PgColumn
from tidefill.postgres.upstream import PostgresUpstream
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.run.runner import LEASE_S, Runner
from tidefill.testing.memory.derivations import RowByRow
from tidefill.testing.memory.store import MemoryStore
from tidefill.testing.memory.tables import Catalog, Frame, Row, Table, weighted
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import Died, Violation, World, WorldClock

KEYS = 4000
WRITERS = 4
CHUNK_ROWS = 150
PIECE_ROWS = 200
LIVE_COMMITS = 6
ROUND_S_MAX = 300.0  # a machine that does other things as well is slow


class SessionReader:
    """Reads in the session of the head itself."""

    def read(self, head: Head, columns: Sequence[PgColumn], query: str) -> Frame:
        def rows() -> list[Any]:
            found = head.query(query)
            return [row[0] for row in found] if len(columns) == 1 else found

        return rows

    def constants(self, columns: Sequence[PgColumn], rows: Sequence[Key]) -> Frame:
        values = [row.values for row in rows]
        return lambda: [value[0] for value in values] if len(columns) == 1 else list(values)

    def union(self, frames: Sequence[Frame]) -> Frame:
        return lambda: [row for frame in frames for row in frame()]

    def changes(self, keys: Sequence[Frame], rows: Sequence[Frame]) -> Frame:
        return lambda: weighted(self.union(keys)(), -1) + weighted(self.union(rows)(), 1)


class Effects(PostgresUpstream[Frame]):
    """The upstream, with a point before and after all that it does at which the process may die."""

    world: World

    def prepare(self, released: Version | None) -> None:
        self.world.effect("upstream.prepare")
        super().prepare(released)
        self.world.effect("upstream.prepared")

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        self.world.effect("upstream.head")
        with super().open_head(first=first) as version:
            self.world.effect("upstream.head.open")
            yield version

    def check(self, at: Version) -> None:
        self.world.effect("upstream.check")
        super().check(at)

    def read_changes(self, after: Version, upto: Version, coverage: Any) -> Changes[Frame]:
        self.world.effect("upstream.changes")
        return super().read_changes(after, upto, coverage)

    def release(self, version: Version) -> None:
        self.world.effect("upstream.release")
        super().release(version)
        self.world.effect("upstream.released")


class Writer(threading.Thread):
    """Somebody who inserts, updates, deletes, changes keys and exchanges them: with savepoints, rollbacks, two-phase
    commit, long transactions and old snapshots."""

    def __init__(self, url: str, table: str, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url, self._table, self._stop_now = url, table, stop
        self._random = random.Random(seed)
        self._seed = seed
        self._prepared = 0

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            if self._seed % 2:  # a commit is in the log for a while before others see it
                session.execute("SET commit_delay = 5000; SET commit_siblings = 0")
            while not self._stop_now.is_set():
                try:
                    self._transaction(session)
                except psycopg.Error:
                    with suppress(psycopg.Error):
                        session.execute("ROLLBACK")

    def _transaction(self, session: psycopg.Connection[Any]) -> None:
        chance, kind = self._random.random(), self._random.random()
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if chance < 0.2 else "BEGIN")
        for _ in range(self._random.choice([1, 1, 1, 2, 5])):
            self._write(session)
        if kind < 0.3:
            for _ in range(self._random.choice([1, 2, 3, 40 if self._random.random() < 0.05 else 4])):
                session.execute("SAVEPOINT s")
                self._write(session)
                if self._random.random() < 0.4:
                    session.execute("ROLLBACK TO s")
        if kind > 0.97:
            self._stop_now.wait(self._random.random() * 0.3)
            self._write(session)
        if 0.3 < kind < 0.34:
            self._in_two_phases(session)
        else:
            session.execute("COMMIT" if self._random.random() < 0.92 else "ROLLBACK")

    def _in_two_phases(self, session: psycopg.Connection[Any]) -> None:
        self._prepared += 1
        name = f"{self._table}_{self._seed}_{self._prepared}"
        session.execute(f"PREPARE TRANSACTION '{name}'".encode())
        self._stop_now.wait(self._random.random() * 0.05)
        end = "COMMIT" if self._random.random() < 0.8 else "ROLLBACK"
        session.execute(f"{end} PREPARED '{name}'".encode())

    def _write(self, session: psycopg.Connection[Any]) -> None:
        key, other, kind = self._random.randrange(KEYS), self._random.randrange(KEYS), self._random.random()
        span, word, t = self._random.randrange(8), str(self._random.random()), self._table
        if kind < 0.25:
            sql = f"INSERT INTO {t} SELECT n, 0, '{word}' FROM generate_series({key}, {key + span // 2}) n "
            sql += "ON CONFLICT DO NOTHING"
        elif kind < 0.6:
            sql = f"UPDATE {t} SET ver = ver + 1, pad = '{word}' WHERE id BETWEEN {key} AND {key + span}"
        elif kind < 0.75:
            sql = f"DELETE FROM {t} WHERE id BETWEEN {key} AND {key + span // 3}"
        elif kind < 0.85:  # two rows exchange their keys
            sql = (
                f"UPDATE {t} SET id = -id WHERE id IN ({key}, {other}); UPDATE {t} SET id = CASE id WHEN -{key} THEN "
                f"{other} ELSE {key} END WHERE id IN (-{key}, -{other})"
            )
        else:
            sql = f"UPDATE {t} SET id = {other}, ver = ver + 1 WHERE id = {key} "
            sql += f"AND NOT EXISTS (SELECT FROM {t} WHERE id = {other})"
        session.execute(sql.encode())


class Standby(threading.Thread):
    """A synchronous standby that does not answer, now and then: commits hang, in the log and not yet visible."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url, self._stop_now = url, stop

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            while not self._stop_now.wait(0.5):
                self._set(session, "'nobody'")
                self._stop_now.wait(0.3)
                self._set(session, "''")

    def _set(self, session: psycopg.Connection[Any], names: str) -> None:
        session.execute("SET synchronous_commit = local")
        session.execute(f"ALTER SYSTEM SET synchronous_standby_names = {names}".encode())
        session.execute("SELECT pg_reload_conf()")


class Copy:
    """A replica in memory of a table of two columns and more, whose first one is the key, kept by the production
    runner. `make` builds the upstream: planted faults are other classes."""

    def __init__(self, postgres: Postgres, name: str, make: type[Effects] = Effects) -> None:
        self._postgres = postgres
        self._name = name
        self._make = make
        self._world = World()
        self._store = MemoryStore(self._world.effect)
        self._store.rows["j"] = Job("j", "copy", "{}")
        self._catalog = Catalog()
        self._upstreams: list[Effects] = []
        self._runners = 0
        self._runner: Runner | None = None
        self.commits = 0

    @property
    def job(self) -> Job:
        return self._store.rows["j"]

    @property
    def slot(self) -> str:
        return f"{self._name}_1"

    @property
    def head(self) -> Head | None:
        """That was opened last."""
        return self._upstreams[-1]._head if self._upstreams else None

    def rows(self) -> list[Row]:
        return sorted(self._catalog.at("j-1").rows())

    def _build(self, job: Job) -> BackfillMachine[Frame]:
        table = PgTable("public", self._name, self._name, f"{self._name}_{job.generation}")
        upstream = self._make(SessionReader(), self._postgres.ours, table, own_publication=False)
        upstream.world = self._world
        self._upstreams.append(upstream)
        target = MemoryTarget(self._world, self._catalog, f"{job.id}-{job.generation}", job.name, self._committed)
        made = Backfill({"t": upstream}, RowByRow(lambda row: row), target, self._world.new_uuid, by_key=True)
        sizing = Sizing(rows=CHUNK_ROWS, ceiling_rows=PIECE_ROWS, fixed=True)
        return BackfillMachine(made, WorldClock(self._world), start=sizing)

    def _committed(self, path: str, table: Table, entry: Entry) -> None:
        self.commits += 1

    def turn(self) -> None:
        """One turn of the runner, which is started if there is none."""
        self._runner = self._runner or self._start()
        self._runner.turn("j")
        self._world.now += 1.0

    def catch_up(self) -> Self:
        """Until it is live and has nothing to do, or stops."""
        deadline_s = time.monotonic() + ROUND_S_MAX
        self.turn()
        while self.job.failure is None and (self.job.life is not Life.LIVE or self.job.waiting != Reason.IDLE.value):
            assert time.monotonic() < deadline_s, self.job
            self.turn()
        return self

    def die(self) -> None:
        """As the end of a process does it. The next turn is another runner's."""
        for upstream in self._upstreams:
            if upstream._head is not None:
                upstream._head.closed.set()
                upstream._head.session.close()
                upstream._head.admin.close()
        self._runner = None

    def _start(self) -> Runner:
        self._runners += 1
        self._world.now += LEASE_S + 1
        clock = WorldClock(self._world)
        return Runner(self._store, clock, self._build, self, f"r{self._runners}", self._world.new_uuid)

    def remove(self, job: Job, resource: Resource) -> None:
        """Nothing is dropped here."""

    def kept(self, resource: Resource) -> Kept | None:
        """As the engine does it."""
        return Databases(["shop"], lambda _: self._postgres.ours.url, str).kept(resource)

    def drop(self) -> None:
        """Table, slot and publication."""
        self.die()
        deadline_s = time.monotonic() + 10
        while True:
            try:
                self._postgres.drop(self._name, self._name, self.slot)
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)
            else:
                return


class Stress(Copy):
    """One round."""

    def __init__(self, postgres: Postgres, seed: int, make: type[Effects] = Effects) -> None:
        super().__init__(postgres, f"stress_{seed}_{random.randrange(1 << 30)}", make)
        self._random = random.Random(seed)
        self._seed = seed
        self._world.on_due = self._crash
        self.crashes = 0

    def _crash(self, name: str) -> None:
        self._set_next_crash()
        self.crashes += 1
        raise Died(name)

    def _set_next_crash(self) -> None:
        """Rarer and rarer: on a slow machine a step has more to take in, and a verification begins anew with each
        process, so that one that always died after as little work would never go live."""
        self._world.next_due = self._world.effects + self._random.choice([3, 20, 60, 150]) * (1 + self.crashes // 20)

    def _committed(self, path: str, table: Table, entry: Entry) -> None:
        """What is there, against the whole table as the snapshot shows it."""
        super()._committed(path, table, entry)
        assert entry.payload is not None
        state, head = entry.payload.state, self.head
        assert head is not None
        whole = head.query(f"SELECT id, ver, pad FROM public.{self._name}")
        if head.snapshot != state.versions["t"].point:
            raise Violation("I1 covered", "the commit's version is not the snapshot that it was read at")
        expected = sorted(row for row in whole if _covered(row[0], state.coverage["t"]))
        found = sorted(table.rows())
        if found != expected:
            odd = sorted(set(found) ^ set(expected))
            what = f"commit {self.commits} of seed {self._seed}: {len(odd)} rows, e.g. {odd[:3]}"
            raise Violation("I1 covered", what)

    def run(self) -> Stress:
        """Until it is live and has followed for a while, then until it is up to date with all writers gone."""
        self._postgres.execute(f"CREATE TABLE {self._name} (id bigint PRIMARY KEY, ver int, pad text)")
        self._postgres.execute(f"INSERT INTO {self._name} SELECT n, 0, '' FROM generate_series(0, {KEYS}, 2) n")
        self._postgres.publish(self._name, self._name)
        stop = threading.Event()
        url = self._postgres.server.url()
        others: list[threading.Thread] = [
            Writer(url, self._name, 10 * self._seed + number, stop) for number in range(WRITERS)
        ]
        if self._seed % 4 == 1:
            others.append(Standby(url, stop))
        for other in others:
            other.start()
        try:
            self._set_next_crash()
            self._go_on(self._has_followed())
            _join(others, stop)
            self._postgres.execute(f"UPDATE {self._name} SET ver = -1 WHERE id = (SELECT min(id) FROM {self._name})")
            self._go_on(self._is_equal)
            return self
        finally:
            self.die()
            _join(others, stop)
            self._end()

    def _has_followed(self) -> Callable[[], bool]:
        live: list[int] = []

        def followed() -> bool:
            if self.job.life is Life.LIVE:
                live.append(self.commits)
            return bool(live) and self.commits >= live[0] + LIVE_COMMITS

        return followed

    def _is_equal(self) -> bool:
        return sorted(self._postgres.execute(f"SELECT id, ver, pad FROM {self._name}")) == self.rows()

    def _go_on(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + ROUND_S_MAX
        while not done():
            if time.monotonic() > deadline_s:
                raise Violation("I5 progress", f"{self.job.waiting}, {self.commits} commits")
            try:
                self.turn()
            except Died:
                self.die()
            failure = self.job.failure
            if failure is not None:
                raise Violation("I7 loud", f"{failure.code}: {failure.fact} {failure.detail}")
        self.die()

    def _end(self) -> None:
        for (name,) in self._postgres.execute("SELECT gid FROM pg_prepared_xacts"):
            if name.startswith(self._name):
                self._postgres.execute(f"ROLLBACK PREPARED '{name}'")
        self.drop()


def _join(others: Sequence[threading.Thread], stop: threading.Event) -> None:
    stop.set()
    for other in others:
        other.join()


def _covered(id_: int, coverage: Sequence[Split]) -> bool:
    """By hand: the walk is one column."""
    for split in coverage:
        after = None if split.after is None else split.after.values[0]
        upto = None if split.upto is None else split.upto.values[0]
        if (after is None or id_ > after) and (upto is None or id_ <= upto):  # type: ignore[operator]
            match split.position:
                case Done():
                    return True
                case Upto(key):
                    return bool(id_ <= key.values[0])  # type: ignore[operator]
                case _:
                    return False
    return False
