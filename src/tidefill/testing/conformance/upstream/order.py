"""Tests of the order of keys: the upstream, the coverage rule and the filters agree on it for every type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from tidefill.core.keys import TOP, Key, Timestamp, Value
from tidefill.core.walk import Range, Split, Upto, covered_ranges, covers
from tidefill.testing.conformance.upstream.checks import (
    assert_changes,
    assert_walk,
    first_version,
    greatest_of,
    open_first,
    open_newest,
)
from tidefill.testing.conformance.upstream.harness import F, KeyValues, Kind, Layout, Row, UpstreamHarness, UpstreamTest
from tidefill.testing.conformance.upstream.rows import ORDINARY, assert_same, row


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
        with open_first(harness) as (upstream, head):
            assert greatest_of(upstream, head) == places[-1]
            for number, place in enumerate(places[:-1]):
                coverage = (Split(None, None, Upto(place)),)
                assert [covers(coverage, other) for other in places].count(True) == number + 1
                assert_same(harness.collect(upstream.rows(covered_ranges(coverage), head)), case.rows[: number + 1])
                assert_same(harness.collect(upstream.rows((Range(place, None),), head)), case.rows[number + 1 :])
        for size in (1, 3):
            assert_walk(harness, case.layout, case.rows, size)

    test.__name__ = "walks_" + case.name.replace(" ", "_")
    return test


def groups_end_whole(harness: UpstreamHarness[F]) -> None:
    """A bound with +inf behind its first values ends everything that begins with them."""
    rows = [row(number, group) for number, group in enumerate((None, None, -1, -1, 0, 7, 7))]
    harness.create(ORDINARY, rows)
    with open_first(harness) as (upstream, head):
        for count, group in ((2, None), (4, -1), (5, 0), (7, 7)):
            end = Key((group, TOP))
            assert_same(harness.collect(upstream.rows((Range(None, end),), head)), rows[:count])
            assert_same(harness.collect(upstream.rows((Range(end, None),), head)), rows[count:])
        assert harness.collect(upstream.rows((Range(None, Key((TOP,))),), head)), "behind everything"


def changes_know_the_order_too(harness: UpstreamHarness[F]) -> None:
    """The same rule judges rows and changes: text beyond the basic plane, and NULL."""
    case = next(case for case in ORDER_CASES if case.name == "text or null")
    for last in (1, 3, 5):
        coverage = (Split(None, None, Upto(case.layout.walk_of(case.rows[last]))),)
        harness.create(case.layout, case.rows)
        old = first_version(harness)
        after = [(*old_row[:2], 99) for old_row in case.rows]
        harness.write(list(zip(case.rows, after, strict=True)))
        with open_newest(harness) as (upstream, head):
            changes = upstream.read_changes(old, head, coverage)
            assert_changes(harness, changes, case.rows, after, coverage, case.layout)


ORDER: tuple[UpstreamTest, ...] = (
    groups_end_whole,
    changes_know_the_order_too,
    *map(_walks_in_order, ORDER_CASES),
)
