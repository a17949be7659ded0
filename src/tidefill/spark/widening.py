"""Types that became wider: which type has room for the values of which other one."""

from __future__ import annotations

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
