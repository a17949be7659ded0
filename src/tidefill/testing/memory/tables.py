"""A table like a Delta table: versions, a change feed, a log that can be cleaned, time travel that can be vacuumed.

Rows are plain tuples; the first value is the key. The table is a bag: it keeps what it is given, duplicates too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidefill.core.confirm import Counts, Effect, Entry, Payload
from tidefill.core.keys import Key
from tidefill.errors import TargetTouched

Row: TypeAlias = tuple[Any, ...]
Bag: TypeAlias = dict[Any, tuple[Row, ...]]
Frame: TypeAlias = Callable[[], list[Any]]
Weighted: TypeAlias = tuple[int, Any]
WalkOf: TypeAlias = Callable[[Row], Key]

NO_ROWS = Counts()

# The columns of the tables that writers write.
ID, GROUP, REF, VALUE = range(4)


@dataclass(slots=True)
class Table:
    """One table of one identity. `snapshots[n]` is the bag at version n, `feed[n]` what version n changed. One that has
    no version is yet to be made by its first commit."""

    identity: str
    snapshots: list[Bag] = field(default_factory=lambda: [{}])
    feed: list[list[tuple[int, Row]]] = field(default_factory=lambda: [[]])
    entries: list[Entry] = field(default_factory=lambda: [Entry(0, Effect.CREATED)])
    transactions: dict[str, int] = field(default_factory=dict)
    log_from: int = 0
    readable_from: int = 0
    changes_from: int = 0
    touched: bool = False

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.snapshots) - 1

    def rows(self) -> list[Row]:
        """Every row of the newest version."""
        return [row for rows in self.rows_by_key().values() for row in rows]

    def rows_by_key(self) -> Bag:
        """The newest version."""
        return self.snapshots[-1] if self.snapshots else {}

    def commit(
        self,
        bag: Bag,
        changes: list[tuple[int, Row]],
        effect: Effect,
        payload: Payload | None = None,
        counts: Counts = NO_ROWS,
        *,
        replaces: bool = False,
    ) -> Entry:
        """A new version."""
        entry = Entry(len(self.snapshots), effect, payload, counts, replaces)
        self.snapshots.append(bag)
        self.feed.append(changes)
        self.entries.append(entry)
        return entry

    def log(self) -> list[Entry]:
        """What is left of the log."""
        return self.entries[self.log_from :]

    def vacuum(self, keep: int, *, changes_too: bool) -> None:
        """Older versions than the newest `keep` can no longer be read; nor, if so wished, what changed since them."""
        self.readable_from = max(self.readable_from, self.version - keep)
        if changes_too:
            self.changes_from = self.readable_from

    def clean_log(self, keep: int) -> None:
        """Only the newest entries of the log stay."""
        self.log_from = max(self.log_from, self.version + 1 - keep)


@dataclass(slots=True)
class Catalog:
    """Tables by path, what is published under which name, and the names that something of a stranger has."""

    tables: dict[str, Table] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    strangers: set[str] = field(default_factory=set)

    def at(self, path: str) -> Table:
        """The table at the path."""
        table = self.tables.get(path)
        if table is None:
            raise TargetTouched(f"there is no table at {path}", hint="RESYNC the job to build it anew.")
        return table


def weighted(rows: Iterable[Any], weight: int) -> list[Weighted]:
    """Rows that all have this weight."""
    return [(weight, row) for row in rows]


def sides(changes: Frame) -> tuple[Frame, Frame]:
    """The rows that went, and those that came, each evaluated by itself."""

    def of(sign: int) -> Frame:
        return lambda: [row for weight, row in changes() if weight * sign > 0]

    return of(-1), of(1)


def add(bag: Bag, row: Row) -> None:
    """Put a row into a bag (in place)."""
    bag[row[0]] = (*bag.get(row[0], ()), row)


def remove(bag: Bag, row: Row) -> None:
    """Take one copy of a row out of a bag (in place)."""
    rows = list(bag[row[0]])
    rows.remove(row)
    if rows:
        bag[row[0]] = tuple(rows)
    else:
        del bag[row[0]]


def with_changes(bag: Bag, changes: Iterable[tuple[int, Row]]) -> Bag:
    """A new bag after these changes."""
    after = dict(bag)
    for weight, row in changes:
        (add if weight > 0 else remove)(after, row)
    return after


def marked(payload: Payload, expected: Counts) -> Payload:
    """The payload with the counts that its change set was found to have."""
    return replace(payload, expected=expected)
