"""Tests of the four kinds of write, append, merge, put and replace, and of the state that each commit carries."""

from __future__ import annotations

import itertools

from tidefill.core.confirm import NO_TABLE, Counts, Effect, Payload, payload_to_json
from tidefill.core.keys import Key
from tidefill.core.state import JobState
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, Split
from tidefill.errors import KeyNotUnique
from tidefill.ports.frames import Append, Merge, Put, Replace, TargetWrite
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.target.checks import (
    OURS,
    assert_did,
    assert_log,
    assert_same,
    commit,
    confirmed,
    filled,
    last_entry,
    last_payload,
    prepared,
    row,
    state_at,
)
from tidefill.testing.conformance.target.harness import F, Marked, Row, TargetHarness, TargetTest

SPLITS_MANY = 200


def append(harness: TargetHarness[F]) -> None:
    prepared(harness)
    rows = [row(1), row(2, None), row(3, 7)]
    commit(harness, Append(harness.frame(rows)), 1)
    assert_same(harness.rows(), rows)
    assert_log(harness, Effect.WRITE)
    assert last_entry(harness).counts == Counts(inserted=3)
    commit(harness, Append(harness.frame([row(4)])), 2)
    assert_same(harness.rows(), [*rows, row(4)])
    assert last_entry(harness).counts == Counts(inserted=1)


def merge_by_exact_marks(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1), row(2), row(3), row(4)])
    changes: list[Marked] = [("I", 5, row(5)), ("U", 1, row(1, 9)), ("U", 2, row(2, None)), ("D", 3, None)]
    commit(harness, Merge(harness.marked(changes), exact=True), 2)
    assert_same(harness.rows(), [row(1, 9), row(2, None), row(4), row(5)])
    counts = Counts(inserted=1, updated=2, deleted=1)
    assert_did(harness, counts)
    assert last_payload(harness).expected == counts
    assert confirmed(harness).state == state_at(2)


def fresh_rows_are_appended(harness: TargetHarness[F]) -> None:
    """Also between rows that are there."""
    filled(harness, [row(1), row(5)])
    changes: list[Marked] = [("I", 3, row(3)), ("I", 7, row(7))]
    commit(harness, Merge(harness.marked(changes), exact=True, fresh=True), 2)
    assert_same(harness.rows(), [row(1), row(3), row(5), row(7)])
    assert confirmed(harness).state == state_at(2)


def merge_by_some_of_the_marks(harness: TargetHarness[F]) -> None:
    """A change set of two kinds is no less than one of all three."""
    filled(harness, [row(1), row(2), row(3), row(6)])
    steps: list[list[Marked]] = [
        [("I", 5, row(5)), ("U", 1, row(1, 9))],
        [("U", 1, row(1, 8)), ("D", 2, None)],
        [("I", 2, row(2, 7)), ("D", 3, None)],
    ]
    for step, changes in enumerate(steps, start=2):
        commit(harness, Merge(harness.marked(changes), exact=True), step)
    assert_same(harness.rows(), [row(1, 8), row(2, 7), row(5), row(6)])
    assert confirmed(harness).state == state_at(4)


def merge_that_deletes_everything(harness: TargetHarness[F]) -> None:
    """The log has to tell how many rows went, though no file is left that could say it."""
    filled(harness, [row(1), row(2), row(3)])
    commit(harness, Merge(harness.marked([("D", number, None) for number in (1, 2, 3)]), exact=True), 2)
    assert harness.rows() == []
    assert_did(harness, Counts(deleted=3))
    assert confirmed(harness).state == state_at(2)
    commit(harness, Merge(harness.marked([("I", 2, row(2, 7))]), exact=True), 3)
    assert harness.rows() == [row(2, 7)]


def merge_by_key(harness: TargetHarness[F]) -> None:
    """Where only keys are known: U puts the row there, D removes it, whether it was there or not."""
    filled(harness, [row(1), row(2)])
    changes: list[Marked] = [("U", 1, row(1, 9)), ("U", 7, row(7)), ("D", 2, None), ("D", 8, None)]
    commit(harness, Merge(harness.marked(changes), exact=False), 2)
    assert_same(harness.rows(), [row(1, 9), row(7)])
    assert last_payload(harness).expected is None
    assert_did(harness, Counts(inserted=1, updated=1, deleted=1))
    assert confirmed(harness).state == state_at(2)


def merge_by_key_between_known_ends(harness: TargetHarness[F]) -> None:
    """Then nothing is counted, and rows elsewhere need not be read."""
    filled(harness, [row(1), row(2), row(3), row(50)])
    changes: list[Marked] = [("U", 1, row(1, 9)), ("U", 7, row(7)), ("D", 2, None), ("D", 8, None)]
    commit(harness, Merge(harness.marked(changes), exact=False, lead=(1, 8)), 2)
    assert_same(harness.rows(), [row(1, 9), row(3), row(7), row(50)])
    commit(harness, Merge(harness.marked([("U", 3, row(3, 4))]), exact=False, lead=(3, 3)), 3)
    assert_same(harness.rows(), [row(1, 9), row(3, 4), row(7), row(50)])
    assert last_payload(harness).expected is None
    assert confirmed(harness).state == state_at(3)


