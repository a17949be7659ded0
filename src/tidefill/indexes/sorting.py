"""Who sorts the entries of an index before its key is built, and the SQL texts and cuts of a fill through Spark.

SERVER: the server reads chunks and writes their entries by one statement each; it sorts them when it builds the key.
SPARK: Spark reads chunks into files, cuts them into ranges of the key, sorts each range, and its tasks load them.
NONE: the same without the sort, for comparison; of initput: batches are put in the order of the primary key.

Spark sorts texts by their bytes, and numbers by their value. If the server orders a key otherwise (by a collation), the
result is the same: the server sorts again when it builds the key, it only finds less of the work done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tidefill.errors import InvalidSetting
from tidefill.indexes.shape import Column, Shape, literal
from tidefill.indexes.states import Method
from tidefill.jobs.sql_names import identifier


class Sort(Enum):
    """Who sorts."""

    SPARK = "spark"
    SERVER = "server"
    NONE = "none"


RANGE_ROWS = 250_000
"""Rows of one range, about: one task sorts and loads it in a second or two, and a task that is lost repeats no more."""

RANGES_MAX = 128
"""Each chunk is written as one file for each range, so that more ranges are many small files."""

SAMPLED = 100
"""Rows of the sample for each range: its size is then within some 20 % of the others'."""

CUTS, STAGED, FILES, LOADED, HALVED = "cuts", "staged", "files", "loaded", "halved"
"""What the checkpoints of a fill through Spark are of. CUTS: where a range of the key ends (none: the last range).
STAGED: the primary key up to which a chunk was read. FILES: the folder of a step's files. LOADED: a range. HALVED: the
place at which a range was cut in two that was too large, with the number of the first of its halves."""

Texts: TypeAlias = tuple[str | None, ...]
"""Values of some columns as texts."""


def chosen(asked: str | None, method: Method) -> tuple[Sort, str]:
    """Who sorts, and why in words. Spark does it where it was asked for. Raises InvalidSetting if it cannot."""
    if method is Method.INITPUT:
        if asked == Sort.SPARK.value:
            raise InvalidSetting("sort = spark is for method = bulk", hint="Leave one of the two out.")
        sort = Sort.SERVER if asked is None else Sort(asked)
        return sort, _OF_BATCHES[sort]
    if asked is None:
        return Sort.SERVER, f"{_WORDS[Sort.SERVER]}; with sort = spark Spark does it"
    return Sort(asked), _WORDS[Sort(asked)]


_WORDS = {
    Sort.SPARK: "Spark reads the table, sorts the entries and loads them, which spares the server",
    Sort.SERVER: "the server reads, and sorts when it builds the key",
    Sort.NONE: "Spark reads and loads; the server sorts when it builds the key",
}
_OF_BATCHES = {
    Sort.SERVER: "each batch is sorted by the key",
    Sort.NONE: "batches are put in the order of the primary key",
}


# Values as texts, and their order in Spark.

_INTEGERS = ("smallint", "integer", "bigint", "oid")
_NUMBERS = ("numeric", "real", "double precision")
_CAST_IS_OUTPUT = (*_INTEGERS, *_NUMBERS, "text", "character varying", "uuid", "date", "boolean", "bytea")


def _family(column: Column) -> str:
    """The type without its length."""
    return re.sub(r"\(.*?\)", "", column.type)


def order_type(column: Column) -> str:
    """The type by which Spark orders the texts of the column first; empty: by the texts alone."""
    family = _family(column)
    return "bigint" if family in _INTEGERS else "double" if family in _NUMBERS else ""


def is_escaped(column: Column) -> bool:
    """Whether its text may have signs that COPY escapes."""
    return not order_type(column) and _family(column) not in ("uuid", "date", "boolean")


def _text(column: Column, value: str) -> str:
    """SQL: the value as its type writes it, which its type reads back unchanged. A cast to text is that for the usual
    types, and faster; for others it may be something else."""
    if _family(column) in _CAST_IS_OUTPUT:
        return f"{value}::text"
    return f"CASE WHEN {value} IS DISTINCT FROM NULL THEN pg_catalog.format('%s', {value}) END"


def bound_names(shape: Shape) -> tuple[str, ...]:
    """The names under which `entry_texts` gives the primary key as values."""
    return tuple(f"b{number}" for number in range(1, len(shape.primary_key) + 1))


