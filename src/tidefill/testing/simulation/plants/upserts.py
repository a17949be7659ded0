"""Bugs in keeping the newest message of each key: tombstones, compaction, partitions, places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tidefill.core.version import Version
from tidefill.core.walk import Coverage, Range, whole
from tidefill.kafka import places
from tidefill.kafka.spans import Span
from tidefill.kafka.upsert import UpsertUpstream
from tidefill.ports.frames import Changes, Comparable
from tidefill.testing.memory.tables import Frame, weighted
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.topic import NewestReader
from tidefill.testing.simulation.plants.plant import plant_in
from tidefill.testing.simulation.topics.scripts import script_of_stray, script_of_upsert

_read_changes = UpsertUpstream.read_changes
_comparable = UpsertUpstream.comparable
_beyond = places.beyond


def _without_tombstones(self: NewestReader, spans: Sequence[Span], ranges: Sequence[Range]) -> Frame:
    """A delete is no row, so it is left out with the others."""
    return lambda: weighted(self.newest(spans, ranges)(), 1)


def _wherever_their_keys_lie(
    self: UpsertUpstream[Any], after: Version, upto: Version, coverage: Coverage
) -> Changes[Any]:
    return _read_changes(self, after, upto, whole())


def _never_away(self: UpsertUpstream[Any], at: Version, share: float = 1.0) -> bool:
    """As of a topic that keeps its tombstones."""
    return False


def _last_partition_is_empty(lengths: Mapping[int, int]) -> tuple[Range, ...]:
    return _beyond({number: length for number, length in lengths.items() if number < max(lengths)})


def _only_whole_partitions(part: Range, partition: int) -> bool:
    """A range that ends within a partition is not asked for it."""
    ends_there = part.upto is not None and part.upto < places.end(partition)
    return not ends_there and (part.after is None or part.after < places.end(partition))


def _with_what_came_later(self: UpsertUpstream[Any], at: Version) -> Comparable[Any] | None:
    found = _comparable(self, at)
    return None if found is None else replace(found, but=None)


def _unchecked(self: Any, *_: object) -> None:
    """A key is taken to have one row."""


_plant = partial(plant_in, script_of=script_of_upsert)

OF_UPSERTS = (
    _plant(
        "tombstone-left-out",
        "a delete of a key is not taken in",
        ("I1 covered",), 0,
        (NewestReader, "net", _without_tombstones),
    ),
    _plant(
        "uncovered-key-taken-in",
        "new messages are taken in wherever their keys lie",
        ("I1 covered",), 0,
        (UpsertUpstream, "read_changes", _wherever_their_keys_lie),
    ),
    _plant(
        "away-unnoticed",
        "nobody asks whether tombstones that came after the version are still there",
        ("I1 covered", "I7 loud"), 15,
        (UpsertUpstream, "_is_away", _never_away),
    ),
    _plant(
        "last-partition-is-empty",
        "the last partition counts as covered from the beginning",
        ("I1 covered", "I7 loud"), 0,
        (places, "beyond", _last_partition_is_empty),
    ),
    _plant(
        "part-of-a-partition-unread",
        "a chunk that ends within a partition does not read it",
        ("I1 covered", "I7 loud"), 0,
        (places, "is_in", _only_whole_partitions),
    ),
    _plant(
        "compared-with-what-came-later",
        "a row that was replaced after the version is missed when the target is compared",
        ("I7 loud",), 0,
        (UpsertUpstream, "comparable", _with_what_came_later),
    ),
    _plant(
        "row-of-another-partition",
        "a message replaces the row of its key that comes from another partition",
        ("I7 loud", "I1 covered"), 0,
        (MemoryTarget, "_refuse_moved", _unchecked), script_of=script_of_stray,
    ),
)  # fmt: skip