def rows_take_the_place_of_keys(harness: TargetHarness[F]) -> None:
    """A named key without a row is gone, one that was not there may come, and all others stay."""
    filled(harness, [row(1), row(2), row(3)])
    named = tuple(Key((number,)) for number in (1, 2, 7, 8))
    commit(harness, Put(named, harness.frame([row(1, 9), row(7)])), 2)
    assert_same(harness.rows(), [row(1, 9), row(3), row(7)])
    assert last_payload(harness).expected is None
    assert_did(harness, Counts(inserted=1, updated=1, deleted=1))
    assert confirmed(harness).state == state_at(2)
    commit(harness, Put((Key((3,)),), harness.frame([])), 3)
    commit(harness, Put((Key((7,)), Key((3,))), harness.frame([row(3, 4), row(7, 5)])), 4)
    assert_same(harness.rows(), [row(1, 9), row(3, 4), row(7, 5)])
    assert confirmed(harness).state == state_at(4)


def a_null_key_is_a_key(harness: TargetHarness[F]) -> None:
    """A group of NULL has one row like any other."""
    null: Row = (None, 1, 2, 3)
    filled(harness, [row(1), null])
    commit(harness, Merge(harness.marked([("U", None, (None, 1, 2, 4))]), exact=True), 2)
    assert_same(harness.rows(), [row(1), (None, 1, 2, 4)])
    commit(harness, Merge(harness.marked([("D", None, None)]), exact=True), 3)
    assert_same(harness.rows(), [row(1)])
    commit(harness, Merge(harness.marked([("I", None, null)]), exact=True), 4)
    assert_same(harness.rows(), [row(1), null])
    assert confirmed(harness).state == state_at(4)


def replace(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1), row(2)])
    commit(harness, Replace(harness.frame([row(2, 5), row(3)])), 2)
    assert_same(harness.rows(), [row(2, 5), row(3)])
    assert_log(harness, Effect.WRITE, Effect.WRITE)
    assert last_entry(harness).counts.inserted == 2
    commit(harness, Replace(harness.frame([])), 3)
    assert harness.rows() == []
    assert confirmed(harness).state == state_at(3)


def a_replacement_that_is_read_writes_what_differs(harness: TargetHarness[F]) -> None:
    """Readers of the changes see no row that stays as it is. Two rows of one key are found, also if one of them is as
    it was."""
    null: Row = (None, 1, 2, 3)
    filled(harness, [row(1), row(2), row(3), null])
    commit(harness, Replace(harness.frame([row(1), row(2, 5), row(4), null]), read=True), 2)
    assert_same(harness.rows(), [row(1), row(2, 5), row(4), null])
    assert_did(harness, Counts(inserted=1, updated=1, deleted=1))
    assert confirmed(harness).state == state_at(2)
    commit(harness, Replace(harness.frame([row(1), row(2, 5), row(4), null]), read=True), 3)
    assert last_entry(harness).counts == Counts()
    assert confirmed(harness).state == state_at(3)
    twice = Replace(harness.frame([row(1), row(1, 7), row(2, 5), row(4), null]), read=True)
    raised(KeyNotUnique, lambda: commit(harness, twice, 4))
    assert_same(harness.rows(), [row(1), row(2, 5), row(4), null])
    assert confirmed(harness).state == state_at(3)


def writes_of_nothing_commit_too(harness: TargetHarness[F]) -> None:
    """The commit carries the state; without it the job would not move."""
    filled(harness, [row(1)])
    nothing, no_change = harness.frame([]), harness.marked([])
    writes: list[TargetWrite[F]] = [Append(nothing), Merge(no_change, exact=True), Merge(no_change, exact=False)]
    writes.append(Merge(harness.marked([("D", 99, None)]), exact=False))
    writes += [Put((), nothing), Put((Key((99,)),), nothing)]
    for step, write in enumerate(writes, start=2):
        commit(harness, write, step)
        assert last_entry(harness).counts == Counts()
        assert confirmed(harness).state == state_at(step)
    assert harness.rows() == [row(1)]


def the_payload_comes_back_exactly(harness: TargetHarness[F]) -> None:
    prepared(harness)
    sent = [commit(harness, Append(harness.frame([row(step)])), step) for step in (1, 2)]
    found = [entry.payload for entry in harness.target().log() if entry.payload is not None]
    assert [payload_to_json(payload) for payload in found] == [payload_to_json(payload) for payload in sent]


def a_large_state_comes_back(harness: TargetHarness[F]) -> None:
    bounds = [Key((f"{number:04d}" + "🌊 'quoted' \\" * 10,)) for number in range(SPLITS_MANY)]
    edges = [None, *bounds, None]
    many: Coverage = tuple(Split(after, upto) for after, upto in itertools.pairwise(edges))
    state = JobState(1, 1, {"t": Version("id", Number(1))}, {"t": many})
    target = prepared(harness)
    target.commit(Append(harness.frame([row(1)])), Payload(state, OURS, "commit", NO_TABLE))
    assert confirmed(harness).state == state


WRITES: tuple[TargetTest, ...] = (
    append,
    merge_by_exact_marks,
    fresh_rows_are_appended,
    merge_by_some_of_the_marks,
    merge_that_deletes_everything,
    merge_by_key,
    merge_by_key_between_known_ends,
    rows_take_the_place_of_keys,
    a_replacement_that_is_read_writes_what_differs,
    a_null_key_is_a_key,
    replace,
    writes_of_nothing_commit_too,
    the_payload_comes_back_exactly,
    a_large_state_comes_back,
)
