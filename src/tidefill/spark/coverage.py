"""The coverage rule as a Column: `core.walk.covers` for a whole frame at once. A property test ties the two together.

A row of NULLs is judged like any other: the Column is true or false, never NULL. The rule is written as SQL and parsed
once: put together from Columns, each of which is a call to Java, the coverage of 256 splits took 17 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from tidefill.core import ranges_sql as conditions
from tidefill.core.keys import Key, Timestamp, Value
from tidefill.core.ranges_sql import Conditions
from tidefill.core.walk import Coverage, Range, covered_ranges
from tidefill.errors import UnsupportedKey
from tidefill.spark.names import quoted

SUPPORTED = (
    BinaryType, BooleanType, ByteType, CharType, DateType, DecimalType, IntegerType, LongType, ShortType, StringType,
    TimestampNTZType, TimestampType, VarcharType,
)  # fmt: skip
_INTEGER_SUFFIX = {ByteType: "Y", ShortType: "S", IntegerType: "", LongType: "L"}
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])  # a decimal of Spark has 38 digits at most

_PLAIN = re.compile(r"[A-Za-z0-9 _.:/@+-]*")

SPARK = Conditions(equals="<=>")


def covers(coverage: Coverage, columns: Sequence[str], types: Sequence[DataType]) -> Column:
    """Whether a row, whose walk columns these are, is in the target's charge."""
    return within(covered_ranges(coverage), columns, types)


def within(ranges: Sequence[Range], columns: Sequence[str], types: Sequence[DataType]) -> Column:
    """Whether a row lies in one of the ranges (after, upto]."""
    walk = [conditions.Column(quoted(name), _constant(kind)) for name, kind in zip(columns, types, strict=True)]
    condition = SPARK.within(ranges, walk)
    return F.lit(condition) if isinstance(condition, bool) else F.expr(condition)


def key_types(schema: StructType, columns: Sequence[str]) -> tuple[DataType, ...]:
    """The types of these columns of a frame, or UnsupportedKey if one has no order that every part agrees on."""
    return tuple(_supported(name, _type_of(schema, name)) for name in columns)


def collectable(columns: Sequence[str | Column], types: Sequence[DataType]) -> list[Column]:
    """What to collect so that `key_of` gets exact values: a timestamp as microseconds, because as a datetime it would
    come in the time zone of this process, where an hour a year is ambiguous."""
    walk = [F.col(quoted(column)) if isinstance(column, str) else column for column in columns]
    return [
        F.unix_micros(column) if isinstance(kind, TimestampType) else column
        for column, kind in zip(walk, types, strict=True)
    ]


def key_of(values: Sequence[Any], types: Sequence[DataType]) -> Key:
    """The key of collected values."""
    return Key(tuple(_value(value, kind) for value, kind in zip(values, types, strict=True)))


def literal(value: Value, kind: DataType) -> str:
    """A constant of that type in SQL, whatever the settings of the session. UnsupportedKey if it is not of the type."""
    match kind, value:
        case ((ByteType() | ShortType() | IntegerType() | LongType()), int()):
            return f"{value}{_INTEGER_SUFFIX[type(kind)]}"
        case DecimalType(), Decimal():
            return f"{_scaled(value, kind):f}BD"
        case ((StringType() | CharType() | VarcharType()), str()):
            return _text(value)
        case BinaryType(), bytes():
            return f"X'{value.hex()}'"
        case BooleanType(), bool():
            return str(value)
        case DateType(), date():
            return f"DATE'{value.isoformat()}'"
        case TimestampType(), Timestamp(micros):
            return f"timestamp_micros({micros}L)"
        case TimestampNTZType(), Timestamp(micros):
            return f"timestampadd(MICROSECOND, {micros}L, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
    raise _not_of(value, kind)


def _text(value: str) -> str:
    """In quotes, where files can be chosen by it. What a backslash or a dollar means in quotes is a setting: a text
    that has more than plain characters is given by its bytes."""
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def _constant(kind: DataType) -> Callable[[Value], str]:
    return lambda value: literal(value, kind)


def _value(value: Any, kind: DataType) -> Value:
    match kind, value:
        case _, None:
            return None
        case TimestampType(), int():
            return Timestamp(value)
        case TimestampType(), datetime():
            return Timestamp.of(value.astimezone(UTC))  # a naive one is in the time zone of this process
        case TimestampNTZType(), datetime():
            return Timestamp.of(value)
        case BinaryType(), bytes() | bytearray():
            return bytes(value)
        case _:
            return value  # type: ignore[no-any-return]


def _scaled(value: Decimal, kind: DecimalType) -> Decimal:
    """The same number with the digits of the type behind the point; the comparison then needs no wider type, which for
    the widest decimals does not exist."""
    try:
        scaled = value.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except ArithmeticError:
        raise _not_of(value, kind) from None
    if scaled.adjusted() >= kind.precision - kind.scale and scaled:
        raise _not_of(value, kind)
    return scaled


def _not_of(value: Value, kind: DataType) -> UnsupportedKey:
    return UnsupportedKey(
        f"{value!r} is not a value of type {kind.simpleString()}",
        hint="The column has another type than when the walk began. RESYNC begins again.",
    )


def _type_of(schema: StructType, name: str) -> DataType:
    if name not in schema.names:
        raise UnsupportedKey(f"there is no column {name}", detail=f"the columns are: {', '.join(schema.names)}")
    return schema[name].dataType


def is_supported(kind: DataType) -> bool:
    """Whether values of the type have an order that every part agrees on."""
    return isinstance(kind, SUPPORTED) and (not isinstance(kind, StringType) or kind.isUTF8BinaryCollation())


def _supported(name: str, kind: DataType) -> DataType:
    if not is_supported(kind):
        raise UnsupportedKey(
            f"column {name} of type {kind.simpleString()} cannot be part of a key or a walk",
            hint="Use columns of type integer, decimal, text, bytes, date, timestamp or boolean.",
        )
    return kind
