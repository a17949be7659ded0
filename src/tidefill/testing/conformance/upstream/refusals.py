"""Tests of what an upstream has to refuse: a replaced table, a lost history, and keys that are no keys."""

from __future__ import annotations

from contextlib import suppress

from tidefill.core import walk
from tidefill.errors import HistoryGone, KeyNotUnique, Unreadable, UpstreamReplaced
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.upstream.checks import assert_changes, first_version, open_first, open_newest
from tidefill.testing.conformance.upstream.harness import Can, F, UpstreamHarness, UpstreamTest, needs
from tidefill.testing.conformance.upstream.rows import EVERYTHING, NINE, ORDINARY, assert_same, row


def another_table_under_the_name(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        assert head.identity != old.identity
        upstream.check(head)
        error = raised(UpstreamReplaced, lambda: upstream.check(old))
        assert error.hint, "the one who reads it needs to know what to do"


def lost_history(harness: UpstreamHarness[F]) -> None:
    needs(harness, Can.LOSE_HISTORY)
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(NINE[0], row(1, 1, 5)), (NINE[1], None)])
    upstream = harness.upstream()
    upstream.prepare(None)
    upstream.check(old)
    harness.lose_history()
    assert raised(HistoryGone, lambda: upstream.check(old)).hint
    again = harness.upstream()
    again.prepare(None)
    raised(HistoryGone, lambda: again.check(old))


def lost_history_is_never_read_wrong(harness: UpstreamHarness[F]) -> None:
    """A frame that was made before says the truth or raises, however late it is evaluated."""
    needs(harness, Can.LOSE_HISTORY)
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(NINE[0], row(1, 1, 5)), (NINE[1], None)])
    after = (row(1, 1, 5), *NINE[2:])
    with open_newest(harness) as (upstream, head):
        changes = upstream.read_changes(old, head, walk.whole())
        frame = upstream.rows(EVERYTHING, old if upstream.lasting else head)
        harness.lose_history()
        with suppress(Unreadable, HistoryGone):
            assert_same(harness.collect(frame), NINE if upstream.lasting else after)
        with suppress(Unreadable, HistoryGone):
            assert_changes(harness, changes, NINE, after, walk.whole())


def a_key_that_is_there_twice(harness: UpstreamHarness[F]) -> None:
    needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, [*NINE, row(4711, 1), row(4711, 8)])
    with open_first(harness) as (upstream, head):
        error = raised(KeyNotUnique, lambda: upstream.check_keys(head))
        assert "4711" in str(error), "it names the key"


def a_key_that_is_null(harness: UpstreamHarness[F]) -> None:
    needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, [*NINE, (None, 1, 1, 1)])
    with open_first(harness) as (upstream, head):
        raised(KeyNotUnique, lambda: upstream.check_keys(head))


def keys_are_checked_at_their_version(harness: UpstreamHarness[F]) -> None:
    needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        harness.write([(None, row(1, 7))])
        upstream.check_keys(head)


REFUSALS: tuple[UpstreamTest, ...] = (
    another_table_under_the_name,
    lost_history,
    lost_history_is_never_read_wrong,
    a_key_that_is_there_twice,
    a_key_that_is_null,
    keys_are_checked_at_their_version,
)
