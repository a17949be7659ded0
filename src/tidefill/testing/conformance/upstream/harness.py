"""What an upstream's tests need of the real system: one table, its writers, and an evaluation of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest import SkipTest

from tidefill.core.keys import Key, Value
from tidefill.ports.upstream import Upstream

F = TypeVar("F")
Row: TypeAlias = tuple[Value, ...]
KeyValues: TypeAlias = tuple[Value, ...]
Write: TypeAlias = tuple[Row | None, Row | None]


class Kind(Enum):
    """The type of a column. Integers have 64 bits, decimals 30 digits of which 10 behind the point, timestamps
    microseconds and no time zone."""

    INT = "int"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Layout:
    """A table: its columns by name, which of them are the key, and the walk through it. What is not key may be NULL."""

    columns: tuple[tuple[str, Kind], ...]
    key: tuple[int, ...]
    walk: tuple[int, ...]

    def key_of(self, row: Row) -> KeyValues:
        """The values that identify the row."""
        return tuple(row[column] for column in self.key)

    def walk_of(self, row: Row) -> Key:
        """The row's place in the walk."""
        return Key(tuple(row[column] for column in self.walk))


class Can(Enum):
    """What not every system can do."""

    TRUNCATE = "truncate"
    HOLD_DUPLICATES = "hold a key twice, or a NULL key"
    LOSE_HISTORY = "lose its history"


class UpstreamHarness(Protocol[F]):
    """One table of a real system, and everybody else who has to do with it. Values in rows are those of `core.keys`."""

    @property
    def capabilities(self) -> frozenset[Can]:
        """What the system can do."""

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """Make the table with these rows. If it is there, it is dropped first: another table under the same name.
        SkipTest if the system has no such columns."""

    def upstream(self) -> Upstream[F]:
        """A new reader of the table, as a process that was just started makes it: not prepared yet, and no head that it
        gives is older than the reader. All are of one job."""

    def write(self, changes: Sequence[Write]) -> None:
        """One transaction of somebody else: pairs of the row before (None: inserted) and after (None: deleted). No key
        is in it twice. SkipTest if rows of the system never change so."""

    def stir(self) -> None:
        """A commit that changes no row of the table: on another table of the server, or of the layout of the files."""

    def collect(self, frame: F) -> list[Row]:
        """The rows of a frame, evaluated as a target does it: errors in reading are ours."""

    def collect_keys(self, frame: F) -> list[KeyValues]:
        """The same for a frame of keys: what went, without images."""

    def sides(self, changes: F) -> tuple[F, F]:
        """Of a frame with weights: what went, and what came, without their weights."""

    def truncate(self) -> None:
        """TRUNCATE, with `Can.TRUNCATE`."""

    def lose_history(self) -> None:
        """With `Can.LOSE_HISTORY`: what changed up to now is known no more, and older versions cannot be read."""


UpstreamTest: TypeAlias = Callable[[UpstreamHarness[Any]], None]


def needs(harness: UpstreamHarness[F], can: Can) -> None:
    if can not in harness.capabilities:
        raise SkipTest(f"the system cannot {can.value}")
