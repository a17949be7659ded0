"""The one place that decides key order.

A key is a tuple of values, compared column by column: NULL first, text bytewise (which for UTF-8 is the order of code
points, the order in which Python compares `str`), everything else by value. `TOP` is greater than any value and ends
the comparison, so `Key((day, TOP))` lies behind every key of that day whatever columns follow.

Values whose order differs between systems (floats, NaN, intervals, nested values) are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

from tidefill.errors import StateUnreadable, UnsupportedKey

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time in microseconds since 1970-01-01 00:00 UTC; wider than `datetime`, and free of time zones."""

    micros: int

    @classmethod
    def of(cls, moment: datetime) -> Timestamp:
        """The timestamp of an aware datetime, or of a naive one read as UTC."""
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return cls((aware - EPOCH) // timedelta(microseconds=1))


class Top(Enum):
    """The type of TOP."""

    TOP = "top"


TOP = Top.TOP
Value: TypeAlias = bool | int | Decimal | str | bytes | date | Timestamp | Top | None
_VALUE_TYPES = frozenset({type(None), bool, int, Decimal, str, bytes, date, Timestamp})
_NULL_RANK = (0,)
_TOP_RANK = (2,)


class Key:
    """An immutable key with the order that the module states."""

    __slots__ = ("_rank", "values")

    def __init__(self, values: tuple[Value, ...]) -> None:
        self.values = values
        self._rank: tuple[Any, ...] = tuple([_rank(value) for value in values])

    def __lt__(self, other: Key) -> bool:
        return self._rank < other._rank

    def __le__(self, other: Key) -> bool:
        return self._rank <= other._rank

    def __gt__(self, other: Key) -> bool:
        return self._rank > other._rank

    def __ge__(self, other: Key) -> bool:
        return self._rank >= other._rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self._rank == other._rank

    def __hash__(self) -> int:
        return hash(self._rank)

    def __repr__(self) -> str:
        return "(" + ", ".join("+inf" if value is TOP else repr(value) for value in self.values) + ")"


def _rank(value: Value) -> tuple[Any, ...]:
    if value is None:
        return _NULL_RANK
    if value is TOP:
        return _TOP_RANK
    if type(value) not in _VALUE_TYPES:
        raise UnsupportedKey(
            f"a value of type {type(value).__name__} cannot be part of a key",
            hint="Use columns of type integer, decimal, text, bytes, date, timestamp or boolean.",
        )
    if type(value) is Decimal and not value.is_finite():
        raise UnsupportedKey(f"the decimal {value} has no place in the order of keys")
    return (1, value)


END = Key((TOP,))  # behind every key


def end_of_group(key: Key, columns: int) -> Key:
    """The bound behind every key that shares the first `columns` values with `key`."""
    return Key((*key.values[:columns], TOP))


def key_to_json(key: Key | None) -> list[list[Any]] | None:
    """A key as JSON, each value with a tag of its type."""
    return None if key is None else [_value_to_json(value) for value in key.values]


def key_from_json(data: Any) -> Key | None:
    """The inverse of `key_to_json`. Damaged or unknown forms raise StateUnreadable."""
    if data is None:
        return None
    try:
        return Key(tuple(_value_from_json(*item) for item in data))
    except (TypeError, ValueError, ArithmeticError, UnsupportedKey) as error:
        raise StateUnreadable("the state holds a key that cannot be read", detail=f"{data!r}: {error}") from error


def _value_to_json(value: Value) -> list[Any]:
    match value:
        case None:
            return ["null"]
        case Top.TOP:
            return ["top"]
        case bool():
            return ["bool", value]
        case int():
            return ["int", value]
        case Decimal():
            return ["decimal", str(value)]
        case str():
            return ["text", value]
        case bytes():
            return ["bytes", value.hex()]
        case date():
            return ["date", value.isoformat()]
        case Timestamp(micros):
            return ["timestamp", micros]


def _value_from_json(tag: str, data: Any = None) -> Value:
    match tag, data:
        case "null", None:
            return None
        case "top", None:
            return TOP
        case ("bool", bool()) | ("text", str()):
            return data  # type: ignore[no-any-return]
        case "int", int() if type(data) is int:
            return data
        case "decimal", str():
            return Decimal(data)
        case "bytes", str():
            return bytes.fromhex(data)
        case "date", str():
            return date.fromisoformat(data)
        case "timestamp", int() if type(data) is int:
            return Timestamp(data)
    raise ValueError(f"unknown value {tag!r}")
