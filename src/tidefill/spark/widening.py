"""Types that became wider: which type has room for the values of which other one."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
    TimestampNTZType,
)

from tidefill.spark.names import quoted

_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}  # as Delta counts them

_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def is_same_number(wide: str, narrow: str) -> bool:
    """Whether a value of the type `narrow` is the same in the type `wide`, also as text: 1 is 1 as a bigint, and 1.0 as
    a double. Types by the names that Spark has for them."""
    if wide == narrow:
        return True
    digits = _digits_and_scale(wide), _digits_and_scale(narrow)
    if None in digits:
        return False
    (most, scale), (least, other) = filter(None, digits)
    return scale == other and most >= least


def _digits_and_scale(kind: str) -> tuple[int, int] | None:
    if kind in _WHOLE:
        return _WHOLE[kind], 0
    match = _DECIMAL.fullmatch(kind)
    return (int(match[1]), int(match[2])) if match is not None else None


def holds(wide: DataType, narrow: DataType) -> bool:
    """Whether a column of the type `wide` can take every value of the type `narrow` as it is."""
    if wide == narrow:
        return True
    digits = _DIGITS.get(type(narrow))
    match wide, narrow:
        case DecimalType(), DecimalType():
            return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
        case DecimalType(), _:
            return digits is not None and wide.precision - wide.scale >= digits
        case DoubleType(), _:
            return isinstance(narrow, FloatType) or (digits is not None and digits <= _DIGITS[IntegerType])
        case TimestampNTZType(), DateType():
            return True
        case _:
            return digits is not None and _DIGITS.get(type(wide), 0) > digits


def widened(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows in the types of the schema, where these are others: a fill may read a version of the upstream from
    before a type became wider."""
    wide = {field.name: field.dataType for field in schema}
    narrow = [field.name for field in rows.schema if wide.get(field.name, field.dataType) != field.dataType]
    return rows.withColumns({name: f.col(quoted(name)).cast(wide[name]) for name in narrow}) if narrow else rows
