"""Tests of a table that only grows, behind what is there: what they ask of an upstream holds for every kind, and for a
topic, whose rows never change, they are the tests of changes."""

from __future__ import annotations

import json
from contextlib import suppress

from tidefill.core import walk
from tidefill.core.look import Changed
from tidefill.core.version import version_from_json, version_to_json
from tidefill.errors import HistoryGone, Unreadable
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.upstream.checks import (
    assert_changes,
    assert_exact,
    first_version,
    forward_target,
    open_first,
    open_newest,
    take_in,
)
from tidefill.testing.conformance.upstream.harness import Can, F, KeyValues, Row, UpstreamHarness, UpstreamTest, needs
from tidefill.testing.conformance.upstream.rows import EVERYTHING, NINE, ORDINARY, PARTLY, assert_same, covered, row

MORE = (row(14, 4), row(24, 4), row(16, 6), row(32, 12))
"""Behind the last row of a group that is covered partly, of one that is not, and in a group of its own."""


def rows_that_come_behind(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(None, new) for new in MORE[:2]], [(None, new) for new in MORE[2:]]])


def a_head_stands_still_while_rows_come(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        before = upstream.rows(EVERYTHING, head)
        harness.write([(None, new) for new in MORE])
        assert_same(harness.collect(before), NINE)
        assert_same(harness.collect(upstream.rows(EVERYTHING, head)), NINE)
        upstream.check(head)


def what_came_is_there_after_release_and_restart(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    text = json.dumps(version_to_json(first_version(harness)))
    old = version_from_json(json.loads(text))
    with open_newest(harness) as (upstream, idle):
        upstream.release(idle)
    harness.write([(None, new) for new in MORE])
    again = harness.upstream()
    again.prepare(idle)
    again.check(old)
    with again.open_head(first=False) as head:
        changes = again.read_changes(old, head, walk.whole())
        assert_changes(harness, changes, NINE, (*NINE, *MORE), walk.whole())
        assert again.classify_changes(old, head, PARTLY) is not Changed.NOTHING
        assert again.classify_changes(head, head, walk.whole()) is Changed.NOTHING


def what_came_is_lost(harness: UpstreamHarness[F]) -> None:
    """A frame that was made before says the truth or raises; a later reader says what is lost."""
    needs(harness, Can.LOSE_HISTORY)
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(None, new) for new in MORE])
    with open_newest(harness) as (upstream, head):
        changes = upstream.read_changes(old, head, walk.whole())
        frame = upstream.rows(EVERYTHING, head)
        upstream.check(old)
        harness.lose_history()
        with suppress(Unreadable, HistoryGone):
            assert_same(harness.collect(frame), (*NINE, *MORE))
        with suppress(Unreadable, HistoryGone):
            assert_changes(harness, changes, NINE, (*NINE, *MORE), walk.whole())
        assert raised(HistoryGone, lambda: upstream.check(old)).hint


def a_backfill_while_rows_come(harness: UpstreamHarness[F]) -> None:
    """Forward by the old coverage, then take in the next chunk as of the new version."""
    table = [*NINE]
    harness.create(ORDINARY, table)
    with open_first(harness) as (upstream, version):
        coverage = walk.start(upstream.beyond(version))
    target: dict[KeyValues, Row] = {}
    for turn in range(8):
        new = [row(100 * (turn + 1) + group, group) for group in (turn + 1, 9, 10)]
        harness.write([(None, image) for image in new])
        table += new
        with open_newest(harness) as (upstream, head):
            forward_target(harness, target, upstream.read_changes(version, head, coverage))
            coverage = take_in(harness, upstream, coverage, head, target, rows=3)
        version = head
        assert target == covered(table, coverage)


GROWTH: tuple[UpstreamTest, ...] = (
    rows_that_come_behind,
    a_head_stands_still_while_rows_come,
    what_came_is_there_after_release_and_restart,
    what_came_is_lost,
    a_backfill_while_rows_come,
)
