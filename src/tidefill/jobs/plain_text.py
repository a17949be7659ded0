"""Facts and tables as the text that a REPL prints, and as the markup that a notebook shows.

The command line does not use this: it fits results to a terminal by itself.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

FACTS = ("fact", "value")  # the columns of a result that tells many things of one
CHARACTERS_MAX = 200  # of a value in a table: one long text must not push every column out of sight
GAP = "  "
Rows = Sequence[Sequence[object]]


def as_text(columns: Sequence[str], rows: Rows, message: str = "") -> str:
    """Facts below each other with their values whole, other rows as a table, and the message."""
    parts = [*_facts(rows)] if tuple(columns) == FACTS else [*_table(columns, rows)] if rows else []
    return "\n".join([*parts, message] if message else parts) or GAP.join(columns) or "done"


def as_html(columns: Sequence[str], rows: Rows, message: str = "") -> str:
    """The same as markup. Every text is escaped: values come from tables that anybody may write."""
    named = tuple(columns) != FACTS
    head = f"<tr>{''.join(f'<th>{_escaped(name)}</th>' for name in columns)}</tr>" if named else ""
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(value)}</td>' for value in row)}</tr>" for row in rows)
    table = f"<table>{head}{body}</table>" if columns else ""
    return f"<div>{table}{_escaped(message) if message or columns else 'done'}</div>"


def _facts(rows: Rows) -> Iterator[str]:
    width = max((len(str(label)) for label, _ in rows), default=0)
    for label, value in rows:
        first, *rest = _printable(value).split("\n")
        yield f"{label!s:{width}}{GAP}{first}"
        yield from (f"{'':{width}}{GAP}{line}" for line in rest)


def _table(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in (columns, ["-" * width for width in widths], *texts):
        yield GAP.join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    text = " ".join(_printable(value).split("\n"))
    return text if len(text) <= CHARACTERS_MAX else f"{text[: CHARACTERS_MAX - 3]}..."


def _printable(value: object) -> str:
    """Without characters that a terminal would obey."""
    text = "NULL" if value is None else str(value)
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)


def _escaped(value: object) -> str:
    return html.escape(_printable(value)).replace("\n", "<br>")
