"""Older stores are migrated after a backup; newer ones are left alone."""

import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa

from tests.store.examples import EVENTS, JOB, run_sql
from tidefill.errors import BadInput, NameTaken, StoreUnreadable, TidefillError
from tidefill.jobs.namespace import Registered
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import intend
from tidefill.store import sqlite as store_module
from tidefill.store.schema import SCHEMA_VERSION, Schema
from tidefill.store.sql_store import open_store


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
    assert run_sql(file, "SELECT colour FROM jobs") == [("blue",)]
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
            store.change("1", intend(Resource("mark", "slot")))
            store.change("1", lambda job: JOB)
    assert "colour" not in str(run_sql(file, "SELECT sql FROM sqlite_master"))


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
    return [run_sql(file, columns), run_sql(file, indexes)]


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
    return run_sql(file, "SELECT schema_version FROM meta")[0][0]
