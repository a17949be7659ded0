"""The contract of `tidefill.ports.Upstream`, as a suite that any upstream can run on the real system.

Each test takes a harness, which makes tables, writes them and evaluates frames. From pytest:

    @pytest.mark.parametrize("test", UPSTREAM_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: UpstreamTest) -> None:
        test(MyHarness())

What the system cannot do is skipped by the harness's capabilities, as `unittest.SkipTest`. What is expected is worked
out here from plain rows; of the core only the order of keys and the coverage rule for one key are used.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest import SkipTest

from tidefill.core import walk
from tidefill.core.keys import TOP, Key, Timestamp, Value, key_from_json, key_to_json
from tidefill.core.step import Changed
from tidefill.core.version import Number, Version, newer, version_from_json, version_to_json
from tidefill.core.walk import DONE, Coverage, Range, Split, Upto, covered_ranges, covers
from tidefill.errors import HistoryGone, KeyNotUnique, Unreadable, UpstreamReplaced
from tidefill.ports.frames import Halves
from tidefill.ports.upstream import Upstream
from tidefill.testing.conformance.expecting import raised

F = TypeVar("F")
Row: TypeAlias = tuple[Value, ...]
KeyValues: TypeAlias = tuple[Value, ...]
Write: TypeAlias = tuple[Row | None, Row | None]

CHUNKS_MAX = 100
EVERYTHING = (Range(None, None),)


class Kind(Enum):
    """The type of a column. Integers have 64 bits, decimals 30 digits of which 10 behind the point, timestamps
    microseconds and no time zone."""

    INT = "int"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Layout:
    """A table: its columns by name, which of them are the key, and the walk through it. What is not key may be NULL."""

    columns: tuple[tuple[str, Kind], ...]
    key: tuple[int, ...]
    walk: tuple[int, ...]

    def key_of(self, row: Row) -> KeyValues:
        """The values that identify the row."""
        return tuple(row[column] for column in self.key)

    def walk_of(self, row: Row) -> Key:
        """The row's place in the walk."""
        return Key(tuple(row[column] for column in self.walk))


class Can(Enum):
    """What not every system can do."""

    TRUNCATE = "truncate"
    HOLD_DUPLICATES = "hold a key twice, or a NULL key"
    LOSE_HISTORY = "lose its history"


class UpstreamHarness(Protocol[F]):
    """One table of a real system, and everybody else who has to do with it. Values in rows are those of `core.keys`."""

    @property
    def capabilities(self) -> frozenset[Can]:
        """What the system can do."""

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """Make the table with these rows. If it is there, it is dropped first: another table under the same name.
        SkipTest if the system has no such columns."""

    def upstream(self) -> Upstream[F]:
        """A new reader of the table, as a process that was just started makes it: not prepared yet, and no head that it
        gives is older than the reader. All are of one job."""

    def write(self, changes: Sequence[Write]) -> None:
        """One transaction of somebody else: pairs of the row before (None: inserted) and after (None: deleted). No key
        is in it twice."""

    def stir(self) -> None:
        """A commit that changes no row of the table: on another table of the server, or of the layout of the files."""

    def collect(self, frame: F) -> list[Row]:
        """The rows of a frame, evaluated as a target does it: errors in reading are ours."""

    def collect_keys(self, frame: F) -> list[KeyValues]:
        """The same for a frame of keys: `removed` without images."""

    def truncate(self) -> None:
        """TRUNCATE, with `Can.TRUNCATE`."""

    def lose_history(self) -> None:
        """With `Can.LOSE_HISTORY`: what changed up to now is known no more, and older versions cannot be read."""


UpstreamTest: TypeAlias = Callable[[UpstreamHarness[Any]], None]

ORDINARY = Layout((("id", Kind.INT), ("grp", Kind.INT), ("ref", Kind.INT), ("value", Kind.INT)), key=(0,), walk=(1, 0))
# Of groups 1 to 9 those up to 4 are covered, and what lies behind the end.
PARTLY: Coverage = (Split(None, Key((8, TOP)), Upto(Key((4, TOP)))), Split(Key((8, TOP)), None, DONE))


def row(id_: int, group: int | None = None, value: int = 0) -> Row:
    """A row of the ordinary table."""
    return (id_, group, id_ + 1, value)


NINE = tuple(row(number, number) for number in range(1, 10))


# Versions


