"""What the types of PostgreSQL become: how the server writes a value for the way, and how Spark reads it.

What Spark has no exact type for is text. Dates and times go as numbers, because on the way they would otherwise be bent
by time zones and calendars. A value that the type cannot hold (an infinite date, NaN as a decimal) fails the query.
`docs/postgres-types.md` has the whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeVar

from tidefill.core.keys import Timestamp, Value
from tidefill.errors import UnsupportedKey

DECIMAL_DIGITS_MAX = 38
DAY_MICROS = 86_400_000_000
EPOCH_DAY = date(1970, 1, 1)
INTEGER_TYPES = frozenset({"int2", "int4", "int8"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column as the catalog has it. `base`: the name of its type, below any domain; `kind`: pg_type.typtype of that,
    or `a` for an array. `typmod`: of the type or the domain. `bytewise`: whether its collation compares bytes.
    `has_default`: rows that were there before it may have a value in it. `mark`: another text whenever the column was
    altered. `generated`: computed by the server. `deterministic`: whether texts are equal only if their bytes are."""

    number: int
    name: str
    declared: str
    base: str
    kind: str
    typmod: int
    not_null: bool
    bytewise: bool
    has_default: bool
    mark: str
    generated: bool
    deterministic: bool


@dataclass(frozen=True, slots=True)
class Mapped:
    """How a column travels: `sent` is what the server computes of it ({} is the column), `read` what Spark makes of
    that ({} again), of the Spark type `becomes`. `notice`: what a person should know."""

    sent: str
    read: str
    becomes: str
    notice: str = ""


def _as_is(becomes: str) -> Mapped:
    return Mapped("{}", "{}", becomes)


_TEXT = Mapped("{}::text", "{}", "STRING")
_MICROS = "(extract(epoch from {}) * 1000000)::bigint"
_SIMPLE = {
    "bool": _as_is("BOOLEAN"),
    "int2": _as_is("SMALLINT"),
    "int4": _as_is("INT"),
    "int8": _as_is("BIGINT"),
    "oid": Mapped("{}::bigint", "{}", "BIGINT"),
    "float4": _as_is("FLOAT"),
    "float8": _as_is("DOUBLE"),
    "bytea": _as_is("BINARY"),
    "date": Mapped("({} - date '1970-01-01')", "date_from_unix_date({})", "DATE"),
    "timestamptz": Mapped(_MICROS, "timestamp_micros({})", "TIMESTAMP"),
    "timestamp": Mapped(_MICROS, "timestampadd(MICROSECOND, {}, TIMESTAMP_NTZ'1970-01-01 00:00:00')", "TIMESTAMP_NTZ"),
    "money": Mapped("({}::numeric)::text", "{}", "STRING"),
}
_TEXTS = {
    *("text", "varchar", "bpchar", "char", "name", "uuid", "json", "jsonb", "jsonpath", "xml", "time", "timetz"),
    *("interval", "bit", "varbit", "inet", "cidr", "macaddr", "macaddr8", "tsvector", "tsquery", "point", "line"),
    *("lseg", "box", "path", "polygon", "circle", "pg_lsn", "xid", "xid8", "cid", "tid", "pg_snapshot"),
    *("regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regnamespace", "regrole"),
    *("regconfig", "regdictionary", "regcollation", "int2vector", "oidvector", "txid_snapshot"),
}


def mapped(column: PgColumn) -> Mapped:
    """What becomes of the column."""
    if column.kind == "a":
        return Mapped("to_json({})::text", "{}", "STRING")
    if column.base == "numeric":
        return _numeric(column.typmod)
    if column.base in _SIMPLE:
        return _SIMPLE[column.base]
    if column.base in _TEXTS or column.kind in "ecrm":  # enums, composites, ranges
        return _TEXT
    return Mapped(_TEXT.sent, _TEXT.read, _TEXT.becomes, f"column {column.name} of type {column.declared} becomes text")


