"""Tests of changes: between two versions, judged by what is covered, nothing is missing and nothing is too much."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tidefill.core import walk
from tidefill.core.look import Changed
from tidefill.core.walk import covered_ranges
from tidefill.testing.conformance.upstream.checks import (
    assert_changes,
    assert_exact,
    first_version,
    forward_target,
    open_first,
    open_newest,
    take_in,
)
from tidefill.testing.conformance.upstream.harness import (
    Can,
    F,
    KeyValues,
    Row,
    UpstreamHarness,
    UpstreamTest,
    Write,
    needs,
)
from tidefill.testing.conformance.upstream.rows import (
    EVERYTHING,
    NINE,
    ORDINARY,
    PARTLY,
    assert_same,
    by_id,
    covered,
    row,
    writes_between,
)


def changes_of_every_kind_in_every_place(harness: UpstreamHarness[F]) -> None:
    after = [row(2, 7), row(3, 1), row(7, 2), row(6, 8), row(5, 9), row(9, 6), row(4, 4, 1), row(8, 8, 1), row(20, 3)]
    after += [row(21, 6), row(22, 30)]
    changes: list[Write] = [(by_id(NINE).get(new[0]), new) for new in after]
    assert_exact(harness, NINE, [[*changes, (NINE[0], None)]])


def a_row_moves_into_the_covered_part(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[5], row(6, 2))]])


def a_row_moves_out_of_the_covered_part(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[1], row(2, 6))]])


def a_row_moves_within_the_covered_part(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[1], row(2, 30))], [(NINE[2], row(3, 4))]])


def a_row_moves_outside_of_the_covered_part(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[5], row(6, 8))]])


def a_row_moves_across_and_back(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[1], row(2, 6))], [(row(2, 6), NINE[1])]])


def a_row_changes_its_key(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[1], row(50, 2)), (NINE[5], row(51, 6)), (NINE[6], row(52, 1))]])


def inserted_then_deleted(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(None, row(20, 1))], [(row(20, 1), None)]])


def deleted_then_inserted(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[0], None), (NINE[1], None)], [(None, NINE[0]), (None, row(2, 3, 5))]])


def updated_twice(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[0], row(1, 1, 5))], [(row(1, 1, 5), row(1, 1, 6))]])


def there_and_back(harness: UpstreamHarness[F]) -> None:
    assert_exact(harness, NINE, [[(NINE[0], row(1, 1, 5))], [(row(1, 1, 5), NINE[0])]])


def a_walk_value_becomes_null_and_a_value_again(harness: UpstreamHarness[F]) -> None:
    before = (row(1, None), *NINE[1:])
    assert_exact(harness, before, [[(before[0], row(1, 6)), (NINE[6], row(7, None)), (NINE[1], row(2, None))]])


def changes_have_their_interval(harness: UpstreamHarness[F]) -> None:
    """What came before `after` is not in, and what comes behind `upto` is not, even while it is read."""
    harness.create(ORDINARY, NINE)
    first_version(harness)
    harness.write([(NINE[0], row(1, 1, 5))])
    middle = first_version(harness)
    harness.write([(NINE[1], row(2, 2, 5))])
    with open_newest(harness) as (upstream, head):
        changes = upstream.read_changes(middle, head, walk.whole())
        harness.write([(NINE[2], row(3, 3, 5)), (row(2, 2, 5), None)])
        before, after = (row(1, 1, 5), *NINE[1:]), (row(1, 1, 5), row(2, 2, 5), *NINE[2:])
        assert_changes(harness, changes, before, after, walk.whole())
        assert_changes(harness, upstream.read_changes(middle, head, walk.whole()), before, after, walk.whole())


def changes_add_up(harness: UpstreamHarness[F]) -> None:
    """Going by way of a version between gives the same as going at once."""
    harness.create(ORDINARY, NINE)
    history = [NINE, (*NINE[1:], row(20, 2)), (row(2, 7, 3), *NINE[2:], row(20, 2, 1))]
    old = first_version(harness)
    by_steps = covered(NINE, PARTLY)
    for before, after in itertools.pairwise(history):
        harness.write(writes_between(before, after))
        with open_newest(harness) as (upstream, head):
            forward_target(harness, by_steps, upstream.read_changes(old, head, PARTLY))
        old = head
        assert by_steps == covered(after, PARTLY)


def changed_agrees_with_changes(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    start = first_version(harness)
    harness.write([(NINE[6], row(7, 8))])
    with open_newest(harness) as (upstream, head):
        if upstream.classify_changes(start, head, PARTLY) is Changed.NOTHING:
            assert_changes(harness, upstream.read_changes(start, head, PARTLY), NINE, NINE, PARTLY)
        assert upstream.classify_changes(start, head, walk.whole()) is not Changed.NOTHING
    harness.write([(NINE[0], None)])
    with open_newest(harness) as (upstream, head):
        assert upstream.classify_changes(start, head, PARTLY) is not Changed.NOTHING


def what_was_written_is_counted_if_at_all(harness: UpstreamHarness[F]) -> None:
    """A row that was changed may count as two."""
    harness.create(ORDINARY, NINE)
    start = first_version(harness)
    harness.write([(NINE[6], row(7, 8)), (NINE[0], None)])
    harness.write([(None, row(77, 1))])
    with open_newest(harness) as (upstream, head):
        assert upstream.rows_written(start, head) in (0, 3, 4)
        assert upstream.rows_written(head, head) == 0
        assert upstream.rows_written(start, head) == 0 or upstream.row_count(head) == len(NINE)


def a_commit_that_changes_no_row(harness: UpstreamHarness[F]) -> None:
    """Else an idle job would commit for ever."""
    harness.create(ORDINARY, NINE)
    start = first_version(harness)
    with open_newest(harness) as (upstream, head):
        assert upstream.classify_changes(start, head, walk.whole()) is Changed.NOTHING
    harness.stir()
    with open_newest(harness) as (upstream, head):
        assert upstream.classify_changes(start, head, walk.whole()) is Changed.NOTHING
        assert_changes(harness, upstream.read_changes(start, head, walk.whole()), NINE, NINE, walk.whole())
        assert_same(harness.collect(upstream.rows(EVERYTHING, head)), NINE)


def truncate_is_a_change_of_all(harness: UpstreamHarness[F]) -> None:
    needs(harness, Can.TRUNCATE)
    harness.create(ORDINARY, NINE)
    start = first_version(harness)
    harness.truncate()
    harness.write([(None, row(30, 2))])
    with open_newest(harness) as (upstream, head):
        assert upstream.classify_changes(start, head, PARTLY) is Changed.ALL
        assert harness.collect(upstream.rows(covered_ranges(PARTLY), head)) == [row(30, 2)]
    harness.write([(None, row(31, 3))])
    with open_newest(harness) as (upstream, later):
        assert upstream.classify_changes(head, later, PARTLY) is Changed.SOME, "the TRUNCATE lies behind"
        after = (row(30, 2), row(31, 3))
        assert_changes(harness, upstream.read_changes(head, later, PARTLY), after[:1], after, PARTLY)


def a_backfill_among_writes(harness: UpstreamHarness[F]) -> None:
    """The whole idea by hand: forward by the old coverage, then take in the next chunk as of the new version."""
    table = [*NINE]
    harness.create(ORDINARY, table)
    with open_first(harness) as (upstream, version):
        coverage = walk.start(upstream.beyond(version))
    target: dict[KeyValues, Row] = {}
    for after in _busy_history(table):
        harness.write(writes_between(table, after))
        table = after
        with open_newest(harness) as (upstream, head):
            forward_target(harness, target, upstream.read_changes(version, head, coverage))
            coverage = take_in(harness, upstream, coverage, head, target, rows=2)
        version = head
        assert target == covered(table, coverage)
    assert walk.finished(coverage)


def _busy_history(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows wander up and down, come and go, and the end of the table grows."""
    now = by_id(rows)
    for turn in range(8):
        for id_ in list(now):
            if (id_ + turn) % 3 == 0:
                now[id_] = row(id_, (id_ * 5 + turn * 4) % 11, turn)
        now.pop(turn + 1, None)
        now[100 + turn] = row(100 + turn, turn * 3 % 14)
        yield list(now.values())


CHANGES: tuple[UpstreamTest, ...] = (
    changes_of_every_kind_in_every_place,
    a_row_moves_into_the_covered_part,
    a_row_moves_out_of_the_covered_part,
    a_row_moves_within_the_covered_part,
    a_row_moves_outside_of_the_covered_part,
    a_row_moves_across_and_back,
    a_row_changes_its_key,
    inserted_then_deleted,
    deleted_then_inserted,
    updated_twice,
    there_and_back,
    a_walk_value_becomes_null_and_a_value_again,
    changes_have_their_interval,
    changes_add_up,
    changed_agrees_with_changes,
    what_was_written_is_counted_if_at_all,
    a_commit_that_changes_no_row,
    truncate_is_a_change_of_all,
    a_backfill_among_writes,
)
