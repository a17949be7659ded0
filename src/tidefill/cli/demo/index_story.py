"""What happens in `tidefill demo --index`: two unique indexes over a partitioned table of PostgreSQL that is being
written, by one job and one scan. One is built while the runner is killed; the other meets duplicates, and fails with a
report.

Nothing in it is staged: the server, the writer and `tidefill run` are processes of their own, the kill is a SIGKILL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from tidefill.cli import terminal
from tidefill.cli.demo import index_shop
from tidefill.cli.demo.children import INDEX_WRITER, RUNNER, Child
from tidefill.cli.demo.home import Home
from tidefill.cli.demo.index_shop import BY_EMAIL, BY_PHONE, CREATE, JOB, TABLE, URL_VARIABLE, WRITES_PER_S
from tidefill.cli.demo.stage import Stage
from tidefill.errors import Bug, RetryLater, TimedOut
from tidefill.jobs.lifecycle import Life

if TYPE_CHECKING:
    import psycopg

    from tidefill.engine.engine import Engine
    from tidefill.jobs.status import Status

WAIT_S_MAX = 600.0
LOOK_S = 0.2
CHUNKS = 20
KILL_AT = 0.4


class IndexStory:
    """The demo of indexes from the first row to the last comparison."""

    def __init__(self, stage: Stage, place: Home, rows: int, ends: ExitStack) -> None:
        self._stage = stage
        self._home = place
        self._rows = rows
        self._ends = ends
        self._children: list[Child] = []

    def tell(self) -> bool:
        """All of it, in order; whether the index was found equal to its table."""
        url, shop = self._open_shop()
        engine = self._open_engine(url)
        writer = self._start(INDEX_WRITER, str(self._rows), url=url)
        self._stage.say(f"Writer {writer.pid} changes about {WRITES_PER_S} rows a second.")
        self._create(engine)
        runner = self._start(RUNNER, str(self._home.config), url=url)
        self._stage.say(f"Runner {runner.pid} builds both from one scan.")
        self._kill(engine, runner)
        runner = self._start(RUNNER, str(self._home.config), url=url)
        self._stage.say(f"Runner {runner.pid} takes over, and repeats one chunk at most.")
        self._until(engine, "one is live, the other has failed", _are_done)
        self._stage.leave_bars()
        self._tell_of_duplicates(engine)
        self._try_it(shop)
        equal = self._compare(engine)
        self._end(writer)
        self._drop(engine, shop)
        self._end(runner)
        return equal

    def _open_shop(self) -> tuple[str, psycopg.Connection[Any]]:
        import psycopg

        from tidefill.local.postgres import local_postgres

        with terminal.spinner("making customers..."):
            server = self._ends.enter_context(local_postgres(index_shop.SETTINGS))
            shop = self._ends.enter_context(psycopg.connect(server.url(), autocommit=True))
            for statement in index_shop.set_up(self._rows):
                shop.execute(statement.encode())
        parts = f"in {index_shop.PARTITIONS} partitions"
        self._stage.say(f"{TABLE}: a table of {self._rows:,} rows {parts}, primary key (id, region).")
        return server.url(), shop

    def _open_engine(self, url: str) -> Engine:
        from tidefill.engine.connect import connect

        self._home.configure(connections={index_shop.CONNECTION: URL_VARIABLE})
        made = connect(None, self._home.warehouse, self._home.store, {index_shop.CONNECTION: url})
        return self._ends.enter_context(made)

    def _create(self, engine: Engine) -> None:
        engine.execute(f"{CREATE} WITH (chunk_rows = {max(1, self._rows // CHUNKS)})")
        self._stage.say(f"{CREATE};")

    def _kill(self, engine: Engine, runner: Child) -> None:
        """In the middle of the fill."""
        self._until(engine, "a part is filled", lambda seen: seen[0].share >= KILL_AT)
        runner.kill()
        self._children.remove(runner)
        status = engine.job(JOB).status()
        self._stage.leave_bars()
        self._stage.say(f"kill -9 {runner.pid}: killed at {status.percent} %, in {status.phase}.")

    def _tell_of_duplicates(self, engine: Engine) -> None:
        job = engine.job(JOB)
        failure = _failure(job.status(), BY_PHONE)
        self._stage.say(f"{BY_PHONE} has failed: {failure}. Nobody's write was refused for it.")
        for key, count, rows in job.violations(BY_PHONE):
            self._stage.say(f"  {key} has {count} rows: {rows}")

    def _try_it(self, shop: psycopg.Connection[Any]) -> None:
        """A duplicate is refused, and a look by the index is quick."""
        import psycopg

        found = shop.execute(f"SELECT email FROM {TABLE} WHERE id = 1".encode()).fetchone()
        email = "" if found is None else found[0]
        try:
            shop.execute(f"INSERT INTO {TABLE} VALUES (%s, 2, %s)".encode(), (self._rows + 1, email))
        except psycopg.errors.UniqueViolation as error:
            self._stage.say(f"INSERT of another {email}: {error.diag.message_primary}.")
        else:
            raise Bug("a duplicate was not refused")
        by_view = index_shop.timed_ms(shop, f"SELECT id FROM {BY_EMAIL} WHERE email = %s", email)
        by_scan = index_shop.timed_ms(shop, f"SELECT id FROM {TABLE} WHERE email = %s", email)
        self._stage.say(f"A look by the index: {by_view:.1f} ms. By a scan of the table: {by_scan:.0f} ms.")

    def _compare(self, engine: Engine) -> bool:
        with terminal.spinner("comparing entries and table..."):
            found = engine.job(JOB).verify()
        same = "DIFFER from" if found.differences else "equal"
        self._stage.say(f"{BY_EMAIL}: its {found.rows:,} entries {same} the rows of the table, in one snapshot.")
        return not found.differences

    def _drop(self, engine: Engine, shop: psycopg.Connection[Any]) -> None:
        for name in (BY_EMAIL, BY_PHONE):
            engine.execute(f"DROP INDEX {name}")
        self._until(engine, "they are dropped", lambda seen: not seen)
        left = shop.execute(b"SELECT nspname FROM pg_namespace WHERE nspname = 'tidefill'").fetchall()
        if left:
            raise Bug("something is left on the server of what was dropped")

    # Processes.

    def _start(self, role: str, *words: str, url: str) -> Child:
        child = Child(role, list(words), self._home.folder, {URL_VARIABLE: url})
        self._ends.callback(child.kill)
        self._children.append(child)
        return child

    def _end(self, child: Child) -> None:
        self._children.remove(child)
        child.finish()

    def _until(self, engine: Engine, what: str, so: Callable[[Sequence[Status]], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S_MAX
        while True:
            for child in self._children:
                child.check()
            with suppress(RetryLater):
                seen = engine.statuses()
                if seen:
                    self._stage.bars(seen)
                if so(seen):
                    return
            if time.monotonic() > deadline_s:
                raise TimedOut(f"waited {WAIT_S_MAX:.0f} s in vain until {what}", detail="; ".join(map(str, seen)))
            time.sleep(LOOK_S)


def _failure(status: Status, index: str) -> str:
    return next((part.failure for part in status.parts if part.name == index), "")


def _are_done(statuses: Sequence[Status]) -> bool:
    (job,) = statuses
    return job.state == Life.LIVE.value and bool(_failure(job, BY_PHONE)) and not _failure(job, BY_EMAIL)
