"""Which types a Delta table can store. Spark knows more types, and Delta refuses those only when rows are written."""

from __future__ import annotations

from pyspark.sql import types as t

from tidefill.errors import UnsupportedQuery

_PLAIN = (
    t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType, t.DecimalType,
    t.BinaryType, t.DateType, t.TimestampType, t.TimestampNTZType, t.CharType, t.VarcharType, t.VariantType,
)  # fmt: skip
_HINTS: tuple[tuple[type[t.DataType], str], ...] = (
    (t.NullType, "CAST(NULL AS INT), for example."),
    (t.StringType, "Leave the collation to whoever reads the view: CAST(... AS string COLLATE UTF8_BINARY)."),
    (t.DayTimeIntervalType, "Store a number: unix_micros(a) - unix_micros(b), or timestampdiff(SECOND, b, a)."),
    (t.YearMonthIntervalType, "Store a number: months_between(a, b)."),
)


def refuse_unstorable(schema: t.StructType) -> None:
    """UnsupportedQuery for the first column whose type, or a type inside of it, Delta does not store."""
    for field in schema:
        if (kind := _unstorable(field.dataType)) is not None:
            hint = next((hint for known, hint in _HINTS if isinstance(kind, known)), "Turn it into text or a number.")
            raise UnsupportedQuery(
                f"column {field.name} cannot be stored in a Delta table",
                detail=f"Its type is {_told(kind)}.",
                hint=hint,
            )


def _told(kind: t.DataType) -> str:
    return "unknown" if isinstance(kind, t.NullType) else kind.simpleString()


def _unstorable(kind: t.DataType) -> t.DataType | None:
    """The type, or the first one inside of it, that Delta does not store. What is not known here is not stored."""
    match kind:
        case t.StructType():
            return next((found for field in kind if (found := _unstorable(field.dataType)) is not None), None)
        case t.ArrayType():
            return _unstorable(kind.elementType)
        case t.MapType():
            return _unstorable(kind.keyType) or _unstorable(kind.valueType)
        case t.StringType():
            return None if kind.isUTF8BinaryCollation() else kind
    return None if isinstance(kind, _PLAIN) else kind