def an_empty_table(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, ())
    with _first(harness) as (upstream, head):
        assert upstream.greatest(head) is None
        assert list(upstream.bounds(Split(None, None), 1, head)) == []
        assert harness.collect(upstream.rows(EVERYTHING, head)) == []
        assert upstream.estimate() >= 0
        upstream.check_keys(head)
        upstream.check(head)


def rows_at_the_head(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        assert upstream.readable(head)
        assert not upstream.pressing(head), "nothing has aged yet"
        assert upstream.lag_s(head) == 0.0
        kept = upstream.kept()
        assert kept is None or 0 <= kept.ours <= kept.total
        assert list(upstream.notices()) == []
        frame = upstream.rows(EVERYTHING, head)
        _same(harness.collect(frame), NINE)
        _same(harness.collect(frame), NINE)
        assert harness.collect(upstream.rows((), head)) == []
        assert upstream.estimate() >= 0


def a_head_stands_still(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        before = upstream.rows(EVERYTHING, head)
        harness.write([(NINE[0], None), (NINE[1], row(2, 9, 7)), (None, row(99, 99))])
        _same(harness.collect(before), NINE)
        _same(harness.collect(upstream.rows(EVERYTHING, head)), NINE)
        assert upstream.greatest(head) == Key((9, 9))
        upstream.check(head)


def a_version_lasts_or_ends_with_its_head(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, old):
        early = upstream.rows(EVERYTHING, old)
    harness.write([(NINE[0], None)])
    with _newest(harness) as (reader, _):
        assert reader.readable(old) is reader.lasting
        if reader.lasting:
            _same(harness.collect(reader.rows(EVERYTHING, old)), NINE)
            assert reader.greatest(old) == Key((9, 9))
    if reader.lasting:
        _same(harness.collect(early), NINE)
    else:
        assert not upstream.readable(old)
        raised(Unreadable, lambda: harness.collect(early))


def versions_are_newer_and_of_one_table(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.write([(NINE[0], None)])
    with _newest(harness) as (_, head):
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
    with _first(harness) as (upstream, head):
        assert not head.bases
        assert upstream.before("another table", 1) is None
        if isinstance(head.point, Number):
            assert upstream.before(head.identity, head.point.number) == head


def a_version_survives_json_and_a_restart(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    text = json.dumps(version_to_json(_begin(harness)))
    harness.write([(NINE[0], None)])
    old = version_from_json(json.loads(text))
    with _newest(harness) as (upstream, head):
        upstream.check(old)
        _assert_halves(harness, upstream.changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


def preparing_again_is_harmless(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.write([(NINE[0], None)])
    upstream = harness.upstream()
    upstream.prepare(None)
    upstream.prepare(None)
    with upstream.open_head(first=False) as head:
        _assert_halves(harness, upstream.changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


# Changes


def changes_of_every_kind_in_every_place(harness: UpstreamHarness[F]) -> None:
    after = [row(2, 7), row(3, 1), row(7, 2), row(6, 8), row(5, 9), row(9, 6), row(4, 4, 1), row(8, 8, 1), row(20, 3)]
    after += [row(21, 6), row(22, 30)]
    changes: list[Write] = [(_by_id(NINE).get(new[0]), new) for new in after]
    _assert_exact(harness, NINE, [[*changes, (NINE[0], None)]])


def a_row_moves_into_the_covered_part(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[5], row(6, 2))]])


def a_row_moves_out_of_the_covered_part(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[1], row(2, 6))]])


def a_row_moves_within_the_covered_part(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[1], row(2, 30))], [(NINE[2], row(3, 4))]])


def a_row_moves_outside_of_the_covered_part(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[5], row(6, 8))]])


def a_row_moves_across_and_back(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[1], row(2, 6))], [(row(2, 6), NINE[1])]])


def a_row_changes_its_key(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[1], row(50, 2)), (NINE[5], row(51, 6)), (NINE[6], row(52, 1))]])


def inserted_then_deleted(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(None, row(20, 1))], [(row(20, 1), None)]])


def deleted_then_inserted(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[0], None), (NINE[1], None)], [(None, NINE[0]), (None, row(2, 3, 5))]])


def updated_twice(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[0], row(1, 1, 5))], [(row(1, 1, 5), row(1, 1, 6))]])


def there_and_back(harness: UpstreamHarness[F]) -> None:
    _assert_exact(harness, NINE, [[(NINE[0], row(1, 1, 5))], [(row(1, 1, 5), NINE[0])]])


