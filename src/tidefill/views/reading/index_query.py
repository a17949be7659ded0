"""The view that an index on a Delta table is: its key, the table's key and included columns, as one SELECT.

Example: `CREATE INDEX ix ON events (lower(email)) INCLUDE (at) WHERE total > 0` over a table with the key `id` is the
view ``SELECT (lower(email)) AS `key`, `id`, `at` FROM `events` WHERE (total > 0)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidefill.errors import BadInput, UnsupportedQuery
from tidefill.jobs.sql_names import quoted
from tidefill.jobs.wishes import IndexWish
from tidefill.views.reading.rowwise import Item, RowQuery, parse_row_query

_NAME = re.compile(r"(?P<plain>\w+)|`(?P<quoted>(?:[^`]|``)+)`")


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """`sql`: the view, which `query` takes apart. `order`: those of its columns that are the index's key. `lead`: the
    table's columns that begin the key, up to the first expression."""

    sql: str
    query: RowQuery
    order: tuple[str, ...]
    lead: tuple[str, ...]


def index_query(table: str, columns: Sequence[str], key: Sequence[str], wish: IndexWish) -> IndexQuery:
    """The view for the index. `columns`: what the table has, `key`: what of it identifies a row. Raises BadInput for a
    column that is not there, UnsupportedQuery for what is no deterministic expression over one row."""
    plain = [_plain(table, columns, text) for text in wish.columns]
    order = tuple(_names(plain, columns))
    for name in order:
        if order.count(name) > 1:
            raise BadInput(f"the index names {name} twice", hint="Leave one of them out.")
    keys = [quoted(name) if one else f"({_expression(table, text)}) AS {quoted(name)}"
            for text, one, name in zip(wish.columns, plain, order, strict=True)]  # fmt: skip
    included = [_column(table, columns, name) for name in wish.include]
    shown = [name for name in dict.fromkeys((*key, *included)) if name in columns and name not in order]
    where = f" WHERE ({wish.where})" if wish.where.strip() else ""
    sql = f"SELECT {', '.join((*keys, *map(quoted, shown)))} FROM {quoted(table)}{where}"
    query = _parsed(sql)
    names = [item.name for item in query.items if isinstance(item, Item)]
    if names != [*order, *shown] or query.table != (table,) or bool(query.where) != bool(where):
        raise _unreadable(sql)
    lead = [name for at, name in enumerate(order) if all(plain[: at + 1])]
    return IndexQuery(sql, query, order, tuple(lead))


def _expression(table: str, text: str) -> str:
    """The text, if it is one expression, which has no name and nothing behind it."""
    query = _parsed(f"SELECT {text} FROM {quoted(table)}")
    alone = [item.name is None for item in query.items if isinstance(item, Item)]
    if alone != [True] or query.table != (table,) or query.where:
        raise _unreadable(text)
    return text


def _unreadable(text: str) -> BadInput:
    hint = "Give columns, or expressions over columns, without names and directions."
    return BadInput("the key or the condition of the index cannot be read", detail=text, hint=hint)


def _parsed(sql: str) -> RowQuery:
    try:
        return parse_row_query(sql)
    except UnsupportedQuery as error:
        hint = "An index has columns, and deterministic expressions and conditions over one row."
        raise UnsupportedQuery(f"an index cannot have this: {error.fact}", detail=error.detail, hint=hint) from error


def _plain(table: str, columns: Sequence[str], text: str) -> str:
    """The column that the text is, if it is nothing but that; else empty."""
    bare = text.strip()
    while bare.startswith("(") and bare.endswith(")") and _NAME.fullmatch(bare[1:-1].strip()):
        bare = bare[1:-1].strip()
    if not bare:
        raise BadInput("a column of the index is missing", hint="Name a column, or give an expression.")
    named = _NAME.fullmatch(bare)
    if named is None or bare.isdigit():
        return ""
    return _column(table, columns, named["plain"] or named["quoted"].replace("``", "`"))


def _column(table: str, columns: Sequence[str], name: str) -> str:
    """The column of that name, as the table writes it."""
    exact = [column for column in columns if column == name]
    found = exact or [column for column in columns if column.casefold() == name.casefold()]
    if not found:
        raise BadInput(f"{table} has no column {name}", hint=f"There is: {', '.join(columns)}.")
    return found[0]


def _names(plain: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """The names of the key's columns: those of the table, and for an expression `key`, or `key_2` and so on, which no
    column has."""
    taken = {column.casefold() for column in columns}
    for at, name in enumerate(plain, 1):
        called = "key" if len(plain) == 1 else f"key_{at}"
        while called in taken:
            called += "_"
        yield name or called
