"""Results as tables, and pairs of a label and a value as lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tidefill.cli.render.cells import ASCII, GAP, UNICODE, WIDTH_MIN, Marks, broken, cells, clean, cut, pad
from tidefill.jobs.plain_json import as_json, not_finite

FACT_CHARACTERS_MAX = 20_000  # of a value that is told whole: a few screens
CELL_CHARACTERS_MAX = 1000  # of a value in a table: a line has no room for more
COLUMN_MIN = 5  # columns that would become narrower are shown one below the other


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], width: int, *, ascii: bool = False) -> str:
    """A result as a table, numbers to the right. Too wide, the widest columns are cut; with more columns than have room
    each row becomes a list. Every row has a value for every header."""
    marks, width = ASCII if ascii else UNICODE, max(width, WIDTH_MIN)
    titles = [clean(header, ascii=ascii) for header in headers]
    texts = [[_cell(value, ascii) for value in row] for row in rows]
    wanted = [max(map(cells, column)) for column in zip(titles, *texts, strict=True)]
    widths = _fitting(wanted, width - len(GAP) * (len(headers) - 1))
    if widths is None:
        return _lists(titles, texts, width, marks)
    columns = [_Column(room, _is_numeric([row[at] for row in rows])) for at, room in enumerate(widths)]
    rule = GAP.join(marks.rule * room for room in widths)
    return "\n".join([_row(titles, columns, marks), rule, *(_row(row, columns, marks) for row in texts)])


def facts(rows: Iterable[Sequence[object]], width: int, *, ascii: bool = False) -> str:
    """Pairs of a label and a value, one below the other. Values are told whole, on as many lines as they need."""
    marks, width = ASCII if ascii else UNICODE, max(width, WIDTH_MIN)
    pairs = [(clean(str(label), ascii=ascii), value) for label, value in rows]
    label_cells = min(max((cells(label) for label, _ in pairs), default=0), width // 3)
    room = width - label_cells - len(GAP)
    lines: list[str] = []
    for label, value in pairs:
        parts = [clean(part, ascii=ascii) for part in _value_text(value)[:FACT_CHARACTERS_MAX].split("\n")]
        shown = [line for part in parts for line in broken(part, room)]
        titles = [pad(cut(label, label_cells, marks.cut), label_cells), *[" " * label_cells] * (len(shown) - 1)]
        lines += [f"{title}{GAP}{line}".rstrip() for title, line in zip(titles, shown, strict=True)]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Column:
    width: int
    right: bool


def _row(texts: Sequence[str], columns: Sequence[_Column], marks: Marks) -> str:
    parts = [
        pad(cut(text, column.width, marks.cut), column.width, right=column.right)
        for text, column in zip(texts, columns, strict=True)
    ]
    return GAP.join(parts).rstrip()


def _fitting(wanted: Sequence[int], room: int) -> list[int] | None:
    """Widths that have room together: the widest give way first. None if some would be too narrow to be read."""
    widths = [min(cells_wanted, max(room, COLUMN_MIN)) for cells_wanted in wanted]
    while sum(widths) > room:
        widest = max(widths)
        if widest <= COLUMN_MIN:
            return None
        widths[widths.index(widest)] -= 1
    return widths


def _lists(titles: Sequence[str], texts: Sequence[Sequence[str]], width: int, marks: Marks) -> str:
    label = min(max(map(cells, titles)), width // 3)
    columns = [_Column(label, right=False), _Column(width - label - len(GAP), right=False)]
    rule = f"\n{marks.rule * label}\n"
    lists = [[_row(pair, columns, marks) for pair in zip(titles, row, strict=True)] for row in texts]
    return rule.join("\n".join(lines) for lines in lists or [[cut(title, width, marks.cut) for title in titles]])


def _is_numeric(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(_is_number(value) for value in present)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _cell(value: object, ascii: bool) -> str:
    return clean(_value_text(value)[:CELL_CHARACTERS_MAX], ascii=ascii)


def _value_text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray():
            return f"0x{value[:CELL_CHARACTERS_MAX].hex()}"
        case float() if not math.isfinite(value):
            return not_finite(value)
        case datetime():
            return value.isoformat(" ")
        case list() | tuple() | Mapping() | AbstractSet():
            return as_json(value)
        case _:
            return str(value)
