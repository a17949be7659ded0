"""Those who take steps on a stage: three sessions of users, and a runner that stops before each begin and each commit.

Each has a thread of its own, does one step when it is asked to, and is `busy` until the step has ended. A step may
have to wait for another's lock: it stays busy then, and the stage goes on with somebody else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any

import psycopg

from tests.postgres.index.harness import Indexed
from tests.postgres.index.interleavings import LEVELS, SAVEPOINT, Case, Program, Statement
from tidefill.engine.clock import SystemClock
from tidefill.errors import DuplicateKeys, NotYet
from tidefill.indexes.control import Control
from tidefill.indexes.shape import Shape
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Lease, Settings
from tidefill.ports.machine import Wait
from tidefill.postgres.index import removal
from tidefill.postgres.index.machine import IndexMachine, Truth
from tidefill.postgres.index.session import IndexSession
from tidefill.postgres.server import PostgresServer

CHUNK_ROWS = 2
LOCK_MS, DEADLOCK_MS = 50, 200
"""The runner gives way before a user's session looks for a deadlock, as in production (200 ms and 1 s)."""

Row = tuple[int, int]
"""A primary key."""


class Stepped:
    """Does one step after the other in a thread of its own. `ended` is set after each. `awaited`: nobody has looked at
    what became of the last step."""

    def __init__(self, name: str, ended: Event) -> None:
        self.name = name
        self.busy = False
        self.awaited = False
        self.pid = 0
        self._ended = ended

    @property
    def has_ended(self) -> bool:
        """Whether a step has ended that nobody has looked at."""
        return self.awaited and not self.busy

    def _work_begins(self) -> None:
        self.busy = self.awaited = True

    def _rest(self) -> None:
        self.busy = False
        self._ended.set()


class User(Stepped):
    """A session that plays a program. `said`: what became of its last step: None if all went well. `noted`: what the
    trigger of the test saw of that step. `touched`: the rows that its transaction has changed."""

    def __init__(self, name: str, ended: Event, url: str, table: str) -> None:
        super().__init__(name, ended)
        self._table = table
        self._session = psycopg.connect(url, autocommit=True)
        self._session.add_notice_handler(lambda notice: self.noted.append(notice.message_primary or ""))
        self._session.execute(f"SET synchronous_commit = off; SET deadlock_timeout = '{DEADLOCK_MS}ms'")
        self.pid = self._session.info.backend_pid
        self.program: Program | None = None
        self.noted = list[str]()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self, program: Program) -> None:
        """Play this program from now on."""
        self.program = program
        self.level = program.level
        self.owed = 0
        self.is_over = False
        self.said: psycopg.Error | None = None
        self.touched = set[Row]()
        self.doing = ""
        self._begun = False
        self._steps: list[tuple[str, Callable[[], None]]] = []
        if program.has_snapshot:
            self._steps.append(("BEGIN", self._begin))
        self._steps += [(f"{one}", self._statement(one)) for one in program.statements]
        end = "COMMIT" if program.commits else "ROLLBACK"
        self._steps.append((end, lambda: self._execute(end)))

    def step(self) -> None:
        """Begin the next step."""
        self.doing, work = self._steps.pop(0)
        self.noted = []
        self.said = None
        self._work_begins()
        self._work.put(work)

    def collect(self) -> None:
        """The step has ended: see what follows from it. A refused session rolls back, but to its savepoint if it has
        one. What a savepoint had is undone in any case."""
        self.awaited = False
        if self.doing.startswith(SAVEPOINT) and isinstance(self.said, psycopg.errors.UniqueViolation):
            self._session.execute("ROLLBACK TO s")
        elif self.said is not None:
            self._steps = []
        if not self.doing.startswith(SAVEPOINT):
            self.touched |= self.changed()
        if not self._steps:
            self.roll_back()
            self.is_over = True

    def changed(self) -> set[Row]:
        """The rows that the last step changed."""
        found = (re.match(r"(?:was|is) (\d+) (\d+) ", one) for one in self.noted)
        return {(int(one[1]), int(one[2])) for one in found if one}

    def roll_back(self) -> None:
        """End the transaction, if there is one."""
        if self._is_open():
            self._session.execute("ROLLBACK")

    def _is_open(self) -> bool:
        return self._session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def _begin(self) -> None:
        self._execute(f"BEGIN ISOLATION LEVEL {self.level}; SELECT 1 FROM pg_class LIMIT 1")

    def _statement(self, statement: Statement) -> Callable[[], None]:
        def work() -> None:
            if not self._is_open():
                self._execute(f"BEGIN ISOLATION LEVEL {LEVELS[0]}")
            self._execute(statement.sql(self._table))

        return work

    def _execute(self, text: str) -> None:
        self._session.execute(text.encode())

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except psycopg.Error as error:
                self.said = error
            self._rest()

    def close(self) -> None:
        """End the session."""
        self._work.put(None)
        self._thread.join(10)
        self._session.close()


