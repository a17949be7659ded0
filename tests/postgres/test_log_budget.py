"""The log that a server keeps for a replica: how much of it there may be, and what happens when there is more."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.postgres.harness import Postgres
from tests.postgres.stress import Copy, Effects, SessionReader
from tidefill.core.budget import Kept
from tidefill.core.reasons import Reason
from tidefill.errors import HistoryGone
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Pause
from tidefill.postgres.slot import remove_slot
from tidefill.postgres.survey import PgTable
from tidefill.postgres.upstream import PostgresUpstream
from tidefill.testing.memory.tables import Row

MB = 1 << 20


class Held(Copy):
    """A copy of a small table, whose slots are dropped when they are removed."""

    def __init__(self, postgres: Postgres) -> None:
        super().__init__(postgres, f"t_{uuid.uuid4().hex[:8]}")

    def sql(self, sql: str) -> None:
        self._postgres.execute(sql.replace("TABLE_", self._name))

    def set(self, **settings: Any) -> None:
        self._store.rows["j"] = replace(self.job, settings=replace(self.job.settings, **settings))

    def wish(self, wish: Callable[[jobs.Job], jobs.Job]) -> None:
        self._store.rows["j"] = wish(self.job)

    def remove(self, job: jobs.Job, resource: Resource) -> None:
        if resource.kind == "slot":
            remove_slot(self._postgres.ours, resource.name.partition("/")[2])

    @property
    def slots(self) -> list[str]:
        found = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE %s ORDER BY 1"
        return [name for (name,) in self._postgres.execute(found, f"{self._name}%")]

    def generation(self) -> list[Row]:
        """What the newest generation has."""
        return sorted(self._catalog.at(f"j-{self.job.generation}").rows())

    def assert_equal(self) -> None:
        assert self.job.failure is None, self.job.failure
        assert self.generation() == sorted(self._postgres.execute(f"SELECT * FROM {self._name}"))

    def until(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline_s, self.job
            self.turn()

    def drop(self) -> None:
        self.die()
        for name in self.slots:
            remove_slot(self._postgres.ours, name)
        super().drop()


@pytest.fixture
def copy(postgres: Postgres) -> Iterator[Held]:
    made = Held(postgres)
    made.sql("CREATE TABLE TABLE_ (id int PRIMARY KEY, value int)")
    made.sql("INSERT INTO TABLE_ SELECT n, n FROM generate_series(1, 500) n")
    postgres.publish(made._name, made._name)
    yield made
    made.drop()


def fill_the_log(postgres: Postgres) -> None:
    """More than 5 MB of it, by somebody who writes another table."""
    postgres.execute("CREATE TABLE noise AS SELECT n, repeat(md5(n::text), 3) FROM generate_series(1, 50000) n")
    postgres.execute("DROP TABLE noise")


@contextmanager
def open_writer(postgres: Postgres, sql: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with closing(psycopg.connect(postgres.server.url())) as session:
        session.execute(sql.encode())
        yield session


def half_filled(copy: Held) -> None:
    while copy.commits < 2:
        copy.turn()
    assert copy.job.life is Life.BACKFILLING


def test_what_the_slot_keeps_is_told(copy: Held, postgres: Postgres) -> None:
    # R25
    copy.catch_up()
    copy.wish(jobs.wish_pause(Pause.ALL))
    copy.until(lambda: copy.job.life is Life.PAUSED)
    fill_the_log(postgres)
    copy.set(wal_budget=2 * MB)
    for _ in range(70):  # a second each, by the clock of the test
        copy.turn()
    assert copy.job.progress is not None
    assert (copy.job.progress.log_bytes or 0) > 5 * MB
    assert "the server keeps more than 1 MB of its log for this job" in [text for _, text in copy._store.events("j")]
    assert copy.job.life is Life.PAUSED, "nothing is given up without a limit"


def test_the_fill_is_held_back_while_a_writer_keeps_the_log(copy: Held, postgres: Postgres) -> None:
    # R25
    half_filled(copy)
    copy.set(wal_budget=4 * MB)
    with open_writer(postgres, "CREATE TABLE of_somebody (id int)") as writer:
        postgres.execute("CHECKPOINT")
        fill_the_log(postgres)
        copy.until(lambda: copy.job.waiting == Reason.LOG_BUDGET.value)
        filled = len(copy.generation())
        copy.sql("UPDATE TABLE_ SET value = -1 WHERE id = 1")
        copy.until(lambda: (1, -1) in copy.generation())
        assert len(copy.generation()) == filled, "changes are taken in, nothing is filled"
        copy.set(wal_limit=4 * MB)
        for _ in range(40):
            copy.turn()
        assert copy.job.failure is None, "a writer who takes long is no reason to give up"
        writer.rollback()
    postgres.execute("CHECKPOINT")
    copy.until(lambda: copy.job.life is Life.LIVE)
    copy.catch_up().assert_equal()


@pytest.mark.parametrize("restarted", [False, True], ids=["looking on", "after a restart"])
def test_a_paused_job_gives_its_slot_up_past_the_limit_and_is_built_anew(
    copy: Held, postgres: Postgres, restarted: bool
) -> None:
    # R25
    copy.catch_up()
    copy.set(wal_limit=4 * MB)
    copy.wish(jobs.wish_pause(Pause.ALL))
    copy.until(lambda: copy.job.life is Life.PAUSED)
    copy.turn()
    assert copy.slots == [copy.slot], "little is kept yet"
    if restarted:
        copy.die()
    fill_the_log(postgres)
    copy.turn()
    failure = copy.job.failure
    assert failure is not None
    assert (failure.code, copy.slots) == ("LOG_GIVEN_UP", [])
    assert failure.hint.startswith("RESYNC")
    copy.sql("DELETE FROM TABLE_ WHERE id < 100")
    copy.wish(jobs.wish_resume)
    copy.catch_up()
    assert copy.job.failure is not None, "what was given up cannot be taken in later"
    assert (copy.job.failure.code, len(copy.rows())) == ("HISTORY_GONE", 500)
    copy.wish(jobs.wish_resync)
    copy.until(lambda: copy.job.generation == 2)
    copy.catch_up().assert_equal()
    assert copy.slots == [f"{copy._name}_2"]


def test_a_job_that_has_failed_gives_its_slot_up_past_the_limit(copy: Held, postgres: Postgres) -> None:
    # R25
    copy.catch_up()
    copy.set(wal_limit=4 * MB)
    copy.sql("ALTER TABLE TABLE_ DROP COLUMN value")
    copy.catch_up()
    copy.turn()
    assert copy.job.failure is not None
    assert (copy.job.failure.code, copy.slots) == ("UPSTREAM_REPLACED", [copy.slot])
    fill_the_log(postgres)
    copy.turn()
    assert (copy.job.failure.code, copy.slots) == ("LOG_GIVEN_UP", [])
    assert "[UPSTREAM_REPLACED]" in copy.job.failure.detail


def test_a_table_that_is_gone_keeps_nothing_for_ever(copy: Held, postgres: Postgres) -> None:
    # R25
    copy.catch_up()
    copy.set(wal_limit=4 * MB)
    copy.sql("DROP TABLE TABLE_")
    copy.catch_up()
    assert copy.job.failure is not None
    fill_the_log(postgres)
    copy.turn()
    assert (copy.job.failure.code, copy.slots) == ("LOG_GIVEN_UP", [])


def test_the_slot_of_an_older_generation_is_not_kept_while_the_next_is_filled(copy: Held) -> None:
    # R25
    copy.catch_up()
    copy.wish(jobs.wish_resync)
    copy.until(lambda: copy.job.generation == 2)
    copy.turn()
    assert copy.job.life is Life.BACKFILLING
    assert copy.slots == [f"{copy._name}_2"]
    copy.catch_up().assert_equal()


def test_a_paused_job_does_not_read_the_log_each_second(copy: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    # R25
    copy.catch_up()
    copy.wish(jobs.wish_pause(Pause.ALL))
    copy.until(lambda: copy.job.life is Life.PAUSED)
    copy.turn()
    heads: list[Any] = []
    open_head = Effects.open_head

    def opened(self: Effects, *, first: bool) -> Any:
        heads.append(first)
        return open_head(self, first=first)

    monkeypatch.setattr(Effects, "open_head", opened)
    for _ in range(120):  # a second each, by the clock of the test
        copy.turn()
    assert len(heads) == 2
    copy.wish(jobs.wish_resume)
    copy.catch_up().assert_equal()


# A server's own limit.


@contextmanager
def keeping_little(postgres: Postgres) -> Iterator[None]:
    def keep(size: str) -> None:
        postgres.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{size}'")
        postgres.execute("SELECT pg_reload_conf()")
        deadline_s = time.monotonic() + 10
        while postgres.execute("SELECT 1 WHERE current_setting('max_slot_wal_keep_size') <> %s", size):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    keep("16MB")
    try:
        yield
    finally:
        keep("-1")


def lose_the_log(postgres: Postgres, slot: str) -> None:
    """The server throws away what the slot needs."""
    lost = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND wal_status = 'lost'"
    deadline_s = time.monotonic() + 60
    while not postgres.execute(lost, slot):
        assert time.monotonic() < deadline_s
        postgres.execute("SELECT pg_logical_emit_message(false, 'noise', 'x')")
        postgres.execute("SELECT pg_switch_wal()")
        postgres.execute("CHECKPOINT")


@pytest.mark.parametrize("restarted", [False, True], ids=["looking on", "after a restart"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "half filled"])
def test_a_slot_that_the_server_has_lost_is_a_stop(copy: Held, postgres: Postgres, live: bool, restarted: bool) -> None:
    # R25, R39
    copy.catch_up() if live else half_filled(copy)
    copy.die() if restarted else None
    with keeping_little(postgres):
        lose_the_log(postgres, copy.slot)
        copy.sql("DELETE FROM TABLE_ WHERE id < 100")
        copy.catch_up()
        failure = copy.job.failure
        assert failure is not None
        assert (failure.code, "thrown away" in failure.fact) == ("HISTORY_GONE", True)
        assert failure.hint.startswith("RESYNC")
        copy.wish(jobs.wish_resync)
        copy.until(lambda: copy.job.generation == 2)
        copy.catch_up().assert_equal()


def test_a_slot_that_was_lost_before_the_first_version(copy: Held, postgres: Postgres) -> None:
    # R25, R39
    table = PgTable("public", copy._name, copy._name, copy.slot)
    upstream = PostgresUpstream(SessionReader(), postgres.ours, table, own_publication=False)
    upstream.prepare(None)
    with keeping_little(postgres):
        lose_the_log(postgres, copy.slot)
        assert upstream._slot.kept() == Kept(), "it keeps nothing any more"
        with pytest.raises(HistoryGone, match="thrown away"), upstream.open_head(first=True):
            pass


def test_a_server_that_will_soon_throw_the_log_away_presses(copy: Held, postgres: Postgres) -> None:
    # R25
    copy.catch_up()
    with keeping_little(postgres):
        kept = copy._upstreams[-1]._slot.kept()
        assert kept is not None
        assert 0 < (kept.left or 0) <= 32 * MB, "with the segment that is being written"
    kept = copy._upstreams[-1]._slot.kept()
    assert kept is not None
    assert kept.left is None
