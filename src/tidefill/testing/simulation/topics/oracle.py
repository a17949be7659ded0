"""What the target of a topic has to hold after each commit: a replay of the topic up to the recorded offsets.

A topic forgets. A message that was gone before it was taken in may be missing, if a person was told of it (compaction
is what a topic is asked for, and needs no word). Which messages are missing is settled by the commit that passes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidefill.core.version import Offsets, Version
from tidefill.kafka.spans import Span
from tidefill.kafka.upstream import EARLIEST, LATEST, moment_ms
from tidefill.testing.memory.tables import Row, Table
from tidefill.testing.memory.topic import Topic, row_that_is_kept
from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.checkers import Checkers, Rank, Seen, inside, rank

Place = tuple[int, int]
_TOLD = re.compile(r"partition (\d+): offsets (\d+) to (\d+) expired before they were filled")


def ends_of(version: Version) -> dict[int, int]:
    """The next offset of each partition."""
    assert isinstance(version.point, Offsets)
    return dict(version.point.next)


def carried(version: Version, name: str) -> dict[int, int]:
    """What a version carries by partition."""
    found: Mapping[str, int] = json.loads(version.carry)[name]
    return {int(number): value for number, value in found.items()}


def is_of(topic: Topic, version: Version) -> bool:
    """Whether the topic is the one of that version, and was not cut before it."""
    epochs = carried(version, "epochs")
    return topic.identity == version.identity and all(
        number < len(topic.logs) and topic.logs[number].has(end, epochs.get(number, 0))
        for number, end in ends_of(version).items()
    )


def replay(topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]) -> list[Row]:
    """A row for each message that was ever there between these offsets."""
    spans = [Span(number, begins.get(number, 0), end) for number, end in ends.items()]
    return [
        row_that_is_kept(span.partition, offset, message)
        for span in spans
        for offset, message in sorted(topic.logs[span.partition].messages.items())
        if span.begin <= offset < span.end and message.transaction not in topic.aborted
    ]


@dataclass(slots=True)
class Generation:
    """`promised`: places that were covered by the last commit. `missing`: those that were gone before they were taken
    in. `stale`: its last commit is of a log that is not there any more."""

    begins: dict[int, int]
    promised: set[Place] = field(default_factory=set)
    missing: set[Place] = field(default_factory=set)
    stale: bool = False


@dataclass(slots=True)
class TopicCheckers(Checkers):
    """`find`: the topic as it is now. `told`: the events of the job that has that table."""

    find: Callable[[], Topic] = field(kw_only=True)
    told: Callable[[str], Iterable[str]] = field(kw_only=True)
    begin: str = EARLIEST
    generations: dict[tuple[str, str], Generation] = field(default_factory=dict)

    def covered(self, table: Table, after: Seen) -> None:
        """I1, and that no job goes on over a log that was cut."""
        topic, version = self.find(), after.state.versions["t"]
        begins = carried(version, "begins")
        if after.state.step == 1:
            self.generations[table.identity, after.generation_uuid] = Generation(begins)
            if is_of(topic, version):
                self._begun_right(topic, begins)
        generation = self.generations[table.identity, after.generation_uuid]
        if generation.stale:
            raise Violation("I7 loud", "went on after the topic was cut or made again")
        if begins != generation.begins:
            raise Violation("I2 monotone", f"begins at {begins}, and began at {generation.begins}")
        generation.stale = not is_of(topic, version)
        if not generation.stale:
            self._replayed(topic, generation, table, after)

    def _begun_right(self, topic: Topic, begins: Mapping[int, int]) -> None:
        for number, begin in begins.items():
            newest = self._newest_begin(topic, number)
            if begin > newest:
                raise Violation("I1 covered", f"begins at {begin} of partition {number}, where {newest} is there")
            first = topic.logs[number].messages.get(begin)
            if first is not None and self.begin not in (EARLIEST, LATEST) and first.at_ms < moment_ms(self.begin):
                raise Violation("I1 covered", f"begins at {begin} of partition {number}, which is older")

    def _newest_begin(self, topic: Topic, number: int) -> int:
        """The begin of a partition may not lie behind this offset, now that there may be more messages."""
        if self.begin == EARLIEST:
            return topic.logs[number].earliest
        if self.begin == LATEST:
            return topic.stable(number)
        since = topic.first_since(number, moment_ms(self.begin))
        return topic.logs[number].high if since is None else since

    def _replayed(self, topic: Topic, generation: Generation, table: Table, after: Seen) -> None:
        promised = {
            row[0]: row
            for row in replay(topic, generation.begins, ends_of(after.state.versions["t"]))
            if inside(after.stretches["t"], self.place(row))
        }
        bag = table.snapshots[-1]
        for partition, offset in promised.keys() - generation.promised - bag.keys():
            if topic.logs[partition].is_gone(offset):
                generation.missing.add((partition, offset))
                self._told_of(topic, table, partition, offset)
        generation.promised = set(promised)
        self.equal([row for place, row in promised.items() if place not in generation.missing], bag)

    def _told_of(self, topic: Topic, table: Table, partition: int, offset: int) -> None:
        if offset in topic.logs[partition].compacted:
            return
        spans = [tuple(map(int, found.groups())) for text in self.told(table.identity) if (found := _TOLD.match(text))]
        if not any(number == partition and first <= offset <= last for number, first, last in spans):
            raise Violation("I7 loud", f"offset {offset} of partition {partition} expired, and nobody was told")

    def start_is_fixed(self, after: Seen) -> None:
        """What lies above the end of EACH partition is covered at once."""
        ends = ends_of(after.state.versions["t"])
        for number in range(max(ends, default=-1) + 2):
            above: Rank = rank((number, ends.get(number, 0)))
            if not inside(after.stretches["t"], above):
                raise Violation("I5 progress", f"may chase the tail of partition {number}: {after.stretches['t']}")
