"""What the log of PostgreSQL told up to some place, and a step has not taken in yet: transactions and the keys of rows
that they touched. So many are held in memory; with more, all of them go to a file.

The file is a database of SQLite without a name: it is gone from its folder as soon as it is open, so that nothing is
left behind whatever becomes of the process, and its space is free again when it is closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeAlias

from tidefill.core.version import Snapshot
from tidefill.errors import DiskFull

KeyTexts: TypeAlias = tuple[str, ...]

KEYS_MAX = 200_000  # in memory, and as many transactions: some 50 MB
FILE_CACHE_KB = 64 * 1024


@dataclass(slots=True)
class Transaction:
    """One that has committed, or a part of it. `xid` has 32 bits; `at` is where its commit record begins, `at_s` when
    that was, in seconds since 1970. `keys` are those of the table's rows that it touched, old and new; a TRUNCATE names
    none."""

    xid: int
    at: int
    at_s: float
    keys: set[KeyTexts] = field(default_factory=set)
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class News:
    """What the transactions did that a snapshot does not see: how many rows they touched, whether there was a TRUNCATE,
    and when the first of them committed (None if none of them touched a row)."""

    keys: int
    truncated: bool
    first_s: float | None


class Backlog:
    """Transactions by their whole number. `width`: how many columns a key has."""

    def __init__(self, width: int, keys_max: int | None = None) -> None:
        self._width = width
        self._keys_max = KEYS_MAX if keys_max is None else keys_max
        self._held: dict[int, Transaction] = {}
        self._held_keys = 0
        self._spill: _Spill | None = None
        self._news: dict[Snapshot, News] = {}

    @property
    def spilled(self) -> bool:
        """Whether it is in a file."""
        return self._spill is not None

    def held(self) -> list[tuple[int, Transaction]]:
        """What is in memory."""
        return list(self._held.items())

    def add(self, xid: int, part: Transaction) -> None:
        """A transaction, or more of one that is there."""
        self._news.clear()
        known = self._held.setdefault(xid, Transaction(part.xid, part.at, part.at_s))
        before = len(known.keys)
        known.keys |= part.keys
        known.truncated |= part.truncated
        self._held_keys += len(known.keys) - before
        if max(self._held_keys, len(self._held)) > self._keys_max:
            self._spill = self._spill or _Spill(self._width)
            self._spill.add(self._held)
            self._held.clear()
            self._held_keys = 0

    def after(self, old: Snapshot) -> News:
        """What happened since then."""
        if old not in self._news:
            self._news[old] = self._look(old)
        return self._news[old]

    def _look(self, old: Snapshot) -> News:
        if self._spill is not None:
            self._spill.add(self._held)
            self._held.clear()
            self._held_keys = 0
            return self._spill.after(old)
        unseen = self._unseen(old)
        touched = [one.at_s for one in unseen if one.keys or one.truncated]
        keys = len(set(chain.from_iterable(one.keys for one in unseen)))
        return News(keys, any(one.truncated for one in unseen), min(touched, default=None))

    def _unseen(self, old: Snapshot) -> list[Transaction]:
        return [one for xid, one in self._held.items() if not old.sees(xid)]

    def batches(self, old: Snapshot, size: int) -> Iterator[list[KeyTexts]]:
        """The keys of rows that were touched since then, each once, in order."""
        self.after(old)
        keys: Iterable[KeyTexts]
        if self._spill is not None:
            keys = self._spill.keys(old)
        else:
            keys = sorted(set(chain.from_iterable(one.keys for one in self._unseen(old))))
        every = iter(keys)
        return iter(lambda: list(islice(every, size)), [])

    def close(self) -> None:
        """Free the memory and the file."""
        self._held.clear()
        if self._spill is not None:
            self._spill.close()


class _Spill:
    """The file. A key is there once for each transaction that touched it, for who asks may have seen one of them."""

    def __init__(self, width: int) -> None:
        self._columns = ", ".join(f"k{number}" for number in range(width))
        self._insert = f"INSERT OR IGNORE INTO keys VALUES ({', '.join('?' * (width + 1))})"
        with _translated():
            self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._file.executescript(f"""
                PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{FILE_CACHE_KB};
                CREATE TABLE transactions (xid INTEGER PRIMARY KEY, at_s REAL, touched INTEGER, truncated INTEGER);
                CREATE TABLE keys ({self._columns}, xid INTEGER, PRIMARY KEY ({self._columns}, xid)) WITHOUT ROWID;
                CREATE TABLE open_then (xid INTEGER PRIMARY KEY);
            """)

    def add(self, held: dict[int, Transaction]) -> None:
        with _translated():
            self._file.execute("BEGIN")
            self._file.executemany(
                "INSERT INTO transactions VALUES (?, ?, ?, ?) ON CONFLICT (xid) DO UPDATE SET "
                "touched = max(touched, excluded.touched), truncated = max(truncated, excluded.truncated)",
                ((xid, one.at_s, bool(one.keys), one.truncated) for xid, one in held.items()),
            )
            self._file.executemany(self._insert, ((*key, xid) for xid, one in held.items() for key in one.keys))
            self._file.execute("COMMIT")

    def after(self, old: Snapshot) -> News:
        with _translated():
            unseen = self._unseen(old)
            row = self._file.execute(
                "SELECT max(truncated), min(CASE WHEN touched OR truncated THEN at_s END) "
                f"FROM transactions WHERE {unseen}"
            ).fetchone()
            count = self._file.execute(
                f"SELECT count(*) FROM (SELECT DISTINCT {self._columns} FROM keys WHERE {unseen})"
            ).fetchone()
        return News(count[0], bool(row[0]), row[1])

    def keys(self, old: Snapshot) -> Iterator[KeyTexts]:
        with _translated():
            where = self._unseen(old)
            columns = self._columns
            yield from self._file.execute(f"SELECT DISTINCT {columns} FROM keys WHERE {where} ORDER BY {columns}")

    def _unseen(self, old: Snapshot) -> str:
        """What the snapshot does not see, as a condition."""
        self._file.execute("DELETE FROM open_then")
        self._file.executemany("INSERT INTO open_then VALUES (?)", ((xid,) for xid in old.xip))
        return f"(xid >= {old.xmax} OR xid IN (SELECT xid FROM open_then))"

    def close(self) -> None:
        self._file.close()


@contextmanager
def _translated() -> Iterator[None]:
    """A disk that is full is no end: it is tried again."""
    try:
        yield
    except sqlite3.Error as error:
        hint = "Free space on the disk of temporary files, or set SQLITE_TMPDIR or TMPDIR to a folder on another disk."
        raise DiskFull("a backlog of changes cannot be kept on disk", detail=str(error), hint=hint) from error
