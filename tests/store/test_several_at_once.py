"""Threads and processes that share one store: nobody loses a write, nobody sees a half of one."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import cast

import pytest

from tests.store.examples import EVENTS, JOB
from tests.store.processes import check_ten_processes, check_ten_processes_at_odds
from tidefill.errors import NameTaken, Unavailable
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Pause, intend, wish_drop, wish_pause
from tidefill.store import sqlite as store_module
from tidefill.store.sql_store import SqlStore, open_store


def test_threads_share_a_store(store: SqlStore) -> None:
    store.create(JOB)
    marks = [Resource("mark", str(number)) for number in range(60)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda mark: store.change("1", intend(mark)), marks))
    after = store.job("1")
    assert after is not None
    assert sorted(after.resources) == sorted(marks)


# Y15
def test_of_five_creators_of_one_name_one_wins(file: Path) -> None:
    together = Barrier(5)

    def create(number: int) -> str | None:
        with open_store(file) as store:
            together.wait()
            try:
                return store.create(Job(str(number), "Orders", f"definition {number}")).id
            except NameTaken:
                return None

    with ThreadPoolExecutor(5) as threads:
        winners = [winner for winner in threads.map(create, range(5)) if winner is not None]
    with open_store(file) as store:
        assert [job.id for job in store.jobs()] == winners
        assert len(winners) == 1


# R19: the same names created by ten processes at once
def test_ten_processes(file: Path) -> None:
    check_ten_processes(str(file))


# R19: one name for a table and a job, created, read and dropped by ten processes at once
def test_ten_processes_at_odds_over_one_name(file: Path) -> None:
    check_ten_processes_at_odds(str(file))


def test_a_locked_store_is_unavailable_and_can_still_be_read(file: Path) -> None:
    with open_store(file, busy_s=0.05) as store, closing(sqlite3.connect(file, isolation_level=None)) as other:
        store.create(JOB)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            store.change("1", wish_pause(Pause.ALL))
        assert store.job("1") == JOB
        other.execute("ROLLBACK")
        assert store.change("1", wish_pause(Pause.ALL)).wish_number == 1


def test_nobody_writes_while_readers_are_looked_for(file: Path) -> None:
    def intrude(job: Job) -> list[str]:
        with open_store(file, busy_s=0.05) as other, pytest.raises(Unavailable, match="locked"):
            other.create(Job("late", "late", "{}"), needs=["events"])
        return []

    with open_store(file) as store:
        store.register(EVENTS)
        store.create(JOB)
        store.create(Job("2", "reader", "{}"))
        store.wish_end("1", wish_drop, intrude)
        store.wish_end("1", wish_drop, intrude, cascade=True)
        store.unregister("events", intrude)
        assert store.find("late") is None


def test_nobody_sees_the_half_of_a_cascade(file: Path) -> None:
    def wish(job: Job) -> Job:
        with open_store(file, busy_s=0.05) as other:
            assert not any(row.wants_end for row in other.jobs())
            with pytest.raises(Unavailable, match="locked"):
                other.create(Job("late", "late", "{}"), needs=["reader"])
        return wish_drop(job)

    with open_store(file) as store:
        store.create(JOB)
        for number, name in enumerate(("reader", "another"), 2):
            store.create(Job(str(number), name, "{}"))
        ended = store.wish_end("1", wish, lambda job: [] if job.id == "1" else [JOB.name], cascade=True)
        assert [row.wants_end for row in store.jobs()] == [True] * len(ended) == [True] * 3


def test_a_new_store_that_stays_locked_is_unavailable(file: Path) -> None:
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match="locked"):
            open_store(file, busy_s=0.05)


def test_the_switch_to_wal_waits_by_itself() -> None:
    """Of many who open a new file at once SQLite turns some away without heeding their timeout."""

    class Busy:
        tries = 0

        def execute(self, statement: str) -> None:
            self.tries += 1
            if self.tries < 3:
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorname = "SQLITE_BUSY"
                raise error

    connection = Busy()
    with pytest.raises(sqlite3.OperationalError):
        store_module._sqlite_use_wal(cast(sqlite3.Connection, Busy()), busy_s=0.0)
    store_module._sqlite_use_wal(cast(sqlite3.Connection, connection), busy_s=5.0)
    assert connection.tries == 3