def text_name(name: str, at: int) -> str:
    """The name under which `entry_texts` gives a column of the index number `at`."""
    return f"{name}_{at}"


def entry_texts(shapes: Sequence[Shape]) -> str:
    """A query: of each base row its entries in these indexes as texts, whether there are any (`ok_0`), and its primary
    key as values, by which the reader restricts the query."""
    first, read, joins = shapes[0], list[str](), list[str]()
    for at, shape in enumerate(shapes):
        texts = ((name, _text(shape.column(name), f"z{at}.{name}")) for name in shape.columns)
        read += [f"z{at}.ok AS {text_name('ok', at)}", *(f"{text} AS {text_name(name, at)}" for name, text in texts)]
        joins.append(f"CROSS JOIN LATERAL {shape.function('of')} (t) z{at}")
    primary = zip(first.primary_key, bound_names(first), strict=True)
    read += [f"t.{identifier(column.name)} AS {name}" for column, name in primary]
    any_of = " OR ".join(f"z{at}.ok" for at in range(len(shapes)))
    return f"SELECT {', '.join(read)} FROM {first.base} t {' '.join(joins)} WHERE {any_of}"


def between(shape: Shape, after: Sequence[str] | None, upto: Sequence[str] | None) -> str:
    """A condition on rows of `entry_texts`: the primary key lies after the one and not after the other."""
    key, parts = f"({', '.join(bound_names(shape))})", ["true"]
    for sign, bound in ((">", after), ("<=", upto)):
        if bound is not None:
            pairs = zip(bound, shape.primary_key, strict=True)
            parts.append(f"{key} {sign} ({', '.join(f'{literal(text)}::{column.type}' for text, column in pairs)})")
    return " AND ".join(parts)


def sample(shape: Shape, rows: int, ranges: int) -> str:
    """A query: the identities of some entries as texts, from pages all over the table, which has about `rows` rows."""
    percent = min(100.0, 100.0 * SAMPLED * ranges / max(rows, 1))
    texts = ", ".join(_text(shape.column(name), f"z.{name}") for name in shape.identity)
    pages = f"{shape.base} t TABLESAMPLE SYSTEM ({percent:.6f})"
    return f"SELECT {texts} FROM {pages} CROSS JOIN LATERAL {shape.function('of')} (t) z WHERE z.ok"


def ranges_for(rows: int) -> int:
    """How many ranges a table of about so many rows is cut into."""
    return max(1, min(RANGES_MAX, -(-rows // RANGE_ROWS)))


def cuts(shape: Shape, sampled: Sequence[Texts], ranges: int) -> list[Texts]:
    """Where the ranges end but for the last one: identities that cut the sample into equal parts, in Spark's order. No
    two are equal, so there may be fewer. (Where an order differs from Spark's, ranges differ in size, and nothing
    else: equal keys come into one range by any cuts.)"""
    kinds = [order_type(shape.column(name)) for name in shape.identity]
    ordered = sorted(set(sampled), key=lambda one: tuple(map(_place, kinds, one)))
    places = (len(ordered) * number // ranges for number in range(1, ranges))
    return list(dict.fromkeys(ordered[place] for place in places if place))


@dataclass(frozen=True, slots=True)
class Share:
    """What one task loads: of the range number `root`, the entries that lie below (False) or not below (True) each of
    these places."""

    root: int
    bounds: tuple[tuple[bool, Texts], ...] = ()


def shares(ranges: Sequence[int], halved: Sequence[tuple[int, Texts, int]]) -> dict[int, Share]:
    """All shares by their numbers. `halved`: the number of a share, where it was cut, and the number of the half below;
    the other half has the next number."""
    found = {number: Share(number) for number in ranges}
    for number, place, first in sorted(halved, key=lambda one: one[2]):
        whole = found.pop(number)
        for is_above in (False, True):
            found[first + is_above] = Share(whole.root, (*whole.bounds, (is_above, place)))
    return found


def _place(kind: str, text: str | None) -> tuple[int, float, bytes]:
    if text is None:
        return (0, 0.0, b"")
    number = float(text) if kind else 0.0
    return (2, 0.0, b"") if number != number else (1, number, text.encode())  # NaN is the greatest, as in Spark
