"""Key order: total, the same for everybody, and kept by JSON."""

import itertools
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.keys import TOP, Key, Timestamp, Value, end_of_group, key_from_json, key_to_json
from tidefill.errors import StateUnreadable, UnsupportedKey

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
COLUMN_TYPES: tuple[st.SearchStrategy[Any], ...] = (
    st.integers(),
    DECIMALS,
    TEXT,
    st.binary(max_size=4),
    st.dates(),
    st.integers(-(10**18), 10**18).map(Timestamp),
    st.booleans(),
)


@st.composite
def alike(draw: st.DrawFn, number: int) -> list[Key]:
    """So many keys of one walk: every column has its type and may be NULL; a key may break off with TOP."""
    columns = draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=3))
    return [draw(_key(columns)) for _ in range(number)]


@st.composite
def _key(draw: st.DrawFn, columns: list[st.SearchStrategy[Any]]) -> Key:
    values: list[Value] = []
    for column in columns:
        value = draw(st.one_of(column, column, column, st.none(), st.just(TOP)))
        values.append(value)
        if value is TOP:
            break
    return Key(tuple(values))


def _column_order(a: Value, b: Value) -> int:
    """-1, 0 or 1: the stated order of two values of a column, said in another way than the code says it."""
    places = [0 if value is None else 2 if value is TOP else 1 for value in (a, b)]
    if places != [1, 1]:
        return (places[0] > places[1]) - (places[0] < places[1])
    left: Any = a.encode() if isinstance(a, str) else a.micros if isinstance(a, Timestamp) else a
    right: Any = b.encode() if isinstance(b, str) else b.micros if isinstance(b, Timestamp) else b
    return int(left > right) - int(left < right)


def test_null_is_first_and_top_is_last() -> None:
    keys = [Key((value,)) for value in (None, -(10**30), -1, 0, 10**30, TOP)]
    assert all(a < b for a, b in itertools.pairwise(keys))


def test_columns_are_compared_one_after_the_other() -> None:
    keys = [Key(values) for values in ((None, 9), (1, None), (1, 2), (1, TOP), (2, None), (TOP,))]
    assert all(a < b for a, b in itertools.pairwise(keys))


def test_text_beyond_the_basic_plane_is_behind_it() -> None:
    # UTF-16 would put the emoji, which it writes with surrogates, before U+FF5E.
    assert Key(("\uff5e",)) < Key(("🌊",))
    assert Key(("Z",)) < Key(("a",)) < Key(("ä",))


def test_decimals_are_equal_by_value() -> None:
    assert Key((Decimal("1.10"),)) == Key((Decimal("1.1"),))
    assert hash(Key((Decimal("1.10"),))) == hash(Key((Decimal("1.1"),)))
    assert Key((Decimal("-0"),)) == Key((Decimal(0),))
    assert Key((Decimal("1.10"),)) < Key((Decimal("1.11"),))


def test_a_timestamp_is_the_same_in_every_time_zone() -> None:
    east = timezone(timedelta(hours=9))
    assert Timestamp.of(datetime(1970, 1, 1, 9, tzinfo=east)) == Timestamp(0)
    assert Timestamp.of(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == Timestamp(-1)
    assert Timestamp.of(datetime(1970, 1, 2)) == Timestamp(86_400_000_000)


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), datetime(2020, 1, 1), timedelta(1), (1,), [1], {"a": 1}, object()], ids=repr
)
def test_values_without_an_agreed_order_are_refused(value: Any) -> None:
    with pytest.raises(UnsupportedKey) as caught:
        Key((1, value))
    assert caught.value.hint


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_decimals_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedKey):
        Key((Decimal(text),))


def test_the_end_of_a_group_lies_behind_all_of_it() -> None:
    day, next_day = date(2024, 2, 29), date(2024, 3, 1)
    end = end_of_group(Key((day, "x", 5)), 1)
    assert end == Key((day, TOP))
    assert Key((day, "\U0010ffff" * 9, 10**40)) < end < Key((next_day, None, None))


def test_a_key_is_shown_as_a_person_reads_it() -> None:
    assert repr(Key((1, "a", None, TOP))) == "(1, 'a', None, +inf)"


def test_a_key_is_equal_to_keys_only() -> None:
    assert Key((1,)) != (1,)
    assert Key((1,)) != Key((1, None))


@given(alike(2))
def test_the_order_is_the_stated_one(keys: list[Key]) -> None:
    a, b = keys
    orders = [order for order in map(_column_order, a.values, b.values) if order]
    lengths = (len(a.values) > len(b.values)) - (len(a.values) < len(b.values))
    order = orders[0] if orders else lengths
    assert [a < b, a == b, a > b] == [order < 0, order == 0, order > 0]
    assert [a <= b, a >= b, a != b] == [order <= 0, order >= 0, order != 0]
    if order == 0:
        assert hash(a) == hash(b)


@given(alike(3))
def test_the_order_is_transitive(keys: list[Key]) -> None:
    a, b, c = sorted(keys)
    assert a <= b <= c
    assert a <= c


@given(st.lists(TEXT))
def test_text_has_the_order_of_its_bytes(texts: list[str]) -> None:
    by_key = sorted(texts, key=lambda text: Key((text,)))
    assert by_key == sorted(texts, key=lambda text: text.encode("utf-8"))


@given(alike(2))
def test_json_keeps_equality_and_order(keys: list[Key]) -> None:
    a, b = keys
    a_again, b_again = (key_from_json(json.loads(json.dumps(key_to_json(key)))) for key in keys)
    assert isinstance(a_again, Key)
    assert isinstance(b_again, Key)
    assert (a_again, b_again) == (a, b)
    assert (a_again < b_again) == (a < b)
    assert [type(value) for value in a_again.values] == [type(value) for value in a.values]


@given(alike(1), st.integers(1, 3))
def test_the_end_of_a_group_is_behind_its_members_only(keys: list[Key], columns: int) -> None:
    (key,) = keys
    if TOP not in key.values:
        end = end_of_group(key, columns)
        assert key < end or columns > len(key.values)
        assert end.values[:-1] == key.values[:columns]


def test_no_key_is_no_key_in_json_too() -> None:
    assert key_to_json(None) is None
    assert key_from_json(None) is None


@pytest.mark.parametrize(
    "data",
    [
        5,
        True,
        "text",
        [5],
        [[]],
        [["int"]],
        [["int", "5"]],
        [["int", True]],
        [["int", 1.0]],
        [["float", 1.0]],
        [["bool", 1]],
        [["timestamp", True]],
        [["timestamp", "now"]],
        [["decimal", "NaN"]],
        [["decimal", "a lot"]],
        [["decimal", 5]],
        [["bytes", "xyz"]],
        [["date", "2023-02-29"]],
        [["null", 0]],
        [["top", 0]],
        [["int", 1, 2]],
        [[["int"], 1]],
    ],
    ids=repr,
)
def test_a_damaged_key_is_named(data: Any) -> None:
    with pytest.raises(StateUnreadable):
        key_from_json(data)


JSON = st.recursive(
    st.sampled_from([None, True, 0, 5, -1.5, "", "a", "1", "int", "text", "null", "top", "date", "decimal", "bytes"]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=8,
)


@given(JSON)
def test_whatever_comes_is_a_key_or_unreadable(data: Any) -> None:
    try:
        key = key_from_json(data)
    except StateUnreadable:
        return
    assert key is None or isinstance(key, Key)
