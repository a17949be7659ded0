"""The table that most tests of upstreams use, its rows, and how rows are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tidefill.core.keys import TOP, Key, Value
from tidefill.core.walk import DONE, Coverage, Range, Split, Upto, covers
from tidefill.testing.conformance.upstream.harness import KeyValues, Kind, Layout, Row, Write

EVERYTHING = (Range(None, None),)
ORDINARY = Layout((("id", Kind.INT), ("grp", Kind.INT), ("ref", Kind.INT), ("value", Kind.INT)), key=(0,), walk=(1, 0))
# Of groups 1 to 9 those up to 4 are covered, and what lies behind the end.
PARTLY: Coverage = (Split(None, Key((8, TOP)), Upto(Key((4, TOP)))), Split(Key((8, TOP)), None, DONE))


def row(id_: int, group: int | None = None, value: int = 0) -> Row:
    """A row of the ordinary table."""
    return (id_, group, id_ + 1, value)


NINE = tuple(row(number, number) for number in range(1, 10))


def covered(rows: Iterable[Row], coverage: Coverage, layout: Layout = ORDINARY) -> dict[KeyValues, Row]:
    return {layout.key_of(image): image for image in rows if covers(coverage, layout.walk_of(image))}


def by_id(rows: Iterable[Row]) -> dict[Any, Row]:
    return {image[0]: image for image in rows}


def writes_between(before: Iterable[Row], after: Iterable[Row]) -> list[Write]:
    """The transaction that leads from one to the other."""
    old: Mapping[Value, Row] = by_id(before)
    new: Mapping[Value, Row] = by_id(after)
    pairs = [(old.get(id_), new.get(id_)) for id_ in {**old, **new}]
    return [(gone, come) for gone, come in pairs if gone != come]


def assert_same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows, as often, in any order."""
    there, wanted = Counter(found), Counter(expected)
    assert there == wanted, f"missing {list((wanted - there).elements())}, too much {list((there - wanted).elements())}"
