"""Files on a local disk, by the protocol of `storage.files`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidefill.errors import Unavailable
from tidefill.storage.files import Stat
from tidefill.storage.local import LocalFiles
from tidefill.storage.place import files_below


def test_what_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a").write_bytes(b"abc")
    os.utime(tmp_path / "log" / "a", ns=(5, 7_000_000))
    files = files_below(f"file://{tmp_path}")
    assert files is not None
    assert files.stat("log/a") == Stat(3, 7_000_000)
    assert files.read("log/a") == b"abc"
    assert files.names("log") == ["a"]
    opened = files.open("log/a")
    assert opened is not None
    with opened:
        opened.seek(1)
        assert opened.read() == b"bc"


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = LocalFiles(tmp_path)
    for path in ("a", "folder/a", "file/a"):
        assert (files.stat(path), files.read(path), files.open(path), files.names(path)) == (None,) * 4


def test_a_disk_that_refuses_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Unavailable, match="cannot read"):
        LocalFiles(tmp_path).read("folder")


def test_removed_with_all_that_is_in_it_and_again(tmp_path: Path) -> None:
    (tmp_path / "t" / "log").mkdir(parents=True)
    (tmp_path / "t" / "log" / "a").touch()
    for _ in range(2):
        LocalFiles(tmp_path / "t").remove()
    assert not (tmp_path / "t").exists()


def test_a_place_of_another_kind_is_left_to_spark() -> None:
    assert files_below("s3a://bucket/table") is None
