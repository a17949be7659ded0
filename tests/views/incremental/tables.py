"""Tables of DuckDB that are written as seldom as their rows allow: each statement takes longer than all rows in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """How a table was made, and the rows that it has."""

    made: str
    rows: Counter[Row]


class Tables:
    """Temporary tables. Nobody else writes to those that are put here."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._held: dict[str, _Held] = {}

    def put(self, name: str, made: str, rows: Iterable[Row]) -> None:
        """The table has these rows. `made`: what follows its name where it is created, which gives no rows."""
        held, wanted = self._held.pop(name, None), Counter(rows)
        if held is None or held.made != made:
            self._connection.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" {made}')
            self._insert(name, wanted)
        elif held.rows <= wanted:
            self._insert(name, wanted - held.rows)
        else:
            self._connection.execute(f'TRUNCATE "{name}"')
            self._insert(name, wanted)
        self._held[name] = _Held(made, wanted)

    def _insert(self, name: str, rows: Counter[Row]) -> None:
        if rows:
            values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows.elements())
            self._connection.execute(f'INSERT INTO "{name}" VALUES {values}')


class Struct(tuple[tuple[str, Any], ...]):
    """The fields of a struct with their values."""


def hashable(value: Any) -> Any:
    """A value as DuckDB gives it, that can be a key."""
    match value:
        case list():
            return tuple(map(hashable, value))
        case dict():
            return Struct((name, hashable(one)) for name, one in value.items())
    return value


def literal(value: Any) -> str:
    match value:
        case Struct():
            return "{" + ", ".join(f"'{name}': {literal(one)}" for name, one in value) + "}"
        case tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
        case None:
            return "NULL"
        case bool():
            return str(value)
        case int() | float() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else repr(value)
    return "'" + str(value).replace("'", "''") + "'"
