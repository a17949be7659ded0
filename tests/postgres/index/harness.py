"""One index on a real server, driven turn by turn without a store: what a runner does, in a test's own hands."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
import pytest

from tests.postgres.harness import Postgres
from tidefill.engine.clock import SystemClock
from tidefill.indexes.guard import guard_name
from tidefill.indexes.next_action import Action, Drain
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Method, State
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Lease, Settings
from tidefill.ports.machine import Finish, Publish, Round, Step, Verify, Wait
from tidefill.postgres.index.machine import IndexMachine, Truth
from tidefill.postgres.index.session import IndexSession
from tidefill.postgres.index.survey import Wanted, survey
from tidefill.postgres.server import PostgresServer

if TYPE_CHECKING:
    from tidefill.postgres.index.spark_sort import SparkSort

    Through: TypeAlias = Callable[[IndexSession], SparkSort]

PATIENCE_S = 30.0


class Indexed:
    """A table with four partitions, `name (id, r, v, n, st, inc, b)`, and an index over it that is being built. Rows of
    `rows` are (id, r, v). `setup`: statements that come before the survey; `{t}` in them is the table. `through`: makes
    what fills it through Spark."""

    def __init__(
        self,
        postgres: Postgres,
        rows: list[tuple[int, int, str | None]],
        *,
        columns: tuple[str, ...] = ("v",),
        include: tuple[str, ...] = ("inc",),
        where: str = "",
        unique: bool = True,
        nulls_not_distinct: bool = False,
        method: Method = Method.BULK,
        setup: Sequence[str] = (),
        chunk_rows: int | None = None,
        rate_limit: int | None = None,
        tasks: int = 1,
        through: Through | None = None,
    ) -> None:
        self.name, self.through = f"t_{uuid.uuid4().hex[:8]}", through
        self.url = postgres.server.url()
        self.method = method
        self.settings = Settings(chunk_rows=chunk_rows, rate_limit=rate_limit, parallelism=tasks)
        self.columns = tuple(column.replace("{t}", self.name) for column in columns)
        self.include, self.where, self.unique, self.nulls = include, where, unique, nulls_not_distinct
        self._opened: list[Any] = []
        self.owner = self.writer()
        try:
            self._make(rows, setup)
        except BaseException:
            self.close()
            raise

    @classmethod
    def taken_over(
        cls, url: str, shape: Shape, fence: int, method: Method, settings: Settings, through: Through | None = None
    ) -> Indexed:
        """A runner in another process, of an index that is there."""
        index = cls.__new__(cls)
        index.through = through
        index.name, index.url, index.method, index.fence, index._opened = shape.table, url, method, fence, []
        index.shape, index.settings = shape, settings
        index._take()
        return index

    def _make(self, rows: list[tuple[int, int, str | None]], setup: Sequence[str]) -> None:
        self.owner.execute(
            f"CREATE TABLE {self.name} (id bigint, r int, v text, n numeric, st text DEFAULT 'ok', inc text, "
            f"b int DEFAULT 1, PRIMARY KEY (id, r)) PARTITION BY LIST (r)"
        )
        for part in range(4):
            self.owner.execute(f"CREATE TABLE {self.name}_{part} PARTITION OF {self.name} FOR VALUES IN ({part})")
        with self.owner.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.name} (id, r, v) VALUES (%s, %s, %s)", rows)
        for statement in setup:
            self.sql(statement)
        self.fence = 0
        self.restart()

    def writer(self) -> psycopg.Connection[Any]:
        """A session of somebody who writes; it ends with the test."""
        self._opened.append(psycopg.connect(self.url, autocommit=True, options="-c synchronous_commit=off"))
        made: psycopg.Connection[Any] = self._opened[-1]
        return made

    def reconnect(self) -> None:
        """After the server was restarted."""
        self.owner.close()
        self.owner = self.writer()
        self._opened[0] = self._opened.pop()

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """As the owner; `{t}` is the table."""
        cursor = self.owner.execute(statement.replace("{t}", self.name).encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def by(self, writer: psycopg.Connection[Any], statement: str, *values: Any) -> str:
        """What the server says to that statement of a writer: `ok`, or the SQLSTATE."""
        try:
            writer.execute(statement.replace("{t}", self.name).encode(), values or None)
        except psycopg.Error as error:
            return error.sqlstate or type(error).__name__
        return "ok"

    def writes(self, statement: str, *values: Any) -> str:
        """The same for the owner."""
        return self.by(self.owner, statement, *values)

    def begin(self, isolation: str = "READ COMMITTED") -> psycopg.Connection[Any]:
        """A writer in a transaction whose snapshot is taken, if the level of isolation keeps it."""
        writer = self.writer()
        writer.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        writer.execute("SELECT 1 FROM pg_class LIMIT 1")
        return writer

    @contextmanager
    def meanwhile(self, work: Callable[[], object], blocked: int | None = None) -> Iterator[list[object]]:
        """Have another thread do that; the body runs as soon as a session waits for a lock of the session `blocked`,
        and the thread has ended after it. Gives what it returned or raised."""
        said = list[object]()
        thread = Thread(target=lambda: said.append(_outcome(work)), daemon=True)
        thread.start()
        if blocked is not None:
            self.until(lambda: self.waits_for(blocked) or not thread.is_alive())
        try:
            yield said
        finally:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the thread still works"

    def waits_for(self, pid: int) -> bool:
        """Whether a session waits for a lock that the session `pid` holds."""
        query = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        return bool(self.sql(query, pid))

    def until(self, holds: Callable[[], object]) -> None:
        """Look until that holds."""
        until_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < until_s, "it did not come about"
            time.sleep(0.002)

    def restart(self) -> None:
        """Another runner takes over: a new session, a greater fence, nothing remembered."""
        if not hasattr(self, "shape"):
            self.shape: Shape = self.surveyed()
        self.fence += 1
        self._take()

    def surveyed(self, url: str = "") -> Shape:
        """What the survey says of the table as it is now."""
        wanted = Wanted(
            f"ix_{self.name}", "public", self.name, self.columns, self.include, self.where, self.unique, self.nulls
        )  # fmt: skip
        session = PostgresServer("shop", url or self.url).session("survey")
        try:
            return survey(session, wanted, f"ix_{self.name}").shape
        finally:
            session.close()

    def _take(self) -> None:
        self.machine = self.another_machine()
        self.session = self.machine._session
        last: Job | None = getattr(self, "job", None)
        life, published = (Life.BACKFILLING, None) if last is None else (last.life, last.published)
        self.job = Job(
            "j", "ix", "{}", lease=Lease("me", self.fence, 1e12), life=life, published=published, settings=self.settings
        )  # fmt: skip
        self.machine.prepare(self.job)
        self.truth: Truth = self.machine.recover(self.job, None).truth

    def another_machine(self) -> IndexMachine:
        """A machine with a session of its own, and the same fence."""
        session = IndexSession(PostgresServer("shop", self.url), self.shape, self.fence)
        spark = None if self.through is None else self.through(session)
        machine = IndexMachine(session, SystemClock(), Resource("index", "x"), self.method, lambda: 1, spark=spark)
        self._opened.append(machine)
        return machine

    @staticmethod
    def at_once(works: Sequence[Callable[[], object]]) -> list[object]:
        """Have threads do all of it at the same time; what they returned or raised."""
        said, start = list[object](), Barrier(len(works))

        def one(work: Callable[[], object]) -> None:
            start.wait()
            said.append(_outcome(work))

        threads = [Thread(target=one, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(said) == len(works), "a thread still works"
        return said

    @property
    def state(self) -> State | None:
        """By the control row."""
        control = self.session.control()
        return None if control is None else control.state

    def turn(self) -> Any:
        """One turn of a runner: plan, then execute. Returns the plan."""
        plan = self.machine.plan(self.job, self.truth, Round(time.time()))
        match plan:
            case Step():
                self.truth = self.machine.execute(self.job, self.truth, plan).truth
            case Finish():
                self.job = replace(self.job, life=Life.VERIFYING)
            case Verify():
                self.machine.execute(self.job, self.truth, plan)
                self.machine.execute(self.job, self.truth, Publish(tries=True))
                self.job = replace(self.job, life=Life.LIVE, published=1)
            case Publish():
                self.truth = self.machine.execute(self.job, self.truth, plan).truth
            case Wait():
                self.nap(plan)
        return plan

    def nap(self, plan: Wait) -> None:
        """What a runner does while it waits."""
        time.sleep(min(plan.for_s or 0.01, 0.01))

    def run_until(self, done: Callable[[Indexed], bool]) -> None:
        """Take turns until that holds."""
        until_s = time.monotonic() + PATIENCE_S
        while not done(self):
            assert time.monotonic() < until_s, f"still {self.state} after {PATIENCE_S} s"
            self.turn()

    def planned(self) -> Any:
        """What the next turn would do."""
        plan = self.machine.plan(self.job, self.truth, Round(time.time()))
        return plan.work if isinstance(plan, Step) else plan

    def run_before(self, *actions: type[Action]) -> None:
        """Take turns until one of these is next."""
        self.run_until(lambda index: isinstance(index.planned(), actions))

    def run_to(self, state: State) -> None:
        """Take turns until the index has come to that state."""
        self.run_until(lambda index: index.state is state)

    def run(self) -> None:
        """Take turns until users can read it."""
        self.run_until(lambda index: bool(index.truth.control and index.truth.control.is_public))

    def differences(self) -> list[tuple[Any, ...]]:
        """How entries and base differ, by plain SQL that shares nothing with the functions of the index."""
        keys = ", ".join(f"({column})" for column in self.columns)
        included = "".join(f", {column}" for column in self.include)
        base = f"SELECT ROW({keys}, id, r{included})::text FROM {self.name} WHERE {self.where or 'true'}"
        columns = ", ".join((*self.shape.k, *self.shape.p, *self.shape.i))
        entries = f"SELECT ROW({columns})::text FROM {self.shape.entries} WHERE NOT dead"
        missing = self.owner.execute(f"{base} EXCEPT ALL {entries}").fetchall()
        orphans = self.owner.execute(f"{entries} EXCEPT ALL {base}").fetchall()
        return [("missing", *row) for row in missing] + [("orphan", *row) for row in orphans]

    def count(self, what: str = "{e}", where: str = "true") -> int:
        """How many rows a table has; `{e}` are the entries."""
        table = what.replace("{e}", self.shape.entries)
        return int(self.sql(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])

    def unguarded(self) -> None:
        """Have the server refuse nothing, as where the runner's role is no superuser."""
        self.sql(f"DROP EVENT TRIGGER {guard_name(self.shape)}")

    def close(self) -> None:
        """Everything goes, whatever state it is in."""
        for one in self._opened[1:]:
            one.close()
        self.owner.execute("ROLLBACK")
        for (name,) in self.sql("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"):
            self.owner.execute(f"ROLLBACK PREPARED '{name}'")
        self.owner.execute("SET client_min_messages = error")
        for (kind,) in self.sql("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", self.name):
            self.owner.execute(f"DROP {'VIEW' if kind == 'v' else 'TABLE'} {self.name} CASCADE")
        self.owner.execute("DROP SCHEMA IF EXISTS tidefill CASCADE")
        self.owner.close()


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:
        return error


def bring(index: Indexed, monkeypatch: pytest.MonkeyPatch, state: State, logged: int) -> Indexed:
    """Have the index come just to that state; be public if it is the last. `logged`: the row that is left to drain."""
    if state is State.READ_WRITE_AND_DELETE:
        index.run()
        return index
    if state is State.DRAINING:
        monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
        index.run_to(State.MERGING)
        index.sql(f"UPDATE {{t}} SET v = 'logged' WHERE id = {logged}")
        index.run_before(Drain)
    index.run_to(state)
    return index
