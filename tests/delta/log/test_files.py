"""A Delta log read as files: what is noticed, and how little is read for it. The logs here are written by hand; what
Delta writes is compared with what its statements say in `test_like_statements`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidefill.delta.log import files as reader
from tidefill.delta.log.files import FileLog, NotInFiles
from tidefill.delta.log.survey import RECENT_COMMITS, Survey
from tidefill.errors import Unavailable
from tidefill.storage.files import Stat
from tidefill.storage.local import LocalFiles

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


class Counted(LocalFiles):
    """The files, and which of them were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.listed = 0

    def read(self, path: str) -> bytes | None:
        self.reads.append(Path(path).name)
        return super().read(path)

    def names(self, folder: str) -> list[str] | None:
        self.listed += 1
        return super().names(folder)


class Log:
    """A table's log that a test writes, its reader, and the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = Counted(path)
        self.log = FileLog(self.files)
        self.last: Survey | None = None
        (path / "_delta_log").mkdir(parents=True)

    def file(self, version: int, end: str = "json") -> Path:
        return self.path / "_delta_log" / f"{version:020}.{end}"

    def write(self, version: int, *actions: dict[str, Any], **info: Any) -> None:
        said = {"operation": "WRITE", "operationParameters": {"mode": "Append"}, "operationMetrics": {}, **info}
        lines = [{"commitInfo": said}, *actions, {"add": {"path": f"{version}.parquet"}}]
        self.file(version).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def make(self, identity: str = "one", commits: int = 1, configuration: Mapping[str, str] | None = None) -> None:
        metadata = {"id": identity, "configuration": configuration or {}}
        self.write(0, {"metaData": metadata}, {"protocol": PROTOCOL})
        for version in range(1, commits):
            self.write(version)

    def look(self, reach: int | None = None) -> Survey:
        self.files.reads.clear()
        self.files.listed = 0
        self.last = self.log.look(self.last, reach, 0.0)
        return self.last


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def test_a_quiet_table_is_not_read_at_all(log: Log) -> None:
    log.make(commits=3)
    assert log.look().head == 2
    assert log.look().head == 2
    assert (log.files.reads, log.files.listed) == ([], 0)


def test_only_the_new_commits_are_read(log: Log) -> None:
    log.make(commits=30)
    log.look()
    log.write(30)
    log.write(31)
    assert log.look().head == 31
    assert [name for name in log.files.reads if name.endswith("json")] == [log.file(30).name, log.file(31).name]
    assert log.files.listed == 0


def test_what_a_commit_says(log: Log) -> None:
    log.make()
    metrics = {"numTargetRowsInserted": "1", "numTargetRowsUpdated": "2", "numTargetRowsDeleted": 3}
    log.write(1, operation="MERGE", operationParameters={"matchedPredicates": []}, operationMetrics=metrics)
    os.utime(log.file(1), ns=(0, 5_999_999_999))
    log.write(2, inCommitTimestamp=7001, userMetadata="mine")
    commits = log.look().commits
    assert (commits[1].rows, commits[1].at_s, commits[1].plain, commits[1].adds) == (6, 5.999, True, False)
    assert (commits[2].at_s, commits[2].adds) == (7.001, True)
    assert [logged.user_metadata for logged in log.log.newest()] == [None, None, "mine"]
    assert [logged.version for logged in log.log.since(1)] == [1, 2]
    assert log.log.since(3) == []


@pytest.mark.parametrize("commits", [2, 3, 5])
def test_a_table_made_again_at_the_path_is_noticed(log: Log, commits: int) -> None:
    # R31: shorter, just as long, longer
    log.make(commits=3)
    log.look()
    shutil.rmtree(log.path / "_delta_log")
    (log.path / "_delta_log").mkdir()
    log.make("two", commits)
    assert (log.look().identity, log.look().head) == ("two", commits - 1)


def test_a_table_made_again_whose_commit_is_as_large_is_noticed(log: Log) -> None:
    # R31
    log.make(commits=2)
    log.look()
    size = log.file(1).stat().st_size
    log.make("two", commits=2)
    log.write(1, operation="MERGE")
    log.file(1).write_text(log.file(1).read_text().rstrip("\n").ljust(size))
    assert log.file(1).stat().st_size == size
    assert log.look().identity == "two"


def test_a_table_exchanged_while_it_is_read_is_noticed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    # R31: the old table passed the first look at its newest commit
    log.make(commits=2)
    log.look()
    read = log.files.read

    def exchange(path: str) -> bytes | None:
        if path.endswith(log.file(2).name):
            monkeypatch.undo()
            log.make("two", commits=4)
            for version in range(4):
                os.utime(log.file(version), ns=(0, version))
        return read(path)

    log.write(2)
    monkeypatch.setattr(log.files, "read", exchange)
    assert log.look().identity == "two"


def test_a_copy_that_was_put_back_is_the_same_table(log: Log) -> None:
    log.make(commits=2)
    before = log.look()
    os.utime(log.file(1), ns=(0, 1))
    assert log.look().identity == before.identity
    assert log.files.listed == 1
    log.look()
    assert log.files.reads == []


def test_a_commit_that_changes_more_than_rows_is_looked_into(log: Log) -> None:
    # a property that decides how long history is kept; another identity at the next version
    log.make()
    assert log.look().kept_s == 7 * 24 * 3600
    kept = {"delta.deletedFileRetentionDuration": "interval 1 hours"}
    log.write(1, {"metaData": {"id": "one", "configuration": kept}}, operation="SET TBLPROPERTIES")
    assert log.look().kept_s == 3600
    log.write(2, {"metaData": {"id": "two", "configuration": {}}})
    assert log.look().identity == "two"


@pytest.mark.parametrize("half", [b"", b'{"commitInfo":{"opera', b'{"commitInfo":{}}\n{"add":{"path"'])
def test_a_commit_that_is_half_written_is_not_read(log: Log, half: bytes) -> None:
    log.make()
    log.look()
    log.file(1).write_bytes(half)
    with pytest.raises(Unavailable, match="version 1 is not written to its end"):
        log.look()
    log.write(1)
    assert log.look().head == 1


def test_a_file_that_grows_while_it_is_read_is_not_read(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.make()
    log.look()
    log.write(1)
    stat = log.files.stat

    def smaller(path: str) -> Stat | None:
        found = stat(path)
        return Stat(found.size - 1, found.modified_ns) if found and path.endswith(log.file(1).name) else found

    monkeypatch.setattr(log.files, "stat", smaller)
    with pytest.raises(Unavailable):
        log.look()


def test_commits_that_the_log_lost_are_not_remembered(log: Log) -> None:
    # log cleanup: what is gone cannot be read again
    log.make(commits=4)
    assert log.look(reach=0).whole
    checkpoint(log, 2)
    log.file(0).unlink()
    log.file(1).unlink()
    found = log.look(reach=0)
    assert (sorted(found.commits), found.whole, found.identity) == ([2, 3], True, "one")


def test_no_more_is_read_than_is_asked_for(log: Log) -> None:
    log.make(commits=100)
    found = log.look()
    assert (sorted(found.commits), found.whole) == ([*range(100 - RECENT_COMMITS, 100)], False)
    assert min(log.look(reach=50).commits) == 50
    assert log.look(reach=0).whole


def test_what_is_kept_in_memory_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "KNOWN_MAX", 5)
    log.make(commits=3)
    assert log.look().whole
    for version in range(3, 9):
        log.write(version)
    found = log.look()
    assert (sorted(found.commits), found.whole) == ([*range(4, 9)], False)
    assert log.look(reach=1).reaches(1)


def test_the_checksum_file_says_which_table_it_is(log: Log) -> None:
    log.make(commits=3)
    said = {"metadata": {"id": "one", "configuration": {}}, "protocol": PROTOCOL, "tableSizeBytes": 42}
    log.file(2, "crc").write_text(json.dumps(said))
    log.file(0).unlink()
    assert (log.look().identity, log.look().size) == ("one", 42)


def checkpoint(log: Log, version: int, parts: Sequence[str] = ("checkpoint.parquet",)) -> None:
    """Of the table `one`; only the last part says so."""
    for part in parts:
        last = part == parts[-1]
        configuration = [("delta.deletedFileRetentionDuration", "interval 2 hours")]
        metadata = {"id": "one", "configuration": configuration} if last else None
        columns = {
            "metaData": pa.array(
                [None, metadata],
                pa.struct([("id", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))]),
            ),
            "protocol": pa.array(
                [PROTOCOL if last else None, None],
                pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
            ),
        }
        pq.write_table(pa.table(columns), log.file(version, part))


@pytest.mark.parametrize(
    "parts",
    [
        ["checkpoint.parquet"],
        ["checkpoint.0000000001.0000000002.parquet", "checkpoint.0000000002.0000000002.parquet"],
        ["checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"],
    ],
)
def test_a_checkpoint_says_which_table_it_is(log: Log, parts: list[str]) -> None:
    log.make(commits=3)
    checkpoint(log, 1, parts)
    log.file(0).unlink()
    assert (log.look().identity, log.look().kept_s) == ("one", 7200)


def test_the_manifest_of_a_v2_checkpoint_says_which_table_it_is(log: Log) -> None:
    log.make(commits=3)
    lines = [{"metaData": {"id": "one", "configuration": {}}}, {"protocol": PROTOCOL}, {"sidecar": {}}]
    log.file(1, "checkpoint.80a083e8.json").write_text("\n".join(map(json.dumps, lines)))
    log.file(0).unlink()
    assert log.look().identity == "one"


def test_spark_is_asked_where_no_file_tells(log: Log, tmp_path: Path) -> None:
    for path in ("nothing", "t"):
        with pytest.raises(NotInFiles):
            FileLog(LocalFiles(tmp_path / path)).look(None, None, 0.0)
    log.make(commits=2)
    log.file(0).unlink()
    with pytest.raises(NotInFiles, match="which table"):
        log.look()


@pytest.mark.parametrize("features", ["readerFeatures", "writerFeatures"])
def test_a_table_that_a_catalog_manages_is_left_to_spark(log: Log, features: str) -> None:
    metadata = {"id": "one", "configuration": {}}
    log.write(0, {"metaData": metadata}, {"protocol": {**PROTOCOL, features: ["catalogManaged"]}})
    with pytest.raises(NotInFiles, match="catalog"):
        log.look()


def test_a_table_that_a_coordinator_manages_is_left_to_spark(log: Log) -> None:
    log.make(configuration={"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"})
    with pytest.raises(NotInFiles, match="catalog"):
        log.look()


def test_a_log_of_ten_thousand_commits(log: Log) -> None:
    log.make(commits=10_000)
    found = log.look()
    assert (found.head, len(found.commits), found.whole) == (9_999, RECENT_COMMITS, False)
    read = [name for name in log.files.reads if name.endswith(".json")]
    assert len(read) >= 9_999, "without a checkpoint or a checksum file the first commit alone says which table it is"
    log.look()
    assert log.files.reads == []
    log.last = None
    checkpoint(log, 9_990)
    assert log.look().identity == "one"
    assert len(log.files.reads) < 2 * RECENT_COMMITS
