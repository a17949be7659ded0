"""About how many bytes an index will take on its server, from rows and the widths of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidefill.indexes.shape import Column, Shape

WIDTH_BYTES = 16
"""How wide a value is taken to be where nothing is known: an expression, or a column that was never analyzed."""

ROW_BYTES, PLACE_BYTES, NULLS_BYTES, POINTER_BYTES, FULL = 24, 8, 8, 4, 0.9
"""What PostgreSQL adds to a row of a table, to one of an index, to one of an index that has NULLs, and to each for its
place in a page; and how full a page of an index is."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """`entries`: the table of entries. `key`: its index. `logged`: what one changed row takes in the log while the
    index is built by bulk."""

    entries: int
    key: int
    logged: int


def sizes(shape: Shape, rows: int, widths: Mapping[int, int]) -> Sizes:
    """The estimate. `widths`: of the table's columns, by their numbers. A partial index takes less."""

    def width(columns: tuple[Column, ...]) -> int:
        return sum(widths.get(column.number, WIDTH_BYTES) for column in columns)

    key, primary = width(shape.keys), width(shape.primary_key)
    entry = _aligned(ROW_BYTES + key + primary + width(shape.include) + 1)
    if shape.unique:
        place = _aligned(PLACE_BYTES + key + (0 if shape.nulls_not_distinct else NULLS_BYTES))
    else:
        place = _aligned(PLACE_BYTES + key + primary)
    logged = _aligned(ROW_BYTES + primary + width(shape.used) + 1) + _aligned(PLACE_BYTES + primary) / FULL
    return Sizes(rows * entry, round(rows * place / FULL), round(logged))


def _aligned(size: int) -> int:
    """With its pointer; a row begins at a multiple of 8."""
    return -(-size // 8) * 8 + POINTER_BYTES
