"""What a target's tests need of the real system: the tables of one job, and everybody else who touches them.

The table has four integer columns that may be NULL, `(id, grp, ref, value)`, of which the first is the key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest import SkipTest

from tidefill.ports.target import Target

F = TypeVar("F")
Row: TypeAlias = tuple[Any, ...]
Marked: TypeAlias = tuple[str, int | None, Row | None]


class TargetCan(Enum):
    """What not every harness can do."""

    INTERRUPT = "let something happen while a frame is evaluated"


class TargetHarness(Protocol[F]):
    """One job's tables, one for each generation."""

    @property
    def capabilities(self) -> frozenset[TargetCan]:
        """What the harness can do."""

    def target(self, generation: int = 1) -> Target[F]:
        """A new handle to the table, as a process that was just started makes it: not prepared yet."""

    def frame(self, rows: Sequence[Row]) -> F:
        """These rows."""

    def marked(self, changes: Sequence[Marked]) -> F:
        """Changes for a Merge: I, U or D, the key, and the row (None for D)."""

    def keys(self, ids: Sequence[int]) -> F:
        """Changes by which the rows with these keys went."""

    def failing(self) -> F:
        """A frame of rows or changes whose evaluation raises, perhaps when a part of it is there."""

    def meanwhile(self, frame: F, act: Callable[[], None]) -> F:
        """With `TargetCan.INTERRUPT`: the frame; while it is evaluated for the first time, the act happens."""

    def rows(self, generation: int = 1) -> list[Row]:
        """What the table holds."""

    def shown(self) -> list[Row] | None:
        """What is published under the job's name, if anything is."""

    def foreign_append(self, rows: Sequence[Row]) -> None:
        """A stranger appends to the table of the first generation."""

    def foreign_delete(self, ids: Sequence[int]) -> None:
        """A stranger deletes from it."""

    def restore(self, version: int) -> None:
        """A stranger takes it back to an older version of the log."""

    def optimize(self) -> None:
        """A stranger makes one commit that leaves its data alone."""

    def clean_log(self, keep: int) -> None:
        """Only the newest `keep` entries of its log stay."""

    def remove(self) -> None:
        """Remove what the target's `resources` name."""


TargetTest: TypeAlias = Callable[[TargetHarness[Any]], None]


def needs(harness: TargetHarness[F], can: TargetCan) -> None:
    if can not in harness.capabilities:
        raise SkipTest(f"the harness cannot {can.value}")
