"""The coverage rule as a Column: `core.walk.covers` for a whole frame at once. A property test ties the two together.

A row of NULLs is judged like any other: the Column is true or false, never NULL. Bounds are constants of the column's
own type, and every range says the least and the greatest value of its leading column in a comparison of its own, so
that Delta skips the files outside. The rule is written as SQL and parsed once: put together from Columns, each of
which is a call to Java, the coverage of 256 splits took 17 seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeAlias

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

from tidefill.core.keys import TOP, Key, Timestamp, Value
from tidefill.core.walk import Coverage, Range, covered_ranges
from tidefill.errors import UnsupportedKey
from tidefill.spark.names import quoted

SUPPORTED = (
    BinaryType, BooleanType, ByteType, CharType, DateType, DecimalType, IntegerType, LongType, ShortType, StringType,
    TimestampNTZType, TimestampType, VarcharType,
)  # fmt: skip
_INTEGER_SUFFIX = {ByteType: "Y", ShortType: "S", IntegerType: "", LongType: "L"}
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])  # a decimal of Spark has 38 digits at most

# A condition in SQL. What it is known to be without looking at the row is a bool, and is folded away.
Condition: TypeAlias = str | bool
Walk: TypeAlias = Sequence[tuple[str, DataType]]


def covers(coverage: Coverage, columns: Sequence[str], types: Sequence[DataType]) -> Column:
    """Whether a row, whose walk columns these are, is in the target's charge."""
    return within(covered_ranges(coverage), columns, types)


def within(ranges: Sequence[Range], columns: Sequence[str], types: Sequence[DataType]) -> Column:
    """Whether a row lies in one of the ranges (after, upto]."""
    walk = list(zip(map(quoted, columns), types, strict=True))
    condition = _any([_in_range(part, walk) for part in ranges])
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
            return f"CAST(X'{value.encode().hex()}' AS STRING)"  # what a backslash means in quotes is a setting
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


def _in_range(part: Range, walk: Walk) -> Condition:
    above = True if part.after is None else _above(walk, part.after.values)
    upto = True if part.upto is None else _upto(walk, part.upto.values)
    return _all([*_hints(part, walk), above, upto])


def _hints(part: Range, walk: Walk) -> list[Condition]:
    """What the leading column must be for the range at all. It follows from the full comparison, so it changes nothing
    but what can be skipped. NULL is below every value, so an upper bound lets it through."""
    (lead, kind), *_ = walk
    hints: list[Condition] = []
    if part.after is not None and _is_value(part.after.values[0]):
        hints.append(f"({lead} IS NOT NULL AND {lead} >= {literal(part.after.values[0], kind)})")
    if part.upto is not None and _is_value(part.upto.values[0]):
        hints.append(f"({lead} IS NULL OR {lead} <= {literal(part.upto.values[0], kind)})")
    return hints


def _above(walk: Walk, bound: Sequence[Value]) -> Condition:
    """row > bound. Where one ends before the other, the longer is the greater one."""
    if not bound or not walk:
        return bool(walk)
    (column, kind), value = walk[0], bound[0]
    if value is TOP:
        return False
    rest = _above(walk[1:], bound[1:])
    if value is None:
        return _any([f"{column} IS NOT NULL", rest])
    constant = literal(value, kind)
    if isinstance(rest, bool):
        return f"({column} IS NOT NULL AND {column} {'>=' if rest else '>'} {constant})"
    return f"(({column} IS NOT NULL AND {column} > {constant}) OR ({column} <=> {constant} AND {rest}))"


def _upto(walk: Walk, bound: Sequence[Value]) -> Condition:
    """row <= bound."""
    if not bound or not walk:
        return not walk
    (column, kind), value = walk[0], bound[0]
    if value is TOP:
        return True
    rest = _upto(walk[1:], bound[1:])
    if value is None:
        return _all([f"{column} IS NULL", rest])
    constant = literal(value, kind)
    if isinstance(rest, bool):
        return f"({column} IS NULL OR {column} {'<=' if rest else '<'} {constant})"
    return f"({column} IS NULL OR {column} < {constant} OR ({column} <=> {constant} AND {rest}))"


def _is_value(value: Value) -> bool:
    return value is not None and value is not TOP


def _all(conditions: Sequence[Condition]) -> Condition:
    if any(condition is False for condition in conditions):
        return False
    parts = [condition for condition in conditions if isinstance(condition, str)]
    return f"({' AND '.join(parts)})" if parts else True


def _any(conditions: Sequence[Condition]) -> Condition:
    if any(condition is True for condition in conditions):
        return True
    parts = [condition for condition in conditions if isinstance(condition, str)]
    return f"({' OR '.join(parts)})" if parts else False


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


def _supported(name: str, kind: DataType) -> DataType:
    if not isinstance(kind, SUPPORTED) or (isinstance(kind, StringType) and not kind.isUTF8BinaryCollation()):
        raise UnsupportedKey(
            f"column {name} of type {kind.simpleString()} cannot be part of a key or a walk",
            hint="Use columns of type integer, decimal, text, bytes, date, timestamp or boolean.",
        )
    return kind
