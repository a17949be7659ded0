"""Store and log are for their owner alone, whatever the umask is."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidefill.run import log_file as logs
from tidefill.run.log_file import LOG_FILE, Log
from tidefill.store.sql_store import open_store
from tidefill.store.sqlite import sqlite_backup


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(mode(path)) for path in folder.iterdir()}


def write_log(folder: Path) -> None:
    with closing(Log(folder)) as log:
        for number in range(20):
            log.logger.info("line %d", number)


def test_a_new_store(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "store" / "jobs.db"
    open_store(file)
    with closing(sqlite3.connect(file)) as reader:
        reader.execute("BEGIN IMMEDIATE")
        reader.execute("UPDATE meta SET schema_version = schema_version")
        assert modes(file.parent) == dict.fromkeys(("jobs.db", "jobs.db-wal", "jobs.db-shm"), "0o600")
    sqlite_backup(file, "jobs.db.backup-1")
    assert mode(file.with_name("jobs.db.backup-1")) == 0o600
    assert mode(file.parent) == 0o700


def test_a_store_that_others_could_read_until_now(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    open_store(file)
    for name in ("jobs.db", "jobs.db.backup-1", "jobs.db-wal"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o644)
    open_store(file)
    assert set(modes(tmp_path).values()) == {"0o600"}, modes(tmp_path)


def test_the_log_and_those_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BYTES_MAX", 200)
    (tmp_path / LOG_FILE).touch(0o644)
    (tmp_path / f"{LOG_FILE}.1").touch(0o644)
    write_log(tmp_path)
    assert modes(tmp_path) == dict.fromkeys((LOG_FILE, *(f"{LOG_FILE}.{n}" for n in (1, 2, 3))), "0o600")
