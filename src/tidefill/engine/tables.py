"""Registered tables, as the Python API takes and shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from tidefill.jobs.definitions import TableDefinition, UnreadableDefinition, table_from_text
from tidefill.jobs.namespace import Registered


@dataclass(frozen=True, slots=True)
class Table:
    """A registered table: by which name, where it is, what identifies a row. `walk` is empty if none was given.
    `unreadable`: why this release does not know the rest, if it cannot read the definition."""

    name: str
    location: str
    key: tuple[str, ...]
    walk: tuple[str, ...]
    unreadable: str = ""


def absolute(location: str | os.PathLike[str] | None) -> str:
    """Where a table lies: a URL as it is, a path from the root."""
    text = os.fspath(location or "")
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) else str(Path(text).absolute())


def names_of(columns: Sequence[str] | str) -> tuple[str, ...]:
    """The names, of which a user may have given one alone."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def registered_as(table: Registered) -> Table:
    """The table as a user sees it."""
    match table_from_text(table.definition):
        case UnreadableDefinition(fact):
            return Table(table.name, "", (), (), unreadable=fact)
        case TableDefinition(location, key, walk):
            return Table(table.name, location, key, walk)
        case never:
            assert_never(never)