def _numeric(typmod: int) -> Mapped:
    """With so many digits, or, where any number of them may come, as text."""
    if typmod < 0:
        return _TEXT
    digits, scale = (typmod - 4) >> 16, (((typmod - 4) & 0x7FF) ^ 1024) - 1024
    if not 0 <= scale <= digits <= DECIMAL_DIGITS_MAX:
        return _TEXT
    return _as_is(f"DECIMAL({digits}, {scale})")


# Keys.


@dataclass(frozen=True, slots=True)
class KeyType:
    """A type that a key or a walk may have: its name in PostgreSQL, how a value is written as a constant, and how it is
    read from the text of what is sent."""

    cast: str
    literal: Callable[[Value], str]
    value: Callable[[str], Value]


def key_type(column: PgColumn) -> KeyType:
    """UnsupportedKey if the order of its values is not that of `core.keys`."""
    found = _KEY_TYPES.get(column.base) if column.kind != "a" else None
    if column.base == "numeric" and mapped(column).becomes == "STRING":
        found = None
    if found is None:
        raise UnsupportedKey(
            f"column {column.name} of type {column.declared} cannot be part of a key or a walk",
            hint="Use columns of type integer, numeric(p, s), text, bytes, uuid, date, timestamp or boolean.",
        )
    return found


_AS_LOGGED = frozenset({"int2", "int4", "int8", "text", "varchar", "uuid"})


def is_sent_as_logged(column: PgColumn) -> bool:
    """Whether the log writes a value of a key as it is sent to Spark, and one row has one key. (Where 'a' equals 'A', a
    row has both.)"""
    return column.kind != "a" and column.base in _AS_LOGGED and column.deterministic


def is_text(column: PgColumn) -> bool:
    """Whether its values are compared as text, for which a collation counts."""
    return column.base in ("text", "varchar", "bpchar", "name")


def quoted_text(text: str) -> str:
    """A constant, whatever the settings say of backslashes."""
    doubled = text.replace("'", "''")
    return f"E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{doubled}'"


def _integer(cast: str) -> KeyType:
    return KeyType(cast, lambda value: f"'{_of(int, value)}'::{cast}", int)


def _text_literal(value: Value) -> str:
    return f"{quoted_text(_of(str, value))}::text"


def _moment(cast: str) -> Callable[[Value], str]:
    def literal(value: Value) -> str:
        days, micros = divmod(_of(Timestamp, value).micros, DAY_MICROS)
        return f"({cast} '1970-01-01 00:00:00+00' + interval '{days} days {micros} microseconds')"

    return literal


def _day(text: str) -> Value:
    return EPOCH_DAY + timedelta(days=int(text))


def _day_literal(value: Value) -> str:
    return f"(date '1970-01-01' + {(_of(date, value) - EPOCH_DAY).days})"


def _of(kind: type[T], value: Value) -> T:
    if not isinstance(value, kind):
        raise UnsupportedKey(
            f"{value!r} is no {kind.__name__}",
            hint="The column has another type than when the walk began. RESYNC begins again.",
        )
    return value


_KEY_TYPES = {
    "int2": _integer("int2"),
    "int4": _integer("int4"),
    "int8": _integer("int8"),
    "oid": _integer("oid"),
    "numeric": KeyType("numeric", lambda value: f"'{_of(Decimal, value)}'::numeric", Decimal),
    "text": KeyType("text", _text_literal, str),
    "varchar": KeyType("text", _text_literal, str),
    "bpchar": KeyType("text", _text_literal, str),
    "name": KeyType("text", _text_literal, str),
    "uuid": KeyType("uuid", lambda value: f"{quoted_text(_of(str, value))}::uuid", str),
    "bytea": KeyType(
        "bytea", lambda value: f"'\\x{_of(bytes, value).hex()}'::bytea", lambda text: bytes.fromhex(text[2:])
    ),
    "bool": KeyType("bool", lambda value: str(_of(bool, value)), lambda text: text == "true"),
    "date": KeyType("date", _day_literal, _day),
    "timestamp": KeyType("timestamp", _moment("timestamp"), lambda text: Timestamp(int(text))),
    "timestamptz": KeyType("timestamptz", _moment("timestamptz"), lambda text: Timestamp(int(text))),
}
