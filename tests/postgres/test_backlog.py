"""What is held in memory and what is on disk are the same to whoever asks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.version import Snapshot
from tidefill.errors import DiskFull
from tidefill.postgres import backlog as postgres_backlog
from tidefill.postgres.backlog import Backlog, KeyTexts, News, Transaction

KEYS = st.sets(st.tuples(st.text("ab'\\0", max_size=2), st.sampled_from(["", "1", "2"])), max_size=6)
PARTS = st.lists(
    st.tuples(st.integers(100, 120), st.floats(1.0, 9.0), KEYS, st.integers(0, 9)), max_size=12
)  # fmt: skip


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmin = draw(st.integers(98, 122))
    xmax = draw(st.integers(xmin, 122))
    xip = st.frozensets(st.integers(xmin, xmax - 1)) if xmax > xmin else st.just(frozenset[int]())
    return Snapshot(xmin, xmax, draw(xip))


@given(PARTS, snapshots(), st.integers(0, 20), st.integers(1, 5))
def test_a_backlog_on_disk_is_the_one_in_memory(
    parts: list[tuple[int, float, set[KeyTexts], int]], old: Snapshot, keys_max: int, size: int
) -> None:
    # R38
    small, large = Backlog(2, keys_max), Backlog(2, 1 << 60)
    begun: dict[int, float] = {}
    expected: set[KeyTexts] = set()
    for xid, at_s, keys, chance in parts:
        at_s = begun.setdefault(xid, at_s)
        for backlog in (small, large):
            backlog.add(xid, Transaction(xid, 0, at_s, set(keys), truncated=chance == 0))
        assert sum(len(one.keys) for _, one in small.held()) <= keys_max
        assert len(small.held()) <= keys_max
        expected |= keys if not old.sees(xid) else set()
    assert not large.spilled
    assert small.after(old) == large.after(old)
    assert small.after(old).keys == len(expected)
    for backlog in (small, large):
        for _ in range(2):
            batches = list(backlog.batches(old, size))
            assert [key for batch in batches for key in batch] == sorted(expected)
            assert all(len(batch) <= size for batch in batches)
        backlog.close()


def test_nothing() -> None:
    assert Backlog(1).after(Snapshot(1, 1)) == News(0, False, None)
    assert list(Backlog(1).batches(Snapshot(1, 1), 5)) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows the files of a process")
def test_the_file_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that none is left, whatever becomes of the process."""
    # R38
    monkeypatch.setattr(postgres_backlog, "FILE_CACHE_KB", 1)
    backlog = Backlog(1, 10)
    for xid in range(100):
        backlog.add(xid, Transaction(xid, 0, 0.0, {(f"{xid} {number}",) for number in range(200)}))
    assert backlog.spilled
    assert backlog.after(Snapshot(0, 0)).keys == 20_000
    (file,) = _files()
    assert file.endswith("(deleted)")
    backlog.close()
    assert _files() == []


def _files() -> list[str]:
    """Those that SQLite has open for a while, by the prefix that it gives them."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [name for link in links if "etilqs_" in (name := str(link.readlink()))]


def test_a_disk_that_is_full_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    backlog = Backlog(1, 0)
    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(DiskFull, match="cannot be kept on disk"):
        backlog.add(1, Transaction(1, 0, 0.0, {("1",)}))