def a_walk_value_becomes_null_and_a_value_again(harness: UpstreamHarness[F]) -> None:
    before = (row(1, None), *NINE[1:])
    _assert_exact(harness, before, [[(before[0], row(1, 6)), (NINE[6], row(7, None)), (NINE[1], row(2, None))]])


def changes_have_their_interval(harness: UpstreamHarness[F]) -> None:
    """What came before `after` is not in, and what comes behind `upto` is not, even while it is read."""
    harness.create(ORDINARY, NINE)
    _begin(harness)
    harness.write([(NINE[0], row(1, 1, 5))])
    middle = _begin(harness)
    harness.write([(NINE[1], row(2, 2, 5))])
    with _newest(harness) as (upstream, head):
        halves = upstream.changes(middle, head, walk.whole())
        harness.write([(NINE[2], row(3, 3, 5)), (row(2, 2, 5), None)])
        before, after = (row(1, 1, 5), *NINE[1:]), (row(1, 1, 5), row(2, 2, 5), *NINE[2:])
        _assert_halves(harness, halves, before, after, walk.whole())
        _assert_halves(harness, upstream.changes(middle, head, walk.whole()), before, after, walk.whole())


def changes_add_up(harness: UpstreamHarness[F]) -> None:
    """Going by way of a version between gives the same as going at once."""
    harness.create(ORDINARY, NINE)
    history = [NINE, (*NINE[1:], row(20, 2)), (row(2, 7, 3), *NINE[2:], row(20, 2, 1))]
    old = _begin(harness)
    by_steps = _covered(NINE, PARTLY)
    for before, after in itertools.pairwise(history):
        harness.write(_writes(before, after))
        with _newest(harness) as (upstream, head):
            _forward(harness, by_steps, upstream.changes(old, head, PARTLY))
        old = head
        assert by_steps == _covered(after, PARTLY)


