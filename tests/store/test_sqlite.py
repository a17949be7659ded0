"""The store in a file of SQLite: what it keeps, who may read it, and places that cannot be written."""

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.store.examples import EVENTS, JOB, REPO
from tidefill.errors import (
    BadInput,
    Conflict,
    DiskFull,
    NameTaken,
    Unavailable,
    UnknownJob,
)
from tidefill.jobs.namespace import Registered
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, intend
from tidefill.store.rows import job_read
from tidefill.store.sql_store import SqlStore, exists, open_store


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


def test_a_row_is_parsed_once_for_each_change(file: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(data: str) -> Job:
        job = job_read(data)
        parsed.append(job.id)
        return job

    monkeypatch.setattr("tidefill.store.sql_store.job_read", counted)
    for number in "123":
        store.create(replace(JOB, id=number, name=f"job {number}"))
    for _ in range(3):
        assert [job.id for job in store.jobs()] == ["1", "2", "3"]
    assert parsed == ["1", "2", "3"]
    with open_store(file) as other:
        other.change("2", intend(Resource("path", "x")))
    store.delete("3")
    assert [(job.id, len(job.resources)) for job in store.jobs()] == [("1", 0), ("2", 1)]
    assert parsed == ["1", "2", "3", "2"]


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
            store.change("1", intend(Resource("mark", "x" * 100_000)))
        assert store.job("1") == JOB