class Gone(BaseException):
    """The play is over before the runner has come to its end."""


class SteppedSession(IndexSession):
    """A runner's session that calls `gate` before it begins or commits a transaction, and before it locks a table."""

    gate: Callable[[str], None]

    @contextmanager
    def transaction(
        self, control: Control, how: str = "SHARE", isolation: str = ""
    ) -> Iterator[psycopg.Connection[Any]]:
        """The same, with a stop on both ends."""
        self.gate("begin")
        with super().transaction(control, how, isolation) as connection:
            yield connection
            self.gate("commit")

    def locked(self, statement: str, exclusive: str = "") -> bool:
        """The same, after a stop."""
        self.gate("lock")
        return super().locked(statement, exclusive)


class Runner(Stepped, Indexed):
    """Builds the index of a case, until users can read it. `failure`: how else it ended. `at`: where it stands."""

    def __init__(self, ended: Event, url: str, shape: Shape) -> None:
        Stepped.__init__(self, "R", ended)
        self.shape = shape
        self.session = SteppedSession(PostgresServer("shop", url), shape, 1)
        self.session.gate = self._gate
        self.session.connection.execute("SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = off")
        self.pid = self.session.connection.info.backend_pid

    def begin(self, case: Case) -> None:  # type: ignore[override]
        """Stand before the first step of a build."""
        self.machine = IndexMachine(self.session, SystemClock(), Resource("index", "x"), case.method, lambda: 1)
        self.job = Job("j", "ix", "{}", lease=Lease("me", 1, 1e12), settings=Settings(chunk_rows=CHUNK_ROWS))
        self.truth = Truth()
        self.failure: BaseException | None = None
        self.is_over, self.at, self._gone, self.awaited = False, "", False, False
        self._permits = Semaphore(0)
        self.machine.prepare(self.job)
        self._thread = Thread(target=self._build, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Go on to the next stop."""
        self._work_begins()
        self._permits.release()

    @property
    def is_public(self) -> bool:
        """Whether users can read the index."""
        return self.truth.control is not None and self.truth.control.is_public

    def nap(self, plan: Wait) -> None:
        """While somebody holds it up, each look is a step."""
        self._gate(f"held: {plan.text}")

    def _gate(self, where: str) -> None:
        self.at = where
        self._rest()
        self._permits.acquire()
        if self._gone:
            raise Gone

    def _build(self) -> None:
        try:
            self._permits.acquire()
            while not self.is_public and not self._gone:
                try:
                    self.at = type(self.turn()).__name__
                except NotYet as error:
                    self._gate(f"not yet: {error.detail}")
        except DuplicateKeys as error:
            self.failure = error
            removal.stop(self.session)
        except Gone:
            pass
        except BaseException as error:
            self.failure = error
        self.is_over = True
        self._rest()

    def end(self) -> None:
        """Stop wherever it stands."""
        self._gone = True
        self._permits.release()
        self._thread.join(10)
        assert not self._thread.is_alive(), "the runner still works"

    def close(self) -> None:
        """End the session."""
        self.session.close()
