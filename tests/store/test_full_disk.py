"""A disk without room harms no store, so nobody is told to move a store aside because of it."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tidefill.config import Config
from tidefill.doctor.examine import examine
from tidefill.doctor.findings import Finding, Verdict
from tidefill.engine.engine import STORE_FILE
from tidefill.errors import TidefillError
from tidefill.jobs.row import Job
from tidefill.store.sql_store import SqlStore, open_store

DISK_BYTES = 256 * 1024
CHILD = """
import resource, sys, tests.store.test_full_disk as test
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
print(test.refusal(Path(sys.argv[1])))
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with little room. Mounting one needs rights that not every machine gives."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Write until the disk takes nothing any more."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 512)


def grow(store: SqlStore) -> None:
    """Write more than any limit of these tests leaves room for."""
    for number in range(100):
        store.create(Job(str(number), f"job_{number}", "x" * 10_000))


def refusal(folder: Path) -> str:
    """What is said when the store cannot be written."""
    try:
        with open_store(folder / STORE_FILE) as store:
            grow(store)
    except TidefillError as error:
        return str(error)
    return "nothing was refused"


def store_findings(folder: Path) -> list[Finding]:
    findings = examine(Config(None, str(folder), str(folder / "lake")), os.environ, 0.0)
    return [finding for finding in findings if finding.what == "store"]


def test_the_store_says_that_its_disk_is_full(tmp_path: Path) -> None:
    """A limit on the size of files gives the same errors of SQLite, on any machine."""
    open_store(tmp_path / STORE_FILE).close()
    for size in (0, 100_000):  # nothing can be opened; something can be opened but not grow
        command = [sys.executable, "-c", CHILD, str(tmp_path), str(size)]
        said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        assert "[DISK_FULL]" in said.stdout, said
        assert f"Free space on the disk of {tmp_path}" in said.stdout
        assert "unharmed" in said.stdout
    with open_store(tmp_path / STORE_FILE) as store:
        store.jobs()


def test_the_doctor_leaves_a_store_on_a_full_disk_where_it_is(disk: Path) -> None:
    folder = disk / ".tidefill"
    open_store(folder / STORE_FILE).close()
    fill(disk)
    (bad,) = [finding for finding in store_findings(folder) if finding.verdict is Verdict.BAD]
    assert "mv " not in bad.remedy, bad
    assert f"Free space on the disk of {folder}" in bad.remedy
    assert "[DISK_FULL]" in refusal(folder)
    (disk / "filler").unlink()
    assert all(finding.verdict is Verdict.OK for finding in store_findings(folder))


def test_a_folder_that_cannot_be_made_for_want_of_room(disk: Path) -> None:
    fill(disk)
    (disk / ".tidefill").mkdir(exist_ok=True)
    assert "[DISK_FULL]" in refusal(disk / ".tidefill")


def test_only_what_is_no_database_is_to_be_moved_aside(tmp_path: Path) -> None:
    file = tmp_path / STORE_FILE
    with open_store(file) as store:
        grow(store)
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\xff" * 3996 + content[4096:])  # SQLITE_CORRUPT
    (bad,) = [finding for finding in store_findings(tmp_path) if finding.verdict is Verdict.BAD]
    assert f"mv {file}" in bad.remedy
    file.write_bytes(b"no database" * 1000)  # SQLITE_NOTADB
    (bad,) = [finding for finding in store_findings(tmp_path) if finding.verdict is Verdict.BAD]
    assert f"mv {file}" in bad.remedy


def test_a_store_that_is_locked_is_to_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.doctor.reading.BUSY_S", 0.0)
    open_store(tmp_path / STORE_FILE).close()
    with closing(sqlite3.connect(tmp_path / STORE_FILE, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE meta SET schema_version = schema_version")
        (bad,) = [finding for finding in store_findings(tmp_path) if finding.verdict is Verdict.BAD]
    assert "mv " not in bad.remedy, bad
    assert "locked by another process" in bad.fact
