"""The store on SQLite: the contract, several processes at once, and files that are old, damaged or out of reach."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any, cast

import pytest
import sqlalchemy as sa

from tests.store.worker import CONTENDED, NAMES
from tidefill.errors import (
    BadInput,
    Conflict,
    DiskFull,
    NameTaken,
    StoreUnreadable,
    TidefillError,
    Unavailable,
    UnknownJob,
)
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job, Pause, intend, wish_drop, wish_pause
from tidefill.ports import Store
from tidefill.store import sql_store as store_module
from tidefill.store.sql_store import SCHEMA_VERSION, Schema, SqlStore, exists, open_store
from tidefill.testing.conformance.store.rows import StoreTest
from tidefill.testing.conformance.store.suite import STORE_SUITE
from tidefill.testing.memory.store import MemoryStore

CONTESTS_MAX = 5
REPO = Path(__file__).parents[2]
JOB = Job("1", "orders", '{"query": "SELECT 1"}')
EVENTS = Registered("Events", '{"location": "lake/events", "key": ["id"]}')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some where" / "#1?mode=ro" / "störe.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqlStore]:
    with open_store(file) as opened:
        yield opened


@pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
def test_sqlite_keeps_the_contract(test: StoreTest, store: SqlStore) -> None:
    test(lambda: store)


@pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
def test_memory_keeps_the_contract(test: StoreTest) -> None:
    test(MemoryStore)


def test_it_is_a_store(store: SqlStore) -> None:
    as_port: Store = store
    assert list(as_port.jobs()) == []


# How it is kept


def test_what_was_written_is_there_after_reopening(file: Path) -> None:
    with open_store(file) as store:
        store.create(JOB)
        store.add_event("1", 1.5, "created")
        store.register(EVENTS)
        identity = store.store_id()
    with open_store(file) as store:
        assert list(store.jobs()) == [JOB]
        assert list(store.tables()) == [EVENTS]
        assert list(store.events("1")) == [(1.5, "created")]
        assert store.store_id() == identity


def test_two_stores_have_two_identities(tmp_path: Path) -> None:
    with open_store(tmp_path / "a") as one, open_store(tmp_path / "b") as two:
        assert one.store_id() != two.store_id()


def test_only_the_owner_may_read_it(file: Path, store: SqlStore) -> None:
    def look(job: Job) -> Job:
        modes = {path.name.removeprefix(file.name): stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600}
        return job

    store.create(JOB)
    store.change("1", look)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_asking_whether_it_exists_makes_nothing(file: Path) -> None:
    assert not exists(file)
    assert not file.parent.exists()
    open_store(file).close()
    assert exists(file)
    assert not exists(file.parent)


def test_nothing_is_left_beside_a_closed_store(file: Path) -> None:
    with open_store(file) as store:
        store.create(JOB)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_event_of_a_job_that_is_gone_is_refused(store: SqlStore) -> None:
    with pytest.raises(UnknownJob):
        store.add_event("1", 0.0, "too late")


def test_an_id_belongs_to_one_job(store: SqlStore) -> None:
    store.create(JOB)
    with pytest.raises(Conflict):
        store.create(Job("1", "another", "{}"))
    assert list(store.jobs()) == [JOB]


def test_text_that_is_not_unicode_can_be_kept(store: SqlStore) -> None:
    undecodable = os.fsdecode(b"caf\xe9")
    store.create(Job("1", undecodable, undecodable))
    store.add_event("1", 0.0, undecodable)
    found = store.find(undecodable)
    assert found is not None
    assert (found.name, found.definition) == (undecodable, undecodable)
    assert list(store.events("1")) == [(0.0, "caf\\udce9")]
    with pytest.raises(NameTaken):
        store.register(Registered(undecodable, "{}"))
    store.register(Registered(f"{undecodable}2", undecodable))
    assert store.table(f"{undecodable}2") == Registered(f"{undecodable}2", undecodable)


def test_light_modules_do_not_load_the_database() -> None:
    lines = (
        "import sys, importlib.util, tidefill, tidefill.run.runner, tidefill.core.step",
        "importlib.util.find_spec('tidefill.cli') and importlib.import_module('tidefill.cli')",
        "sys.exit('sqlalchemy' in sys.modules)",
    )
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=REPO, check=False).returncode == 0


# Several at once


def test_threads_share_a_store(store: SqlStore) -> None:
    store.create(JOB)
    marks = [f"mark {number}" for number in range(60)]
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


def check_ten_processes(place: str) -> None:
    """At a store that does not exist yet."""
    done = _work_together(place, "share")
    with open_store(place) as store:
        jobs = {job.name: job for job in store.jobs()}
    assert sorted(jobs) == sorted(NAMES)
    assert Counter(name for one in done for name in one["created"]) == Counter(NAMES), "each was created once"
    for job in jobs.values():
        assert {one["ids"][job.name] for one in done} == {job.id}, "everybody got the same job"
        assert job.wish_number == sum(one["wishes"].count(job.id) for one in done)
        assert sorted(job.resources) == sorted(mark for one in done for id, mark in one["marks"] if id == job.id)
        fences = [fence for one in done for id, fence in one["fences"] if id == job.id]
        assert sorted(fences) == list(range(1, job.lease.fence + 1)), "every fence was given to one, and only once"
        assert job.lease.fence > 3, "the lease did not go round: the test tests nothing"


# R19: one name for a table and a job, created, read and dropped by ten processes at once
def test_ten_processes_at_odds_over_one_name(file: Path) -> None:
    check_ten_processes_at_odds(str(file))


def check_ten_processes_at_odds(place: str) -> None:
    """The same. Now and then the name is a job from the first moment to the last; then they try again."""
    outcomes: Counter[str] = Counter()
    wanted = ("table: done", "job: done", "reader: done", "no_table: done", "no_job_nor_readers: done")
    for _ in range(CONTESTS_MAX):
        done = _work_together(place, "contend")
        for jobs, tables, readers in {tuple(look) for one in done for look in one["seen"]}:
            assert jobs + tables <= 1, "a name is one thing"
            assert jobs + tables == 1 or not readers, "what is read is there"
        outcomes.update(outcome for one in done for outcome in one["outcomes"])
        if all(outcomes[outcome] for outcome in wanted):
            break
    for outcome in wanted:
        assert outcomes[outcome], f"not once {outcome}: the test tests nothing"
    with open_store(place) as store:
        assert store.find(CONTENDED) is None or store.table(CONTENDED) is None


def _work_together(place: str, what: str) -> list[dict[str, Any]]:
    """What each of ten processes says that it did."""
    command = [sys.executable, "-m", "tests.store.worker", place, "10", what]
    done = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


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


# Out of reach


def test_a_place_that_cannot_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    for path in (tmp_path, tmp_path / "plain" / "store.db"):
        with pytest.raises(BadInput, match="cannot be written") as caught:
            open_store(path)
        assert caught.value.hint


def test_a_directory_that_may_not_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BadInput, match="Permission denied"):
        open_store(file)


def test_a_store_that_was_removed_does_not_come_back_empty(file: Path, store: SqlStore) -> None:
    store.create(JOB)
    file.unlink()
    with pytest.raises(Unavailable):
        store.jobs()
    assert not file.exists()


def test_a_full_disk_has_a_code_of_its_own(file: Path) -> None:
    with open_store(file) as store:
        store.create(JOB)
        engine = store._engine

        @sa.event.listens_for(engine, "begin")
        def bound(connection: sa.Connection) -> None:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")

        with pytest.raises(DiskFull, match="full"):
            store.change("1", intend("x" * 100_000))
        assert store.job("1") == JOB


# Damaged, old and new


def test_something_that_is_no_database(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a letter to a friend, " * 100)
    with pytest.raises(StoreUnreadable, match="not a database") as caught:
        open_store(file)
    assert "backup" in caught.value.hint
    assert file.read_bytes().startswith(b"a letter")


def test_the_database_of_another_program_is_left_alone(file: Path) -> None:
    file.parent.mkdir(parents=True)
    _sql(file, "CREATE TABLE letters (a)")
    with pytest.raises(StoreUnreadable, match="letters"):
        open_store(file)
    assert _sql(file, "SELECT name FROM sqlite_master") == [("letters",)]


DAMAGES = ("''", "'{'", "'[]'", "'{}'", "'null'", "7", "x'ff'", "CAST(x'ff' AS TEXT)")


@pytest.mark.parametrize("data", DAMAGES)
def test_a_row_that_cannot_be_read(file: Path, store: SqlStore, data: str) -> None:
    store.create(JOB)
    _sql(file, f"UPDATE jobs SET data = {data}")
    for read in (store.jobs, lambda: store.job("1"), lambda: store.change("1", lambda job: job)):
        with pytest.raises(StoreUnreadable):
            read()


@pytest.mark.parametrize("data", DAMAGES)
def test_a_table_that_cannot_be_read(file: Path, store: SqlStore, data: str) -> None:
    store.register(EVENTS)
    _sql(file, f"UPDATE tables SET data = {data}")
    for read in (store.tables, lambda: store.table("events"), lambda: store.unregister("events", lambda job: [])):
        with pytest.raises(StoreUnreadable):
            read()


def test_a_missing_table_is_named(file: Path, store: SqlStore) -> None:
    _sql(file, "DROP TABLE events")
    with pytest.raises(StoreUnreadable, match="no such table"):
        store.events("1")


def test_whatever_is_damaged_the_error_is_ours(file: Path) -> None:
    with open_store(file) as store:
        for number in range(6):
            store.create(Job(str(number), f"job {number}", "x" * 2000))
            store.add_event(str(number), 0.0, "created")
            store.register(Registered(f"table {number}", "x" * 2000))
    whole, chance, outcomes = file.read_bytes(), Random(7), Counter[str]()
    for _ in range(40):
        file.write_bytes(_damaged(whole, chance))
        outcomes[_outcome(file)] += 1
    assert outcomes["fine"] < 40
    assert set(outcomes) <= {"fine", "STORE_UNREADABLE", "UNAVAILABLE"}, outcomes


def _damaged(whole: bytes, chance: Random) -> bytes:
    data = bytearray(whole)
    at = chance.randrange(len(data) - 600)
    data[at : at + 600] = chance.randbytes(600)
    return bytes(data[: chance.choice([len(data), len(data), chance.randrange(1, len(data))])])


def _outcome(file: Path) -> str:
    try:
        with open_store(file, busy_s=0.05) as store:
            store.tables()
            for job in store.jobs():
                store.events(job.id)
                store.change(job.id, intend("slot"))
    except TidefillError as error:
        return error.code
    finally:
        for beside in file.parent.glob(f"{file.name}-*"):
            beside.unlink()
    return "fine"


def test_a_newer_store_is_left_alone(file: Path) -> None:
    open_store(file, schema=Schema(SCHEMA_VERSION + 1)).close()
    with pytest.raises(StoreUnreadable, match="newer release wrote it"):
        open_store(file)
    assert _version_of(file) == SCHEMA_VERSION + 1


def test_a_store_too_old_is_left_alone(file: Path) -> None:
    open_store(file).close()
    with pytest.raises(StoreUnreadable, match=f"no way on from schema {SCHEMA_VERSION + 1}"):
        open_store(file, schema=Schema(SCHEMA_VERSION + 2, {SCHEMA_VERSION: _add_colour}))
    assert _version_of(file) == SCHEMA_VERSION
    assert _backups(file) == []


def test_an_older_store_is_migrated_after_a_backup(file: Path) -> None:
    _old_store(file)
    with open_store(
        file, schema=Schema(SCHEMA_VERSION + 2, {SCHEMA_VERSION: _add_colour, SCHEMA_VERSION + 1: _paint})
    ) as store:
        assert list(store.jobs()) == [JOB]
    assert _version_of(file) == SCHEMA_VERSION + 2
    assert _sql(file, "SELECT colour FROM jobs") == [("blue",)]
    (backup,) = _backups(file)
    assert backup.name == f"{file.name}.backup-{SCHEMA_VERSION}"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with open_store(backup) as before:
        assert list(before.jobs()) == [JOB]
    assert _version_of(backup) == SCHEMA_VERSION


def test_a_migration_that_fails_changes_nothing(file: Path) -> None:
    def fail(connection: sa.Connection) -> None:
        connection.exec_driver_sql("DELETE FROM jobs")
        raise ZeroDivisionError

    _old_store(file)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            open_store(file, schema=Schema(SCHEMA_VERSION + 2, {SCHEMA_VERSION: _add_colour, SCHEMA_VERSION + 1: fail}))
        assert _version_of(file) == SCHEMA_VERSION
        with open_store(file) as store:
            assert list(store.jobs()) == [JOB]
            store.change("1", intend("slot"))
            store.change("1", lambda job: JOB)
    assert "colour" not in str(_sql(file, "SELECT sql FROM sqlite_master"))


def test_an_error_of_the_database_in_a_migration_is_ours(file: Path) -> None:
    _old_store(file)
    with pytest.raises(StoreUnreadable):
        open_store(file, schema=Schema(SCHEMA_VERSION + 1, {SCHEMA_VERSION: _paint}))
    assert _version_of(file) == SCHEMA_VERSION


def test_a_backup_is_never_overwritten(file: Path) -> None:
    _old_store(file)
    kept = file.with_name(f"{file.name}.backup-{SCHEMA_VERSION}")
    kept.write_text("mine")
    open_store(file, schema=NEXT_SCHEMA).close()
    assert kept.read_text() == "mine"
    assert [path.name for path in _backups(file)] == [kept.name, f"{kept.name}-2"]


def test_the_number_of_backups_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BACKUPS_MAX", 1)
    _old_store(file)
    file.with_name(f"{file.name}.backup-{SCHEMA_VERSION}").touch()
    with pytest.raises(BadInput, match="backups"):
        open_store(file, schema=NEXT_SCHEMA)
    assert _version_of(file) == SCHEMA_VERSION


def test_half_a_backup_is_removed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _old_store(file)
    monkeypatch.setattr(store_module, "closing", _Breaking)
    with pytest.raises(TidefillError, match="disk I/O error"):
        open_store(file, schema=NEXT_SCHEMA)
    assert _backups(file) == []
    assert _version_of(file) == SCHEMA_VERSION


class _Breaking:
    """A connection whose backup breaks off."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> "_Breaking":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def backup(self, sink: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")


