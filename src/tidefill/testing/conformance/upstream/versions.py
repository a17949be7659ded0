"""Tests of versions: a head stands still, versions follow each other, and a restart loses nothing."""

from __future__ import annotations

import json

from tidefill.core import walk
from tidefill.core.keys import Key
from tidefill.core.version import Number, newer, version_from_json, version_to_json
from tidefill.core.walk import Split
from tidefill.errors import Unreadable
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.upstream.checks import (
    assert_changes,
    first_version,
    greatest_of,
    open_first,
    open_newest,
)
from tidefill.testing.conformance.upstream.harness import F, UpstreamHarness, UpstreamTest
from tidefill.testing.conformance.upstream.rows import EVERYTHING, NINE, ORDINARY, assert_same, row


def an_empty_table(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, ())
    with open_first(harness) as (upstream, head):
        assert greatest_of(upstream, head) is None
        assert list(upstream.bounds(Split(None, None), 1, head)) == []
        assert harness.collect(upstream.rows(EVERYTHING, head)) == []
        assert upstream.row_estimate() >= 0
        upstream.check_keys(head)
        upstream.check(head)


def rows_at_the_head(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        look = upstream.look(head)
        assert look.readable == upstream.readable(head) is True
        assert not look.history_runs_short, "nothing has aged yet"
        assert look.lag_s == 0.0
        assert look.log_kept is None or 0 <= look.log_kept.ours <= look.log_kept.total
        assert list(upstream.notices()) == []
        frame = upstream.rows(EVERYTHING, head)
        assert_same(harness.collect(frame), NINE)
        assert_same(harness.collect(frame), NINE)
        assert harness.collect(upstream.rows((), head)) == []
        assert upstream.row_estimate() >= 0


def a_head_stands_still(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        before = upstream.rows(EVERYTHING, head)
        harness.write([(NINE[0], None), (NINE[1], row(2, 9, 7)), (None, row(99, 99))])
        assert_same(harness.collect(before), NINE)
        assert_same(harness.collect(upstream.rows(EVERYTHING, head)), NINE)
        assert greatest_of(upstream, head) == Key((9, 9))
        upstream.check(head)


def a_version_lasts_or_ends_with_its_head(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, old):
        early = upstream.rows(EVERYTHING, old)
    harness.write([(NINE[0], None)])
    with open_newest(harness) as (reader, _):
        assert reader.readable(old) is reader.lasting
        if reader.lasting:
            assert_same(harness.collect(reader.rows(EVERYTHING, old)), NINE)
            assert greatest_of(reader, old) == Key((9, 9))
    if reader.lasting:
        assert_same(harness.collect(early), NINE)
    else:
        assert not upstream.readable(old)
        raised(Unreadable, lambda: harness.collect(early))


def versions_are_newer_and_of_one_table(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(NINE[0], None)])
    with open_newest(harness) as (_, head):
        assert newer(head, old)
        assert not newer(old, head)
        assert head.identity == old.identity


def one_reader_goes_from_head_to_head(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, ())
    upstream = harness.upstream()
    upstream.prepare(None)
    with upstream.open_head(first=True) as head:
        pass
    for number in range(3):
        harness.write([(None, row(number, number))])
        with upstream.open_head(first=False) as following:
            assert following == head or newer(following, head), "a head may be an old one, but it never goes back"
        head = following


def a_table_of_others_comes_from_itself(harness: UpstreamHarness[F]) -> None:
    """Where versions have numbers, older ones can be found."""
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        assert not head.bases
        assert upstream.newest_from("another table", 1) is None
        if isinstance(head.point, Number):
            assert upstream.newest_from(head.identity, head.point.number) == head


def a_version_survives_json_and_a_restart(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    text = json.dumps(version_to_json(first_version(harness)))
    harness.write([(NINE[0], None)])
    old = version_from_json(json.loads(text))
    with open_newest(harness) as (upstream, head):
        upstream.check(old)
        assert_changes(harness, upstream.read_changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


def preparing_again_is_harmless(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(NINE[0], None)])
    upstream = harness.upstream()
    upstream.prepare(None)
    upstream.prepare(None)
    with upstream.open_head(first=False) as head:
        assert_changes(harness, upstream.read_changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


VERSIONS: tuple[UpstreamTest, ...] = (
    an_empty_table,
    rows_at_the_head,
    a_head_stands_still,
    a_version_lasts_or_ends_with_its_head,
    versions_are_newer_and_of_one_table,
    one_reader_goes_from_head_to_head,
    a_table_of_others_comes_from_itself,
    a_version_survives_json_and_a_restart,
    preparing_again_is_harmless,
)
