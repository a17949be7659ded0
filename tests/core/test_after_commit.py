"""Rows in memory are believed only while the newest commit with a state is the one that they belong to."""

from __future__ import annotations

from dataclasses import replace

from tidefill.core.after_commit import AfterCommit
from tidefill.core.confirm import Effect, Entry, Payload
from tidefill.core.state import initial


def commit(version: int, step: int, commit_uuid: str) -> Entry:
    payload = Payload(replace(initial(1), step=step), "generation", commit_uuid, version - 1)
    return Entry(version, Effect.WRITE, payload)


def kept(log: list[Entry]) -> AfterCommit[str]:
    rows = AfterCommit[str]()
    rows.keep("mine", "rows")
    rows.judge(log)
    return rows


def test_rows_of_the_newest_commit_are_believed() -> None:
    rows = kept([commit(3, 1, "older"), commit(4, 2, "mine")])
    assert (rows.known(), rows.version) == ("rows", 4)


def test_a_commit_without_a_state_leaves_them_as_they_are() -> None:
    """OPTIMIZE is harmless, and what a stranger does to the data makes the job fail before a plan."""
    rows = kept([commit(4, 2, "mine"), Entry(5, Effect.NONE)])
    assert (rows.known(), rows.version) == ("rows", 5)


def test_a_commit_of_another_runner_ends_it() -> None:
    assert kept([commit(4, 2, "mine"), commit(5, 3, "theirs")]).known() is None


def test_a_commit_that_was_skipped_ends_it() -> None:
    assert kept([commit(4, 2, "theirs")]).known() is None


def test_without_a_commit_nothing_is_known() -> None:
    for log in ([], [Entry(0, Effect.CREATED)]):
        rows = kept(log)
        assert (rows.known(), rows.version) == (None, None)


def test_rows_that_were_read_belong_to_the_newest_commit() -> None:
    rows = AfterCommit[str]()
    rows.judge([commit(4, 2, "theirs")])
    rows.loaded("read at 4")
    rows.judge([commit(4, 2, "theirs")])
    assert rows.known() == "read at 4"
    rows.judge([commit(4, 2, "theirs"), commit(5, 3, "other")])
    assert rows.known() is None