def test_two_openers_migrate_once(file: Path) -> None:
    _old_store(file)
    together = Barrier(4)

    def migrate(number: int) -> None:
        together.wait()
        open_store(file, schema=NEXT_SCHEMA).close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate, range(4)))
    assert _version_of(file) == SCHEMA_VERSION + 1
    assert len(_backups(file)) == 1


def test_a_store_of_schema_1_keeps_its_jobs(file: Path) -> None:
    _store_of_schema_1(file)
    with open_store(file) as store:
        assert list(store.jobs()) == [JOB]
        assert list(store.events("1")) == [(1.5, "created")]
        assert store.store_id() == "the first"
        assert list(store.tables()) == []
        with pytest.raises(NameTaken):
            store.register(Registered("ORDERS", "{}"))
        store.register(EVENTS)
    with open_store(file) as store:
        assert list(store.tables()) == [EVENTS]
    assert _version_of(file) == SCHEMA_VERSION
    (backup,) = _backups(file)
    assert backup.name == f"{file.name}.backup-1"
    assert _version_of(backup) == 1
    with open_store(backup) as before:
        assert list(before.jobs()) == [JOB]


def test_a_migrated_store_is_like_a_new_one(file: Path, tmp_path: Path) -> None:
    _store_of_schema_1(file)
    open_store(file).close()
    open_store(tmp_path / "new.db").close()
    assert _structure(file) == _structure(tmp_path / "new.db")


