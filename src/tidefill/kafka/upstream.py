"""A Kafka topic as an upstream that only grows: a version is the next offset of each partition.

A topic is walked by partition and offset, so a chunk, and what came after a version, are spans of offsets. Nothing that
was read changes later. What a topic may do: forget its oldest messages (retention), get partitions, be made again, and
lose its newest messages (a leader that did not have them). The last two stop the job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.reasons import Reason
from tidefill.core.version import Offsets, Version
from tidefill.core.walk import Coverage, Range, Split, covered_ranges, rest
from tidefill.errors import HistoryGone, InvalidSetting, RetryLater, UpstreamReplaced, UpstreamUnfit
from tidefill.jobs.resources import Resource
from tidefill.kafka import spans
from tidefill.kafka.look import PartitionLook, TopicLook
from tidefill.kafka.seams import FEW_MESSAGES, Cluster, LogReader
from tidefill.kafka.spans import Span
from tidefill.ports.frames import Changes, Comparable, F
from tidefill.ports.upstream import UpstreamLook

EARLIEST, LATEST = "earliest", "latest"
AHEAD_MAX = 5_000_000
"""Messages that one step takes in: after a long pause the next step has a bound all the same."""

OPEN_S = 60.0
"""A transaction that is open for so long is worth a word; a moment is what transactions take."""

EVERYTHING = Range(None, None)
HEADS_MAX = 1000
NOTICES_MAX = 1000
"""More than one look finds. Where retention runs beside a fill, each step may leave something out, and what was told is
among the events of the job."""

NO_RIGHT = "the offsets are not written to the consumer group: the user of the connection may not"
RESYNC = "RESYNC the job to build it anew from what the topic has now, or drop it."


@dataclass(slots=True)
class _Heads:
    """When which heads were first seen: how long something was not taken in is told by them."""

    seen: list[tuple[float, Offsets]] = field(default_factory=list)

    def add(self, now_s: float, head: Offsets) -> None:
        if (not self.seen or self.seen[-1][1] != head) and len(self.seen) < HEADS_MAX:
            self.seen.append((now_s, head))

    def lag_s(self, now_s: float, at: Offsets) -> float:
        self.seen = [(seen_s, head) for seen_s, head in self.seen if not at.includes(head)]
        return max(0.0, now_s - self.seen[0][0]) if self.seen else 0.0


class KafkaUpstream(Generic[F]):
    """A topic of a cluster. `reader` makes frames of spans. `group`: the consumer group in which it is noted how far
    the topic was read. `begin`: which messages are the first that count."""

    lasting = True

    def __init__(
        self,
        reader: LogReader[F],
        server: Cluster,
        topic: str,
        group: str,
        *,
        begin: str = EARLIEST,
        now_s: Callable[[], float] = time.time,
        ahead_max: int = AHEAD_MAX,
    ) -> None:
        self._reader = reader
        self._server = server
        self._topic = topic
        self._group = group
        self._begin = begin
        self._now_s = now_s
        self._ahead_max = ahead_max
        self._seen: TopicLook | None = None
        self._at: Version | None = None
        self._uncut: dict[int, tuple[int, int]] = {}
        self._heads = _Heads()
        self._open: dict[int, tuple[int, float]] = {}
        self._withheld: dict[int, int] = {}
        self._told: dict[str, None] = {}
        self._released: Offsets | None = None
        self.resources: tuple[Resource, ...] = (Resource("group", f"{server.name}/{group}"),)

    def prepare(self, released: Version | None) -> None:
        """Nothing has to be made: the group appears when offsets are written to it."""

    # Versions.

    def _look(self) -> TopicLook:
        seen, now_s = self._server.look(self._topic), self._now_s()
        self._seen = seen
        self._heads.add(now_s, seen.stable)
        self._look_at_transactions(seen, now_s)
        return seen

    def _look_at_transactions(self, seen: TopicLook, now_s: float) -> None:
        """A transaction is open if two looks find the same offset held back: of one look the two ends are of two
        moments."""
        opened = {number: part for number, part in seen.partitions.items() if part.stable < part.high}
        before = {number: self._open.get(number, (-1, now_s)) for number in opened}
        same = {number for number, part in opened.items() if before[number][0] == part.stable}
        self._open = {number: before[number] if number in same else (opened[number].stable, now_s) for number in opened}
        self._withheld = {number: opened[number].high - opened[number].stable for number in same}
        for number in sorted(same):
            if now_s - before[number][1] >= OPEN_S:
                self.tell(f"partition {number} waits for an open transaction at offset {opened[number].stable}")

    @contextmanager
    def open_head(self, *, first: bool, whole: bool = False) -> Iterator[Version]:
        """The end of each partition, up to the first open transaction. A leader may answer with an older end than the
        job has: the greater one counts. `check` has looked a moment ago. `whole`: however far that is."""
        if first or self._at is None or self._seen is None:
            seen = self._look()
            yield _version(seen.identity, seen.stable, seen.epochs, self._begins(seen))
        else:
            at = offsets_of(self._at)
            head = at.joined(self._seen.stable)
            head = head if whole else spans.at_most_ahead(at, head, self._ahead_max)
            epochs = _newest(carried(self._at, "epochs"), self._seen.epochs)
            yield _version(self._seen.identity, head, epochs, carried(self._at, "begins"))

    def _begins(self, seen: TopicLook) -> dict[int, int]:
        """The first offset of each partition that counts. It is fixed with the first version, and travels with it. What
        is before a time may lie behind a transaction that is still open: then it lies above the version."""
        earliest = seen.earliest.by_partition
        if self._begin == EARLIEST:
            return earliest
        if self._begin == LATEST:
            return seen.stable.by_partition
        found = self._server.offsets_at(self._topic, sorted(seen.partitions), moment_ms(self._begin))
        return {number: found.get(number, part.high) for number, part in seen.partitions.items()}

    def newest_from(self, base: str, number: int) -> None:
        """No version of it has a number."""

    def readable(self, at: Version) -> bool:
        """What a version has does not change."""
        return True

    def look(self, at: Version) -> UpstreamLook:
        """Nothing is kept for us. Messages behind an open transaction are there, and cannot be read yet."""
        withheld = sum(self._withheld.values())
        held = Reason.OPEN_TRANSACTION if withheld else None
        return UpstreamLook(True, lag_s=self._heads.lag_s(self._now_s(), offsets_of(at)), held=held, withheld=withheld)

    def notices(self) -> tuple[str, ...]:
        """What expired before it was filled, and other things to know."""
        return tuple(self._told)

    def tell(self, notice: str) -> None:
        self._told[notice] = None
        while len(self._told) > NOTICES_MAX:
            del self._told[next(iter(self._told))]

    def check(self, at: Version) -> None:
        """The same topic, which still has all messages after this version, and whose log was not cut before it."""
        seen = self._look()
        if seen.identity != at.identity:
            raise UpstreamReplaced(
                f"the topic {self._topic} was made again",
                detail=f"Its identity was {at.identity} and is {seen.identity}.",
                hint=RESYNC,
            )
        epochs = carried(at, "epochs")
        for number, offset in offsets_of(at).next:
            if number not in seen.partitions:
                raise UpstreamReplaced(f"the topic {self._topic} has no partition {number} any more", hint=RESYNC)
            self._check_uncut(number, offset, epochs.get(number, 0), seen.partitions[number])
        for number, part in seen.partitions.items():
            next_offset = self.counted(at).at(number)
            if part.earliest > next_offset:
                raise HistoryGone(
                    f"messages of the topic {self._topic} expired before they were taken in",
                    detail=f"Partition {number}: offsets {next_offset} to {part.earliest - 1}.",
                    hint=f"{RESYNC} A longer retention.ms of the topic gives more time.",
                )
        self._at = at

    def _check_uncut(self, number: int, offset: int, epoch: int, part: PartitionLook) -> None:
        """A new leader may not have all messages of the one before. Then other messages have their offsets."""
        if part.high >= offset and part.epoch == epoch:
            return
        if self._uncut.get(number) == (offset, part.epoch) and part.high >= offset:
            return
        if not self._server.still_has(self._topic, number, offset, epoch):
            raise UpstreamReplaced(
                f"the topic {self._topic} has lost messages that were taken in",
                detail=f"Partition {number} was cut before offset {offset}: it has another leader now.",
                hint=RESYNC,
            )
        self._uncut[number] = (offset, part.epoch)

    def on_unreadable(self, at: Version) -> None:
        """Messages have expired while they were read: the next look knows it."""

    # Changes: what came after a version.

    def counted(self, at: Version) -> Offsets:
        """The next offset of each partition that counts."""
        return offsets_of(at).joined(Offsets.of(carried(at, "begins")))

    def _after(self, after: Version, upto: Version, coverage: Coverage) -> list[Span]:
        begins = self.counted(after).by_partition
        return [span for part in covered_ranges(coverage) for span in spans.spans_in(part, offsets_of(upto), begins)]

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By offsets."""
        return Changed.SOME if self._after(after, upto, coverage) else Changed.NOTHING

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[F]:
        """New messages: none of them was ever covered, and none goes."""
        new = self._after(after, upto, coverage)
        few = sum(span.length for span in new) <= FEW_MESSAGES
        return Changes(self._reader.came(new), images=True, removes=False, few=few, fresh=True)

    def rows_written(self, after: Version, upto: Version) -> int:
        """A topic has forgotten what it had, so the target is never computed anew from it."""
        return 0

    # Rows.

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """What is left of these ranges, as of the last look: what expires after that fails to be read."""
        begins = self.left(at)
        return self._reader.read([span for part in ranges for span in spans.spans_in(part, offsets_of(at), begins)])

    def left(self, at: Version) -> dict[int, int]:
        """From where on the messages of each partition count, and are there."""
        begins = Offsets.of(carried(at, "begins"))
        return begins.joined(self.last_look().earliest).by_partition

    def last_look(self) -> TopicLook:
        return self._seen or self._look()

    def comparable(self, at: Version) -> Comparable[F] | None:
        """Above what has expired. A compacted topic may lack any message."""
        if self._server.set_up(self._topic).compacted:
            return Comparable(within=())
        gone = self.expired(at)
        return Comparable(spans.without(gone)) if gone else None

    def expired(self, at: Version) -> list[Span]:
        """The offsets that count and are gone, as of now."""
        return spans.spans_in(EVERYTHING, self._look().earliest, carried(at, "begins"))

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """By arithmetic. What expired before it was filled is told here: a commit follows that passes it."""
        left = rest(split)
        if left is None:
            return ()
        for span in self.expired_before(at, left):
            self.tell_expired(span)
        return spans.bounds_of(spans.spans_in(left, offsets_of(at), self.left(at)), rows)

    def expired_before(self, at: Version, part: Range = EVERYTHING) -> list[Span]:
        """The offsets below the version, in this range of the walk, that count and are gone, by the last look."""
        earliest = self.last_look().earliest.by_partition
        gone = {number: min(end, earliest.get(number, 0)) for number, end in offsets_of(at).next}
        return spans.spans_in(part, Offsets.of(gone), carried(at, "begins"))

    def tell_expired(self, span: Span) -> None:
        """That these are left out."""
        where = f"partition {span.partition}: offsets {span.begin} to {span.end - 1}"
        self.tell(f"{where} expired before they were filled")

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Below the begin and above the end of each partition."""
        return spans.beyond(offsets_of(at), self.left(at))

    def row_count(self, at: Version) -> int:
        """At most: transactions and compaction leave gaps."""
        return sum(span.length for span in spans.spans_in(EVERYTHING, offsets_of(at), self.left(at)))

    def row_estimate(self) -> int:
        """By the last look."""
        seen = self.last_look()
        begins = Offsets.of(carried(self._at, "begins") if self._at else {}).joined(seen.earliest).by_partition
        return sum(span.length for span in spans.spans_in(EVERYTHING, seen.stable, begins))

    def check_keys(self, at: Version) -> None:
        """A partition has an offset once."""

    def release(self, version: Version) -> None:
        """Note in the group how far the topic was read. Only people look at it, so it may fail."""
        point = offsets_of(version)
        if point == self._released:
            return
        try:
            self._server.write_offsets(self._group, self._topic, point)
        except RetryLater:
            return
        except UpstreamUnfit:
            self.tell(NO_RIGHT)
        except UpstreamReplaced:  # the next look says so
            return
        self._released = point


def moment_ms(text: str) -> int:
    """A time as a user writes it, `2026-11-18 10:00:00` in UTC or with its own zone, in milliseconds since 1970."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = f"Set it to {EARLIEST}, {LATEST}, or a time such as '2026-11-18 10:00:00'."
        raise InvalidSetting(f"from is {text!r}", hint=hint) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def offsets_of(version: Version) -> Offsets:
    assert isinstance(version.point, Offsets)
    return version.point


def _version(identity: str, point: Offsets, epochs: Mapping[int, int], begins: Mapping[int, int]) -> Version:
    carry = {
        "epochs": {str(number): epoch for number, epoch in sorted(epochs.items())},
        "begins": {str(number): offset for number, offset in sorted(begins.items()) if offset},
    }
    return Version(identity, point, json.dumps(carry))


def _newest(known: Mapping[int, int], told: Mapping[int, int]) -> dict[int, int]:
    """The greater epoch of each partition: a leader that was replaced may still tell its own, and its log is shorter
    than what was taken in."""
    return {number: max(known.get(number, 0), told.get(number, 0)) for number in {*known, *told}}


def carried(version: Version, name: str) -> dict[int, int]:
    """What a version carries by partition: `epochs` or `begins`."""
    data: dict[str, Any] = json.loads(version.carry)
    return {int(number): value for number, value in data[name].items()}
