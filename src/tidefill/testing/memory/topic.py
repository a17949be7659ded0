"""A topic of a Kafka cluster in memory: the brokers, and a reader of messages, below the production upstream.

It does what a real one does to the unwary: offsets have gaps (compaction, markers and aborted messages), the oldest
messages go at any time, a new leader may not have the newest, a leader that was replaced answers with older ends, a
topic that was made again answers with its own messages, and a frame is read long after it was made.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidefill.core.keys import Key
from tidefill.core.version import Offsets
from tidefill.core.walk import Range
from tidefill.errors import BadMessage, KeyNotUnique, Unavailable, Unreadable
from tidefill.kafka.look import TOMBSTONES_MS, PartitionLook, TopicLook, TopicSetUp
from tidefill.kafka.spans import Span
from tidefill.testing.memory.tables import Frame, Row, weighted
from tidefill.testing.memory.world import World

NO_TRANSACTION = 0
BEHIND_MAX = 3  # looks
RETENTION_MS = 604_800_000
UNREADABLE = "unreadable"
"""A value that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of an open or aborted transaction cannot be read. `at_ms`: its time, as its producer gives it.
    `sent_s`: when it was sent."""

    key: object
    value: Any
    transaction: int = NO_TRANSACTION
    at_ms: int = 0
    sent_s: float = 0.0


@dataclass(slots=True)
class Log:
    """One partition. `messages` by offset: those that were ever written and not cut off; a marker of a transaction has
    an offset, and no message. `expired` are the offsets below `earliest`; `compacted` are gone too, and so are
    tombstones that were `buried`. `held_s`: when messages could be read that an open transaction had held back.
    `leaders`: epoch and first offset."""

    messages: dict[int, Message] = field(default_factory=dict)
    earliest: int = 0
    high: int = 0
    compacted: set[int] = field(default_factory=set)
    buried: set[int] = field(default_factory=set)
    held_s: dict[int, float] = field(default_factory=dict)
    leaders: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    @property
    def epoch(self) -> int:
        """Of the leader."""
        return self.leaders[-1][0]

    def append(self, message: Message | None) -> int:
        """The offset of the message, or of the marker that None stands for."""
        if message is not None:
            self.messages[self.high] = message
        self.high += 1
        return self.high - 1

    def lead(self, messages_lost: int = 0) -> None:
        """Another leader, which does not have the newest messages."""
        self.high = max(self.earliest, self.high - messages_lost)
        self.messages = {offset: each for offset, each in self.messages.items() if offset < self.high}
        self.compacted = {offset for offset in self.compacted if offset < self.high}
        self.buried = {offset for offset in self.buried if offset < self.high}
        epoch = self.epoch + 1
        self.leaders = [*((old, first) for old, first in self.leaders if first < self.high), (epoch, self.high)]

    def has(self, offset: int, epoch: int) -> bool:
        """Whether what a leader of that epoch had below the offset is what the log has there."""
        end = min((first for later, first in self.leaders if later > epoch), default=self.high)
        return offset <= end

    def is_gone(self, offset: int) -> bool:
        """Whether it was there once."""
        return offset < self.earliest or offset in self.compacted or offset in self.buried


@dataclass(slots=True)
class Topic:
    """All partitions of one topic of one identity. `opened`: transactions that have not ended, and the first offset of
    each partition in which they have a message. Each message has a time a millisecond after the one before. `lag_s`:
    for how long a message replaces no other, `tombstones_s`: for how long a tombstone stays, both by `now_s`."""

    identity: str
    logs: list[Log]
    opened: dict[int, dict[int, int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    transactions: int = NO_TRANSACTION
    policy: str = "delete"
    sent: int = 0
    lag_s: float = 0.0
    tombstones_s: float = TOMBSTONES_MS / 1000
    now_s: Callable[[], float] = lambda: 0.0

    def grow(self) -> None:
        """A partition more."""
        self.logs = [*self.logs, Log()]

    def begin(self) -> int:
        """A transaction."""
        self.transactions += 1
        self.opened[self.transactions] = {}
        return self.transactions

    def send(self, partition: int, key: object, value: object, transaction: int = NO_TRANSACTION) -> None:
        """One message."""
        self.sent += 1
        offset = self.logs[partition].append(Message(key, value, transaction, self.sent, self.now_s()))
        if transaction:
            self.opened[transaction].setdefault(partition, offset)

    def end(self, transaction: int, *, commit: bool) -> None:
        """A marker in each partition; what was aborted is never read."""
        if not commit:
            self.aborted.add(transaction)
        ended = self.opened.pop(transaction)
        for partition, first in ended.items():
            log = self.logs[partition]
            log.append(None)
            log.held_s.update(dict.fromkeys(range(first, self.stable(partition)), self.now_s()))

    def stable(self, partition: int) -> int:
        """The offset before which all transactions have ended."""
        log = self.logs[partition]
        return min([log.high, *(first[partition] for first in self.opened.values() if partition in first)])

    def stable_ends(self) -> Offsets:
        """Of all partitions."""
        return Offsets.of({number: self.stable(number) for number in range(len(self.logs))})

    def first_since(self, partition: int, moment_ms: int) -> int | None:
        """The offset of the first message that is there and is not older."""
        log = self.logs[partition]
        since = (offset for offset, message in log.messages.items() if message.at_ms >= moment_ms)
        return next((offset for offset in since if not log.is_gone(offset)), None)

    def expire(self, partition: int, before: int) -> None:
        """As retention does it."""
        log = self.logs[partition]
        log.earliest = max(log.earliest, min(before, self.stable(partition)))

    def compact(self, partition: int) -> None:
        """Of each key only the newest message stays; what may still be aborted is left alone, and all that is younger
        than the lag. A tombstone that is old enough goes too."""
        log, newest = self.logs[partition], dict[object, int]()
        now_s, old = self.now_s(), Span(partition, log.earliest, self.stable(partition))
        for offset, message in self.messages_in(old):
            if now_s - message.sent_s < self.lag_s:
                break
            if message.key in newest:
                log.compacted.add(newest[message.key])
            newest[message.key] = offset
        for offset in newest.values():
            message = log.messages[offset]
            since_s = max(message.sent_s, log.held_s.get(offset, 0.0))
            if message.value is None and now_s - since_s >= self.tombstones_s:
                log.buried.add(offset)

    def lead(self, partition: int, messages_lost: int = 0) -> None:
        """Another leader. A transaction of which it knows nothing has no message there."""
        log = self.logs[partition]
        log.lead(messages_lost)
        for first in self.opened.values():
            if first.get(partition, -1) >= log.high:
                del first[partition]
        log.held_s = {offset: since_s for offset, since_s in log.held_s.items() if offset < log.high}

    def messages_in(self, span: Span) -> list[tuple[int, Message]]:
        """Those that can be read, by offset."""
        log = self.logs[span.partition]
        return [
            (offset, message)
            for offset, message in log.messages.items()
            if span.begin <= offset < span.end
            and message.transaction not in self.aborted
            and message.transaction not in self.opened
            and not log.is_gone(offset)
        ]


class Brokers:
    """The cluster that has whatever topic `find` gives now. `behind`: the partition that answers as it did a few looks
    ago, if one does: a leader that does not know yet that it is none."""

    name = "events"

    def __init__(
        self, world: World, find: Callable[[], Topic], behind: Callable[[], int | None] = lambda: None
    ) -> None:
        self._world = world
        self._find = find
        self._behind = behind
        self._looks: list[TopicLook] = []
        self.groups: dict[str, Offsets] = {}

    def look(self, topic: str) -> TopicLook:
        """Where the partitions begin and end now."""
        self._world.effect("upstream.look")
        found, behind = self._find(), self._behind()
        now = TopicLook(found.identity, {number: _look_at(found, number) for number in range(len(found.logs))})
        self._looks = [*self._looks[-BEHIND_MAX:], now]
        old = self._looks[0]
        if behind is None or old.identity != now.identity or behind not in old.partitions:
            return now
        return TopicLook(now.identity, {**now.partitions, behind: old.partitions[behind]})

    def set_up(self, topic: str) -> TopicSetUp:
        """Whether it is compacted, and how soon."""
        self._world.effect("upstream.prepare")
        found = self._find()
        times = (RETENTION_MS, round(found.lag_s * 1000), round(found.tombstones_s * 1000))
        return TopicSetUp("compact" in found.policy, "delete" in found.policy, *times)

    def offsets_at(self, topic: str, numbers: list[int], moment_ms: int) -> dict[int, int]:
        """By the time of each message that is there."""
        self._world.effect("upstream.times")
        found = {number: self._find().first_since(number, moment_ms) for number in numbers}
        return {number: offset for number, offset in found.items() if offset is not None}

    def still_has(self, topic: str, partition: int, offset: int, epoch: int) -> bool:
        """By the epochs of the leaders."""
        self._world.effect("upstream.check")
        found = self._find()
        return partition < len(found.logs) and found.logs[partition].has(offset, epoch)

    def write_offsets(self, group: str, topic: str, at: Offsets) -> None:
        """Note them."""
        self._world.effect("upstream.release")
        self.groups[group] = at
        self._world.effect("upstream.released")


def _look_at(topic: Topic, number: int) -> PartitionLook:
    log = topic.logs[number]
    return PartitionLook(log.earliest, topic.stable(number), log.high, log.epoch)


class MessageReader:
    """Reads the topic by its name, message by message. `row_of`: makes a row of a message at a partition and offset,
    BadMessage if it cannot be read."""

    def __init__(self, world: World, find: Callable[[], Topic], row_of: Callable[[int, int, Message], Any]) -> None:
        self._world = world
        self._find = find
        self._row_of = row_of

    def read(self, spans: Sequence[Span]) -> Frame:
        """Evaluated late, span by span, and anything may happen between two of them."""

        def evaluate() -> list[Row]:
            found: list[Row] = []
            for span in spans:
                self._world.effect("upstream.rows.read")
                self._refuse(span)
                found += [self._row_of(span.partition, *each) for each in self._find().messages_in(span)]
            return found

        return evaluate

    def came(self, spans: Sequence[Span]) -> Frame:
        """With a weight."""
        rows = self.read(spans)
        return lambda: weighted(rows(), 1)

    def _refuse(self, span: Span) -> None:
        """As the connector does it: it reads all of the span, or fails."""
        topic = self._find()
        if span.partition >= len(topic.logs):
            raise Unreadable(f"there is no partition {span.partition}")
        log = topic.logs[span.partition]
        if span.begin < log.earliest or span.end > log.high:
            raise Unreadable(f"offsets of {span} are gone")
        if span.end > topic.stable(span.partition):
            self._world.seen["read past a transaction"] += 1
            raise Unavailable("a transaction is open: there is no answer in time")


def row_of_message(partition: int, offset: int, message: Message) -> Row:
    """A row, as a replica that appends has it."""
    if message.value == UNREADABLE:
        raise BadMessage(f"partition {partition}, offset {offset} cannot be read")
    return ((partition, offset), partition, offset, message.value)


def row_that_is_kept(partition: int, offset: int, message: Message) -> Row:
    """The same where bad messages are kept."""
    if message.value == UNREADABLE:
        return ((partition, offset), partition, offset, None)
    return row_of_message(partition, offset, message)


class NewestReader(MessageReader):
    """And of each key its newest message. A row is key, partition, hash, offset and value."""

    def __init__(self, world: World, find: Callable[[], Topic]) -> None:
        super().__init__(world, find, keyed_row)

    def _newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> list[Row]:
        """A row for each key, its value None for a tombstone."""
        found: dict[object, Row] = {}
        for row in self.read(spans)():
            if any(part.holds(Key((row[1], row[2]))) for part in ranges):
                before = found.get(row[0])
                if before is not None and before[1] != row[1]:
                    raise KeyNotUnique(f"the key {row[0]!r} is there in two partitions")
                found[row[0]] = row
        for row in found.values():
            if row[-1] == UNREADABLE:
                raise BadMessage(f"partition {row[1]}, offset {row[3]} cannot be read")
        return list(found.values())

    def newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> Frame:
        """Without tombstones."""
        return lambda: [row for row in self._newest(spans, ranges) if row[-1] is not None]

    def net(self, spans: Sequence[Span], ranges: Sequence[Range]) -> Frame:
        """With weights."""
        return lambda: [(-1 if row[-1] is None else 1, row) for row in self._newest(spans, ranges)]

    def keys(self, spans: Sequence[Span], ranges: Sequence[Range]) -> Frame:
        """Each once."""
        return lambda: weighted([row[0] for row in self._newest(spans, ranges)], -1)

    def in_two_partitions(self, spans: Sequence[Span]) -> list[str]:
        """By all messages that are there."""
        places = {(row[0], row[1]) for row in self.read(spans)()}
        return [str(key) for key, number in Counter(key for key, _ in places).items() if number > 1][:10]


def hash_of(key: object) -> int:
    """The hash by which a topic is walked."""
    return zlib.crc32(str(key).encode())


def keyed_row(partition: int, offset: int, message: Message) -> Row:
    """A row, as a replica has it that keeps the newest message of a key."""
    if message.key is None:
        raise BadMessage(f"partition {partition}, offset {offset} has no key")
    return (message.key, partition, hash_of(message.key), offset, message.value)