def _structure(file: Path) -> list[Any]:
    columns = "SELECT t.name, c.* FROM pragma_table_list t, pragma_table_info(t.name) c ORDER BY t.name, c.cid"
    indexes = "SELECT t.name, i.* FROM pragma_table_list t, pragma_index_list(t.name) i ORDER BY t.name, i.name"
    return [_sql(file, columns), _sql(file, indexes)]


def _store_of_schema_1(file: Path) -> None:
    """As the release that had it wrote it, with JOB inside."""
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(SCHEMA_1)
        connection.execute("INSERT INTO meta VALUES (1, 1, 'the first')")
        connection.execute("INSERT INTO jobs VALUES ('1', 'orders', 1, ?)", [JOB_OF_SCHEMA_1])
        connection.execute("INSERT INTO events (job_id, at_s, text) VALUES ('1', 1.5, 'created')")
        connection.commit()


SCHEMA_1 = """
    CREATE TABLE meta (
        only INTEGER NOT NULL CHECK (only = 1),
        schema_version INTEGER NOT NULL,
        store_id TEXT NOT NULL,
        PRIMARY KEY (only)
    );
    CREATE TABLE jobs (
        id TEXT NOT NULL,
        name_key TEXT NOT NULL,
        active BOOLEAN NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (id)
    );
    CREATE UNIQUE INDEX jobs_name_held ON jobs (name_key) WHERE active;
    CREATE TABLE events (
        id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        job_id TEXT NOT NULL,
        at_s DOUBLE NOT NULL,
        text TEXT NOT NULL,
        FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE
    );
    CREATE INDEX ix_events_job_id ON events (job_id);
"""
JOB_OF_SCHEMA_1 = """{
    "id": "1", "name": "orders", "definition": "{\\"query\\": \\"SELECT 1\\"}", "life": "created",
    "settings": {"parallelism": 1, "rate_limit": null, "chunk_rows": null, "target_lag_s": 0.0},
    "generation": 1, "generation_uuid": "", "published": null, "pause": "nothing",
    "wants_end": false, "wants_resync": false, "wants_resume": false, "wish_number": 0,
    "lease": {"owner": "", "fence": 0, "until_s": 0.0}, "anchor": "", "released": "", "resources": [],
    "failure": null, "waiting": "", "progress": null, "ended_at_s": 0.0
}"""


def test_a_moved_store_opens(file: Path, tmp_path: Path) -> None:
    _old_store(file)
    shutil.move(file, tmp_path / "elsewhere.db")
    with open_store(tmp_path / "elsewhere.db") as store:
        assert list(store.jobs()) == [JOB]


def _old_store(file: Path) -> None:
    with open_store(file) as store:
        store.create(JOB)


def _add_colour(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE jobs ADD COLUMN colour TEXT")


def _paint(connection: sa.Connection) -> None:
    connection.exec_driver_sql("UPDATE jobs SET colour = 'blue'")


NEXT_SCHEMA = Schema(SCHEMA_VERSION + 1, {SCHEMA_VERSION: _add_colour})


def _backups(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}.backup-*"))


def _version_of(file: Path) -> object:
    return _sql(file, "SELECT schema_version FROM meta")[0][0]


def _sql(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()
