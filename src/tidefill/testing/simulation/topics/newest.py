"""What the target of a topic has to hold after each commit where the newest message of a key counts.

It is worked out from all messages that there ever were. Two things are forgiven, each for a key that the topic lets us
know no better: a message that had expired before its key was taken in, if a person was told; and a message that was
compacted away because of one that came after the version: its row is what it was, or is not there, until the version
has the newer message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidefill.testing.memory.tables import Row, Table
from tidefill.testing.memory.topic import Topic, keyed_row
from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.checkers import Rank, Seen, inside, rank
from tidefill.testing.simulation.topics.oracle import Generation, TopicCheckers, ends_of

Home = tuple[int, object]
LATE_S_MAX = 300.0
"""Longer than a runner sleeps in a step that it commits all the same. For so long a row may be late."""

LEFT_MIN = 10
"""So many messages come after a version at least, if it is short of the end because there are too many for a step."""


def newest(topic: Topic, begins: dict[int, int], ends: dict[int, int]) -> dict[Home, Row]:
    """The row of the newest message of each key in each partition, its value None for a tombstone."""
    found: dict[Home, Row] = {}
    for number, end in ends.items():
        log = topic.logs[number]
        for offset, message in sorted(log.messages.items()):
            if begins.get(number, 0) <= offset < end and message.transaction not in topic.aborted:
                found[number, message.key] = keyed_row(number, offset, message)
    return found


def live_twice(topic: Topic) -> bool:
    """Whether the messages of two partitions give a key a row each."""
    ends = {number: log.high for number, log in enumerate(topic.logs)}
    begins = {number: log.earliest for number, log in enumerate(topic.logs)}
    keys = [row[0] for row in newest(topic, begins, ends).values() if row[-1] is not None]
    return len(set(keys)) < len(keys)


@dataclass(slots=True)
class UpsertCheckers(TopicCheckers):
    """`taken`: of each table, the offset of the newest message of each key that was covered by its last commit.
    `prompt`: the leaders answer with what they have, so that a version is the end of the topic."""

    prompt: bool = True
    taken: dict[str, dict[Home, int]] = field(default_factory=dict)

    def _replayed(self, topic: Topic, generation: Generation, table: Table, after: Seen) -> None:
        version = after.state.versions["t"]
        found = newest(topic, generation.begins, ends_of(version))
        covered = {home: row for home, row in found.items() if inside(after.stretches["t"], self.place(row))}
        before = self.taken.get(table.identity, {})
        self.taken[table.identity] = {home: row[3] for home, row in covered.items()}
        live = [row for row in covered.values() if row[-1] is not None]
        if len({row[0] for row in live}) < len(live):
            return  # a key in two partitions: it is a stop, and no table can be right
        bag = table.snapshots[-1]
        forgiven = set(self._forgiven(topic, table, after, covered, before))
        expected = {row[0]: (row,) for row in live if row[0] not in forgiven}
        is_there = {key: rows for key, rows in bag.items() if key not in forgiven}
        if expected != is_there:
            self.equal([row for (row,) in expected.values()], is_there)

    def _forgiven(
        self, topic: Topic, table: Table, after: Seen, covered: dict[Home, Row], before: dict[Home, int]
    ) -> Iterator[object]:
        """The keys of which the row may be another, or none."""
        past = table.snapshots[-2] if len(table.snapshots) > 1 else {}
        now = table.snapshots[-1]
        for home, row in covered.items():
            key, number, offset = row[0], row[1], row[3]
            log = topic.logs[number]
            if offset in log.compacted and self._is_replaced(topic, home, ends_of(after.state.versions["t"])):
                if now.get(key, ()) not in ((), (row,), past.get(key, ())):
                    raise Violation("I1 covered", f"{key!r} is {now[key]}, and was {past.get(key, ())}")
                yield key
            elif offset < log.earliest and before.get(home) == offset:
                if now.get(key, ()) == past.get(key, ()):
                    yield key
            elif offset < log.earliest and key not in now and row[-1] is not None:
                self._told_of(topic, table, number, offset)
                yield key

    def _is_replaced(self, topic: Topic, home: Home, ends: dict[int, int]) -> bool:
        """Whether a message of the key came after the version, and not long ago, unless the version is short of the
        end."""
        number, key = home
        log, end = topic.logs[number], ends.get(home[0], 0)
        came_s = [
            max(message.sent_s, log.held_s.get(offset, 0.0))
            for offset, message in log.messages.items()
            if offset >= end and message.key == key and message.transaction not in topic.aborted
        ]
        left = sum(topic.stable(each) - ends.get(each, 0) for each in range(len(topic.logs)))
        short = left >= LEFT_MIN or not self.prompt
        return bool(came_s) and (short or topic.now_s() - min(came_s) < LATE_S_MAX)

    def start_is_fixed(self, after: Seen) -> None:
        """What lies in no partition that has messages is covered at once."""
        version = after.state.versions["t"]
        ends = ends_of(version)
        beyond: Rank = rank((max(ends, default=-1) + 1, 0))
        if not inside(after.stretches["t"], beyond):
            raise Violation("I5 progress", f"may chase new partitions: {after.stretches['t']}")
