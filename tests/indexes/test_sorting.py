"""Who sorts, and where a table is cut: pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import InvalidSetting
from tidefill.indexes import sorting
from tidefill.indexes.shape import Column, Shape
from tidefill.indexes.sorting import Sort, between, chosen, cuts, entry_texts, ranges_for, shares
from tidefill.indexes.states import Method


def shape_of(*types: str, unique: bool = True) -> Shape:
    keys = tuple(Column(f"c{at}", kind, number=at) for at, kind in enumerate(types, 1))
    return Shape("ix", "x", "public", "t", 7, (Column("id", "bigint", number=9),), keys, keys, unique=unique)


@pytest.mark.parametrize("method", list(Method))
def test_the_server_sorts_unless_spark_is_asked_for(method: Method) -> None:
    assert chosen(None, method)[0] is Sort.SERVER


@pytest.mark.parametrize("asked", ["spark", "server", "none"])
def test_who_asks_is_heard(asked: str) -> None:
    assert chosen(asked, Method.BULK)[0] is Sort(asked)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="bulk"):
        chosen("spark", Method.INITPUT)
    assert chosen("none", Method.INITPUT)[0] is Sort.NONE


def test_there_are_as_many_ranges_as_the_table_needs() -> None:
    assert [ranges_for(rows) for rows in (0, 1, 250_000, 250_001, 10**9)] == [1, 1, 1, 2, sorting.RANGES_MAX]


def test_cuts_are_in_the_order_of_the_type() -> None:
    numbers = [(str(number), None) for number in range(100)]
    assert cuts(shape_of("integer"), numbers, 4) == [("25", None), ("50", None), ("75", None)]
    assert cuts(shape_of("text"), numbers, 2) == [("54", None)], "as texts, 5 comes after 49"


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.just("1")), max_size=50), st.integers(1, 9))
def test_cuts_differ_and_rise(sampled: list[tuple[str | None, str | None]], ranges: int) -> None:
    found = cuts(shape_of("text"), sampled, ranges)
    assert len(found) < ranges or not found
    assert len(set(found)) == len(found)
    assert set(found) <= set(sampled)
    places = [tuple(b"" if text is None else b"x" + text.encode() for text in one) for one in found]
    assert places == sorted(places)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 99)), max_size=8), st.integers(0, 99))
def test_halves_of_ranges_have_each_entry_once(wished: list[tuple[int, int]], key: int) -> None:
    """Ranges 0 and 1 are cut again and again; `key` is an entry of range 1."""
    halved, whole = list[tuple[int, sorting.Texts, int]](), {0, 1}
    for at, place in wished:
        number = sorted(whole)[at % len(whole)]
        first = 2 + 2 * len(halved)
        halved.append((number, (f"{place:02}",), first))
        whole = (whole - {number}) | {first, first + 1}
    found = shares([0, 1], halved[::-1])
    assert set(found) == whole

    def has(share: sorting.Share) -> bool:
        return share.root == 1 and all((f"{key:02}" >= str(place[0])) is above for above, place in share.bounds)

    assert sum(map(has, found.values())) == 1


def test_values_travel_as_their_types_write_them() -> None:
    text = entry_texts([shape_of("character varying(20)", "public.mood"), shape_of("integer")])
    assert "z0.k1::text AS k1_0" in text
    assert "pg_catalog.format('%s', z0.k2) END AS k2_0" in text
    assert "z1.k1::text AS k1_1" in text
    assert text.endswith("WHERE z0.ok OR z1.ok")


def test_bounds_are_literals_of_the_key() -> None:
    shape = shape_of("text")
    assert between(shape, None, None) == "true"
    assert between(shape, ("7",), ("9",)) == "true AND (b1) > ('7'::bigint) AND (b1) <= ('9'::bigint)"
