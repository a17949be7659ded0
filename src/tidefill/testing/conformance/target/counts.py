"""Tests of the counts of rows in the log: they tell that a key is there twice or that a mark was wrong."""

from __future__ import annotations

from typing import Any

from tidefill.core.confirm import Counts
from tidefill.errors import Bug, KeyNotUnique, TidefillError
from tidefill.ports.frames import Append, Merge
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.target.checks import (
    assert_same,
    commit,
    confirmed,
    filled,
    last_entry,
    last_payload,
    row,
    state_at,
)
from tidefill.testing.conformance.target.harness import F, Marked, TargetHarness, TargetTest


def an_update_that_meets_two_rows(harness: TargetHarness[F]) -> None:
    _twice(harness)
    commit(harness, Merge(harness.marked([("U", 1, row(1, 9))]), exact=True), 3)
    assert last_payload(harness).expected == Counts(updated=1)
    met = last_entry(harness).counts
    assert met.updated + met.deleted == 2
    raised(KeyNotUnique, lambda: confirmed(harness))


def a_deletion_that_meets_two_rows(harness: TargetHarness[F]) -> None:
    _twice(harness)
    commit(harness, Merge(harness.marked([("D", 1, None)]), exact=True), 3)
    assert last_entry(harness).counts.deleted == 2
    raised(KeyNotUnique, lambda: confirmed(harness))


def _wrong_mark(name: str, change: Marked, error: type[TidefillError]) -> TargetTest:
    def test(harness: TargetHarness[Any]) -> None:
        filled(harness, [row(1)])
        commit(harness, Merge(harness.marked([change]), exact=True), 2)
        raised(error, lambda: confirmed(harness))

    test.__name__ = f"{name}_is_noticed"
    return test


def _twice(harness: TargetHarness[F]) -> None:
    """One key in two chunks, where no chunk sees it."""
    filled(harness, [row(1), row(2)])
    commit(harness, Append(harness.frame([row(1, 5)])), 2)
    assert_same(harness.rows(), [row(1), row(2), row(1, 5)])
    assert confirmed(harness).state == state_at(2), "an append looks at no key"


COUNTS: tuple[TargetTest, ...] = (
    an_update_that_meets_two_rows,
    a_deletion_that_meets_two_rows,
    _wrong_mark("an_insert_of_what_is_there", ("I", 1, row(1, 5)), KeyNotUnique),
    _wrong_mark("an_update_of_what_is_not_there", ("U", 9, row(9)), Bug),
    _wrong_mark("a_deletion_of_what_is_not_there", ("D", 9, None), Bug),
)