def changed_agrees_with_changes(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    start = _begin(harness)
    harness.write([(NINE[6], row(7, 8))])
    with _newest(harness) as (upstream, head):
        if upstream.changed(start, head, PARTLY) is Changed.NOTHING:
            _assert_halves(harness, upstream.changes(start, head, PARTLY), NINE, NINE, PARTLY)
        assert upstream.changed(start, head, walk.whole()) is not Changed.NOTHING
    harness.write([(NINE[0], None)])
    with _newest(harness) as (upstream, head):
        assert upstream.changed(start, head, PARTLY) is not Changed.NOTHING


def what_was_written_is_counted_if_at_all(harness: UpstreamHarness[F]) -> None:
    """A row that was changed may count as two."""
    harness.create(ORDINARY, NINE)
    start = _begin(harness)
    harness.write([(NINE[6], row(7, 8)), (NINE[0], None)])
    harness.write([(None, row(77, 1))])
    with _newest(harness) as (upstream, head):
        assert upstream.written(start, head) in (0, 3, 4)
        assert upstream.written(head, head) == 0
        assert upstream.written(start, head) == 0 or upstream.count(head) == len(NINE)


def a_commit_that_changes_no_row(harness: UpstreamHarness[F]) -> None:
    """Else an idle job would commit for ever."""
    harness.create(ORDINARY, NINE)
    start = _begin(harness)
    with _newest(harness) as (upstream, head):
        assert upstream.changed(start, head, walk.whole()) is Changed.NOTHING
    harness.stir()
    with _newest(harness) as (upstream, head):
        assert upstream.changed(start, head, walk.whole()) is Changed.NOTHING
        _assert_halves(harness, upstream.changes(start, head, walk.whole()), NINE, NINE, walk.whole())
        _same(harness.collect(upstream.rows(EVERYTHING, head)), NINE)


def truncate_is_a_change_of_all(harness: UpstreamHarness[F]) -> None:
    _needs(harness, Can.TRUNCATE)
    harness.create(ORDINARY, NINE)
    start = _begin(harness)
    harness.truncate()
    harness.write([(None, row(30, 2))])
    with _newest(harness) as (upstream, head):
        assert upstream.changed(start, head, PARTLY) is Changed.ALL
        assert harness.collect(upstream.rows(covered_ranges(PARTLY), head)) == [row(30, 2)]
    harness.write([(None, row(31, 3))])
    with _newest(harness) as (upstream, later):
        assert upstream.changed(head, later, PARTLY) is Changed.SOME, "the TRUNCATE lies behind"
        after = (row(30, 2), row(31, 3))
        _assert_halves(harness, upstream.changes(head, later, PARTLY), after[:1], after, PARTLY)


def a_backfill_among_writes(harness: UpstreamHarness[F]) -> None:
    """The whole idea by hand: forward by the old coverage, then take in the next chunk as of the new version."""
    table = [*NINE]
    harness.create(ORDINARY, table)
    with _first(harness) as (upstream, version):
        coverage = walk.start(upstream.greatest(version))
    target: dict[KeyValues, Row] = {}
    for after in _busy_history(table):
        harness.write(_writes(table, after))
        table = after
        with _newest(harness) as (upstream, head):
            _forward(harness, target, upstream.changes(version, head, coverage))
            coverage = _take_in(harness, upstream, coverage, head, target, rows=2)
        version = head
        assert target == _covered(table, coverage)
    assert walk.finished(coverage)


def _busy_history(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows wander up and down, come and go, and the end of the table grows."""
    now = _by_id(rows)
    for turn in range(8):
        for id_ in list(now):
            if (id_ + turn) % 3 == 0:
                now[id_] = row(id_, (id_ * 5 + turn * 4) % 11, turn)
        now.pop(turn + 1, None)
        now[100 + turn] = row(100 + turn, turn * 3 % 14)
        yield list(now.values())


# The walk


def bounds_can_be_used(harness: UpstreamHarness[F]) -> None:
    rows = [row(number, number % 6) for number in range(24)]
    harness.create(ORDINARY, rows)
    with _first(harness) as (upstream, head):
        begun = Split(Key((1, 7)), Key((5, 5)), Upto(Key((2, TOP))))
        for split in (Split(None, None), Split(None, Key((5, 23))), begun):
            left = walk.rest(split)
            assert left is not None
            bounds = list(upstream.bounds(split, 3, head))
            assert bounds, "keys that differ can be cut; else a chunk has no limit"
            assert bounds == sorted(set(bounds)), "ascending, each once"
            assert all(_inside(left, bound) for bound in bounds)
            assert walk.usable(split, bounds)
            assert list(upstream.bounds(split, 3, head)) == bounds


def bounds_end_with_the_split(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        assert list(upstream.bounds(Split(None, None), 9, head)) == [], "the last chunk is exactly full"
        assert list(upstream.bounds(Split(None, Key((9, 9))), 1000, head)) == []
        assert list(upstream.bounds(Split(Key((20, 1)), None), 1, head)) == []
        assert list(upstream.bounds(Split(None, None, DONE), 1, head)) == []


def chunk_by_chunk_whatever_their_size(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    for size in (1, 2, 3, 9, 1000):
        _assert_walk(harness, ORDINARY, NINE, size)


def one_row(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE[:1])
    _assert_walk(harness, ORDINARY, NINE[:1], 1)


def many_rows_in_one_group(harness: UpstreamHarness[F]) -> None:
    """The leading walk column alone cannot cut them; the key columns behind it can."""
    rows = [row(number, 3) for number in range(8)]
    harness.create(ORDINARY, rows)
    _assert_walk(harness, ORDINARY, rows, 3)
    with _newest(harness) as (upstream, head):
        assert upstream.bounds(Split(None, None), 3, head)


def several_ranges_at_once(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        ranges = (Range(None, Key((2, TOP))), Range(Key((4, 4)), Key((5, 5))), Range(Key((7, TOP)), None))
        found = harness.collect(upstream.rows(ranges, head))
        _same(found, [NINE[0], NINE[1], NINE[4], NINE[7], NINE[8]])


def the_greatest_key_follows_the_rows(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, (row(1, None), row(2, None)))
    with _first(harness) as (upstream, head):
        assert upstream.greatest(head) == Key((None, 2))
    harness.write([(row(1, None), row(1, -5)), (None, row(3, -5))])
    with _newest(harness) as (upstream, head):
        assert upstream.greatest(head) == Key((-5, 3))
    harness.write([(row(3, -5), None)])
    with _newest(harness) as (upstream, head):
        assert upstream.greatest(head) == Key((-5, 1))


# Loud


def another_table_under_the_name(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        assert head.identity != old.identity
        upstream.check(head)
        error = raised(UpstreamReplaced, lambda: upstream.check(old))
        assert error.hint, "the one who reads it needs to know what to do"


def lost_history(harness: UpstreamHarness[F]) -> None:
    _needs(harness, Can.LOSE_HISTORY)
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
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
    _needs(harness, Can.LOSE_HISTORY)
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.write([(NINE[0], row(1, 1, 5)), (NINE[1], None)])
    after = (row(1, 1, 5), *NINE[2:])
    with _newest(harness) as (upstream, head):
        halves = upstream.changes(old, head, walk.whole())
        frame = upstream.rows(EVERYTHING, old if upstream.lasting else head)
        harness.lose_history()
        with suppress(Unreadable, HistoryGone):
            _same(harness.collect(frame), NINE if upstream.lasting else after)
        with suppress(Unreadable, HistoryGone):
            _assert_halves(harness, halves, NINE, after, walk.whole())


def a_key_that_is_there_twice(harness: UpstreamHarness[F]) -> None:
    _needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, [*NINE, row(4711, 1), row(4711, 8)])
    with _first(harness) as (upstream, head):
        error = raised(KeyNotUnique, lambda: upstream.check_keys(head))
        assert "4711" in str(error), "it names the key"


def a_key_that_is_null(harness: UpstreamHarness[F]) -> None:
    _needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, [*NINE, (None, 1, 1, 1)])
    with _first(harness) as (upstream, head):
        raised(KeyNotUnique, lambda: upstream.check_keys(head))


def keys_are_checked_at_their_version(harness: UpstreamHarness[F]) -> None:
    _needs(harness, Can.HOLD_DUPLICATES)
    harness.create(ORDINARY, NINE)
    with _first(harness) as (upstream, head):
        harness.write([(None, row(1, 7))])
        upstream.check_keys(head)


# Release


def release_keeps_what_is_still_needed(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.write([(NINE[0], None)])
    middle = _begin(harness)
    harness.write([(NINE[1], None)])
    with _newest(harness) as (upstream, head):
        for version in (middle, middle, old):
            upstream.release(version)
        upstream.check(middle)
        _assert_halves(harness, upstream.changes(middle, head, walk.whole()), NINE[1:], NINE[2:], walk.whole())
        upstream.release(head)
        upstream.release(head)
        upstream.check(head)


def an_idle_release_outlives_a_restart(harness: UpstreamHarness[F]) -> None:
    """An idle job lets go of history without a commit of its target, whose version then is an old one."""
    harness.create(ORDINARY, NINE)
    old = _begin(harness)
    harness.stir()
    with _newest(harness) as (upstream, idle):
        upstream.release(idle)
        upstream.check(old)
    harness.write([(NINE[0], None)])
    again = harness.upstream()
    again.prepare(idle)
    again.check(old)
    with again.open_head(first=False) as head:
        _assert_halves(harness, again.changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


# The order of keys


@dataclass(frozen=True, slots=True)
class OrderCase:
    """Keys (or walk values) in the order that every part has to agree on."""

    name: str
    layout: Layout
    rows: tuple[Row, ...]


def _keys(name: str, kinds: Sequence[Kind], *keys: KeyValues) -> OrderCase:
    """A table whose key is the walk."""
    columns = (*((f"k{number}", kind) for number, kind in enumerate(kinds)), ("value", Kind.INT))
    places = tuple(range(len(kinds)))
    rows = tuple((*key, number) for number, key in enumerate(keys))
    return OrderCase(name, Layout(columns, key=places, walk=places), rows)


def _places(name: str, kind: Kind, *places: Value) -> OrderCase:
    """A table that is walked along a column that is not its key, so that it may be NULL and may repeat itself."""
    layout = Layout((("id", Kind.INT), ("place", kind), ("value", Kind.INT)), key=(0,), walk=(1, 0))
    rows = tuple((number, place, -number) for number, place in enumerate(places))
    return OrderCase(name, layout, rows)


def _one(*values: Value) -> tuple[KeyValues, ...]:
    return tuple((value,) for value in values)


ASCII = ("", "\t", " ", " a", '"', "%_", "10", "9", "A", "B", "\\", "a", "a\nb", "a ", "a a", "aa", "b")
BEYOND = (
    "e\u0301",
    "o'brien",
    "ß",
    "é",
    "注",
    "\ud7ff",
    "\ue000",
    "\uff5e",
    "\ufffd",
    "\U00010000",
    "🌊",
    "\U0010ffff",
)
BYTES = (b"", b"\x00", b"\x00\x00", b"\x00\x01", b"'", b"a", b"a\x00", b"aa", b"\x7f", b"\x80", b"\xff", b"\xff\x00")
DECIMALS = ("-12345678901234567890", "-10", "-9.5", "-1.10", "-1.05", "-0.0000000001", "0.00", "0.1", "1.05", "1.1")
DECIMALS_ABOVE = ("1.1000000001", "2", "9.50", "1E+1", "10.1", "12345678901234567890.0123456789")
DAYS = ("1500-02-28", "1582-10-04", "1900-01-01", "1969-12-31", "1970-01-01", "9999-12-31")
DATES = tuple(map(date.fromisoformat, DAYS))
YEAR_1, YEAR_1900, YEAR_9999 = -62_135_596_800_000_000, -2_208_988_800_000_001, 253_402_300_799_999_999
MOMENTS = (YEAR_1, YEAR_1900, -1_000_000, -999_999, -1, 0, 1, 10**6, YEAR_9999)

ORDER_CASES = (
    _keys("integers", [Kind.INT], *_one(-(2**63), -10, -9, -1, 0, 1, 9, 10, 2**63 - 1)),
    _keys("text", [Kind.TEXT], *_one(*ASCII, *BEYOND)),
    _keys("bytes", [Kind.BYTES], *_one(*BYTES)),
    _keys("decimals", [Kind.DECIMAL], *_one(*map(Decimal, DECIMALS + DECIMALS_ABOVE))),
    _keys("dates", [Kind.DATE], *_one(*DATES)),
    _keys("timestamps", [Kind.TIMESTAMP], *_one(*map(Timestamp, MOMENTS))),
    _keys("booleans", [Kind.BOOL, Kind.INT], (False, 1), (False, 2), (True, -1), (True, 1)),
    _keys(
        "composite keys",
        [Kind.TEXT, Kind.INT, Kind.DATE],
        ("", 2, DATES[2]),
        ("a", -1, DATES[4]),
        ("a", 2, DATES[3]),
        ("a", 10, DATES[0]),
        ("a", 10, DATES[1]),
        ("a,1", 0, DATES[0]),
        ("b", 0, DATES[0]),
    ),
    _places("integers or null", Kind.INT, None, None, -1, -1, 0, 0, 1),
    _places("text or null", Kind.TEXT, None, None, "", "", "a", "\uffff", "\U00010000"),
    _places("decimals or null", Kind.DECIMAL, None, Decimal("-0.5"), Decimal(0), Decimal("0.50"), Decimal("0.50")),
    _places("timestamps or null", Kind.TIMESTAMP, None, Timestamp(-1), Timestamp(-1), Timestamp(0)),
    _places("booleans or null", Kind.BOOL, None, None, False, False, True),
    _places("bytes or null", Kind.BYTES, None, b"", b"\x00", b"\x80"),
)


def _walks_in_order(case: OrderCase) -> UpstreamTest:
    """Every row comes exactly once, and the adapter's filter says of each row what the coverage rule says."""

    def test(harness: UpstreamHarness[Any]) -> None:
        places = [case.layout.walk_of(row) for row in case.rows]
        assert places == sorted(places), "the case itself"
        harness.create(case.layout, case.rows[::-1])
        with _first(harness) as (upstream, head):
            assert upstream.greatest(head) == places[-1]
            for number, place in enumerate(places[:-1]):
                coverage = (Split(None, None, Upto(place)),)
                assert [covers(coverage, other) for other in places].count(True) == number + 1
                _same(harness.collect(upstream.rows(covered_ranges(coverage), head)), case.rows[: number + 1])
                _same(harness.collect(upstream.rows((Range(place, None),), head)), case.rows[number + 1 :])
        for size in (1, 3):
            _assert_walk(harness, case.layout, case.rows, size)

    test.__name__ = "walks_" + case.name.replace(" ", "_")
    return test


def groups_end_whole(harness: UpstreamHarness[F]) -> None:
    """A bound with +inf behind its first values ends everything that begins with them."""
    rows = [row(number, group) for number, group in enumerate((None, None, -1, -1, 0, 7, 7))]
    harness.create(ORDINARY, rows)
    with _first(harness) as (upstream, head):
        for count, group in ((2, None), (4, -1), (5, 0), (7, 7)):
            end = Key((group, TOP))
            _same(harness.collect(upstream.rows((Range(None, end),), head)), rows[:count])
            _same(harness.collect(upstream.rows((Range(end, None),), head)), rows[count:])
        assert harness.collect(upstream.rows((Range(None, Key((TOP,))),), head)), "behind everything"


def changes_know_the_order_too(harness: UpstreamHarness[F]) -> None:
    """The same rule judges rows and changes: text beyond the basic plane, and NULL."""
    case = next(case for case in ORDER_CASES if case.name == "text or null")
    for last in (1, 3, 5):
        coverage = (Split(None, None, Upto(case.layout.walk_of(case.rows[last]))),)
        harness.create(case.layout, case.rows)
        old = _begin(harness)
        after = [(*old_row[:2], 99) for old_row in case.rows]
        harness.write(list(zip(case.rows, after, strict=True)))
        with _newest(harness) as (upstream, head):
            halves = upstream.changes(old, head, coverage)
            _assert_halves(harness, halves, case.rows, after, coverage, case.layout)


# How it is checked


@contextmanager
def _first(harness: UpstreamHarness[F]) -> Iterator[tuple[Upstream[F], Version]]:
    upstream = harness.upstream()
    upstream.prepare(None)
    with upstream.open_head(first=True) as version:
        yield upstream, version


@contextmanager
def _newest(harness: UpstreamHarness[F]) -> Iterator[tuple[Upstream[F], Version]]:
    upstream = harness.upstream()
    upstream.prepare(None)
    with upstream.open_head(first=False) as version:
        yield upstream, version


def _begin(harness: UpstreamHarness[F]) -> Version:
    with _first(harness) as (_, version):
        return version


def _assert_exact(harness: UpstreamHarness[F], before: Sequence[Row], transactions: Sequence[Sequence[Write]]) -> None:
    """The changes of these transactions, judged by any coverage, are what they have to be."""
    harness.create(ORDINARY, before)
    old = _begin(harness)
    now = _by_id(before)
    for changes in transactions:
        harness.write(changes)
        for gone, _ in changes:
            now.pop(gone[0] if gone else None, None)
        now.update(_by_id(new for _, new in changes if new))
    after = tuple(now.values())
    with _newest(harness) as (upstream, head):
        for coverage in (PARTLY, walk.whole(), (Split(None, None),)):
            _assert_halves(harness, upstream.changes(old, head, coverage), before, after, coverage)
            differ = _covered(before, coverage) != _covered(after, coverage)
            assert not differ or upstream.changed(old, head, coverage) is not Changed.NOTHING


def _assert_halves(
    harness: UpstreamHarness[F],
    halves: Halves[F],
    before: Sequence[Row],
    after: Sequence[Row],
    coverage: Coverage,
    layout: Layout = ORDINARY,
) -> None:
    old, new = _covered(before, coverage, layout), _covered(after, coverage, layout)
    added = harness.collect(halves.added)
    if halves.images:
        kept = set(before) & set(after)
        removed = harness.collect(halves.removed)
        assert halves.removes or not removed, "it is said that there is nothing"
        _same(removed, [image for image in old.values() if image not in kept])
        _same(added, [image for image in new.values() if image not in kept])
        return
    keys = harness.collect_keys(halves.removed)
    if halves.lead is not None:
        leads = sorted(lead for lead, *_ in keys if isinstance(lead, int))
        assert halves.lead == (leads[0], leads[-1])
        assert len(leads) == len(keys)
    changed = {layout.key_of(image) for image in set(before) ^ set(after)}
    assert len(keys) == len(set(keys)), "each key once"
    assert changed <= set(keys), f"changes of {changed - set(keys)} are missing"
    _same(added, [image for key, image in new.items() if key in keys])


def _forward(harness: UpstreamHarness[F], target: dict[KeyValues, Row], halves: Halves[F]) -> None:
    """Apply the halves as a replica does."""
    if halves.images:
        for image in harness.collect(halves.removed):
            assert target.pop(ORDINARY.key_of(image)) == image, "what is removed was there"
    else:
        for key in harness.collect_keys(halves.removed):
            target.pop(key, None)
    for image in harness.collect(halves.added):
        assert ORDINARY.key_of(image) not in target, "what is added was not there"
        target[ORDINARY.key_of(image)] = image


def _take_in(
    harness: UpstreamHarness[F],
    upstream: Upstream[F],
    coverage: Coverage,
    at: Version,
    target: dict[KeyValues, Row],
    rows: int,
) -> Coverage:
    """The coverage with the next chunk of its first unfinished split, whose rows are now in the target."""
    for split in walk.unfinished(coverage)[:1]:
        chunk = _next_chunk(upstream, split, rows, at)
        for image in harness.collect(upstream.rows((chunk,), at)):
            assert ORDINARY.key_of(image) not in target, "no row is read twice"
            target[ORDINARY.key_of(image)] = image
        return walk.union(coverage, [chunk])
    return coverage


def _next_chunk(upstream: Upstream[F], split: Split, rows: int, at: Version) -> Range:
    bounds = walk.usable(split, [_through_json(bound) for bound in upstream.bounds(split, rows, at)])
    left = walk.rest(split)
    assert left is not None
    return Range(left.after, bounds[0] if bounds else left.upto)


def _assert_walk(harness: UpstreamHarness[F], layout: Layout, rows: Sequence[Row], size: int) -> None:
    """Chunk by chunk to the end gives every row exactly once, each in its place."""
    found: list[Row] = []
    with _newest(harness) as (upstream, head):
        greatest = upstream.greatest(head)
        coverage = walk.start(None if greatest is None else _through_json(greatest))
        for _ in range(CHUNKS_MAX):
            if walk.finished(coverage):
                break
            chunk = _next_chunk(upstream, walk.unfinished(coverage)[0], size, head)
            part = harness.collect(upstream.rows((chunk,), head))
            assert all(_inside(chunk, layout.walk_of(image)) for image in part)
            found += part
            coverage = walk.union(coverage, [chunk])
    assert walk.finished(coverage), "the walk does not end"
    _same(found, rows)


def _through_json(key: Key) -> Key:
    """A key as the next process reads it from the state."""
    back = key_from_json(json.loads(json.dumps(key_to_json(key))))
    assert back == key
    return back


def _inside(range_: Range, key: Key) -> bool:
    return (range_.after is None or range_.after < key) and (range_.upto is None or key <= range_.upto)


def _covered(rows: Iterable[Row], coverage: Coverage, layout: Layout = ORDINARY) -> dict[KeyValues, Row]:
    return {layout.key_of(image): image for image in rows if covers(coverage, layout.walk_of(image))}


def _by_id(rows: Iterable[Row]) -> dict[Any, Row]:
    return {image[0]: image for image in rows}


def _writes(before: Iterable[Row], after: Iterable[Row]) -> list[Write]:
    """The transaction that leads from one to the other."""
    old: Mapping[Value, Row] = _by_id(before)
    new: Mapping[Value, Row] = _by_id(after)
    pairs = [(old.get(id_), new.get(id_)) for id_ in {**old, **new}]
    return [(gone, come) for gone, come in pairs if gone != come]


def _same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows, as often, in any order."""
    there, wanted = Counter(found), Counter(expected)
    assert there == wanted, f"missing {list((wanted - there).elements())}, too much {list((there - wanted).elements())}"


def _needs(harness: UpstreamHarness[F], can: Can) -> None:
    if can not in harness.capabilities:
        raise SkipTest(f"the system cannot {can.value}")


UPSTREAM_SUITE: tuple[UpstreamTest, ...] = (
    an_empty_table,
    rows_at_the_head,
    a_head_stands_still,
    a_version_lasts_or_ends_with_its_head,
    versions_are_newer_and_of_one_table,
    one_reader_goes_from_head_to_head,
    a_table_of_others_comes_from_itself,
    a_version_survives_json_and_a_restart,
    preparing_again_is_harmless,
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
    bounds_can_be_used,
    bounds_end_with_the_split,
    chunk_by_chunk_whatever_their_size,
    one_row,
    many_rows_in_one_group,
    several_ranges_at_once,
    the_greatest_key_follows_the_rows,
    another_table_under_the_name,
    lost_history,
    lost_history_is_never_read_wrong,
    a_key_that_is_there_twice,
    a_key_that_is_null,
    keys_are_checked_at_their_version,
    release_keeps_what_is_still_needed,
    an_idle_release_outlives_a_restart,
    groups_end_whole,
    changes_know_the_order_too,
    *map(_walks_in_order, ORDER_CASES),
)
