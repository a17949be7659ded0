"""A Kafka topic as a table: the newest message of a key is its row, and a tombstone deletes it.

It is the same log as that of a replica that appends (`KafkaUpstream`): the same versions, and the same checks. It is
walked by places of keys (`places`), not by offsets.

A log that is compacted keeps the newest message of a key and forgets the older ones, whoever still reads them. Three
things follow:

- Its versions do not last. A version is read for as long as no message replaces another (`min.compaction.lag.ms`), or
  for a moment; then the job goes on to the newest one.
- A tombstone goes too, after `delete.retention.ms`. Whoever was away for longer has not seen what was deleted: then the
  covered part is read once more.
- What was written after a version is left out when a target is compared with it.

Example: the target is at offset 10 and has (a, 1). A producer sends a tombstone of a, at offset 10. The job is away for
three days, and the topic keeps tombstones for one. The next message has the offset 11: nothing tells of a any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.version import Offsets, Version
from tidefill.core.walk import Coverage, Range, Split, covered_ranges, rest
from tidefill.errors import HistoryGone, KeyNotUnique, UpstreamReplaced
from tidefill.kafka import places, spans
from tidefill.kafka.look import TopicSetUp
from tidefill.kafka.seams import FEW_MESSAGES, KeyReader
from tidefill.kafka.spans import Span
from tidefill.kafka.upstream import EVERYTHING, RESYNC, KafkaUpstream, carried, offsets_of
from tidefill.ports.frames import Changes, Comparable, F
from tidefill.ports.upstream import UpstreamLook

READABLE_S = 15.0
"""A version of a topic whose messages may be replaced at once can be read for so long: a log is seldom cleaned more
often."""

SET_UP_S = 60.0  # how often it is asked what the topic is set to keep
NEW_TOPIC = "Send its messages to a new topic with as many partitions as it will need, and make a replica of that."


class UpsertUpstream(Generic[F]):
    """`log`: the topic, as it is read. `set_up`: asks what the topic is set to keep."""

    lasting = True

    def __init__(
        self,
        log: KafkaUpstream[F],
        reader: KeyReader[F],
        set_up: Callable[[], TopicSetUp],
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._log = log
        self._reader = reader
        self._ask = set_up
        self._now_s = now_s
        self._keeps = TopicSetUp()
        self._asked_s = self._looked_s = 0.0
        self._at: Version | None = None
        self._released: Version | None = None
        self._quiet: tuple[Offsets, float] | None = None
        self._is_end = False
        self.resources = log.resources

    def prepare(self, released: Version | None) -> None:
        """Nothing has to be made."""
        self._log.prepare(released)
        self._released = released
        self._look_at_set_up()

    def _look_at_set_up(self) -> None:
        self._keeps, self._asked_s = self._ask(), self._now_s()

    # Versions.

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """The end of each partition. Where the covered part is read once more, that is no matter of how many messages
        came. The version carries when it was seen that nothing came after it."""
        looked_s = self._now_s() if first or self._at is None else self._looked_s
        whole = self._at is not None and self._is_away(self._at)
        with self._log.open_head(first=first, whole=whole) as head:
            at = None if first else self._at
            yield _stamped(head, looked_s if at is None else self._seen_s_of(head, at))

    def _seen_s_of(self, head: Version, at: Version) -> float:
        """Of a head that is short of the end, only what is known of the version before it. Of an end that has not
        moved, a time that changes seldom: it is written to the store."""
        if head.point == at.point:
            written_s, known_s = self._written_s(at), self._last_seen_s(at)
            return written_s if known_s - written_s < self._tombstones_s / 8 else known_s
        reaches = offsets_of(head).includes(self._log.last_look().stable)
        return self._looked_s if reaches else self._last_seen_s(at)

    def _written_s(self, at: Version) -> float:
        """When it was seen that nothing came after the version, as the target and the store know it."""
        released = self._released
        same = released is not None and released.identity == at.identity and released.point == at.point
        return max(_seen_s(at), _seen_s(released) if released is not None and same else 0.0)

    def _last_seen_s(self, at: Version) -> float:
        """The same, as this process knows it."""
        quiet = self._quiet
        return max(self._written_s(at), quiet[1] if quiet is not None and quiet[0] == at.point else 0.0)

    @property
    def _is_compacted(self) -> bool:
        return self._keeps.compacted is not False

    @property
    def _tombstones_s(self) -> float:
        return self._keeps.tombstones_ms / 1000

    def _is_away(self, at: Version, share: float = 1.0) -> bool:
        """Whether tombstones that came after the version may be gone. To read takes time too: half of the time for
        which they stay is taken for that. `share`: for less."""
        return self._is_compacted and self._now_s() - self._last_seen_s(at) > share * self._tombstones_s / 2

    def newest_from(self, base: str, number: int) -> None:
        """No version of it has a number."""

    def readable(self, at: Version) -> bool:
        """As long as no message after it can have replaced one before it."""
        if not self._is_compacted or (self._is_end and self._at == at):
            return True
        return self._now_s() - self._last_seen_s(at) < max(READABLE_S, self._keeps.lag_ms / 2000)

    def look(self, at: Version) -> UpstreamLook:
        """Tombstones are the history that runs short."""
        runs_short = self._is_away(at, 0.5)
        return replace(self._log.look(at), readable=self.readable(at), history_runs_short=runs_short)

    def notices(self) -> Sequence[str]:
        """Those of the log."""
        return self._log.notices()

    def check(self, at: Version) -> None:
        """And no partition more: a key may live in another one after that."""
        looked_s = self._now_s()
        if not 0.0 <= looked_s - self._asked_s < SET_UP_S:
            self._look_at_set_up()
        self._log.check(at)
        seen, known = self._log.last_look(), carried(at, "epochs")
        new = sorted(seen.partitions.keys() - known.keys())
        if new:
            raise UpstreamReplaced(
                f"the topic has got a partition {new[0]}, and keys may live in another partition now",
                hint=f"{NEW_TOPIC} RESYNC builds this replica anew, if no key has a row in two partitions.",
            )
        self._at, self._looked_s = at, looked_s
        self._is_end = offsets_of(at).includes(seen.stable)
        if self._is_end:
            self._quiet = offsets_of(at), looked_s

    def on_unreadable(self, at: Version) -> None:
        """The next look knows it."""

    # Changes.

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By offsets. HistoryGone where what is covered cannot be read once more, as it has expired."""
        if not self._after(after, upto, covered_ranges(coverage)):
            return Changed.NOTHING
        if not self._is_away(after):
            return Changed.SOME
        if self._keeps.deletes and self._keeps.retention_ms != -1:
            raise HistoryGone(
                "deletes of the topic may be gone, and so may rows that were taken in",
                detail=f"Tombstones stay for {self._tombstones_s:,.0f} s (delete.retention.ms), and the topic also "
                "forgets by age (retention.ms).",
                hint=RESYNC,
            )
        return Changed.ALL

    def _after(self, after: Version, upto: Version, ranges: Sequence[Range]) -> list[Span]:
        begins, ends = self._log.counted(after), offsets_of(upto)
        found = [Span(number, begins.at(number), end) for number, end in ends.next if _holds_some(ranges, number)]
        return [span for span in found if span.length > 0]

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[F]:
        """The newest message of each covered key."""
        ranges = covered_ranges(coverage)
        new = self._after(after, upto, ranges)
        few = sum(span.length for span in new) <= FEW_MESSAGES
        return Changes(self._reader.net(new, ranges), images=False, few=few, net=True)

    def rows_written(self, after: Version, upto: Version) -> int:
        """Unknown: the target is not computed anew because that is cheaper."""
        return 0

    # Rows.

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """What the newest messages are, of what is left."""
        return self._reader.newest(self._spans(ranges, at), ranges)

    def _spans(self, ranges: Sequence[Range], at: Version) -> list[Span]:
        left = spans.spans_in(EVERYTHING, offsets_of(at), self._log.left(at))
        return [span for span in left if _holds_some(ranges, span.partition)]

    def comparable(self, at: Version) -> Comparable[F] | None:
        """A row that the target has stays where its message expired. A place of the target is partition and offset."""
        gone = self._log.expired(at)
        within = spans.without(gone) if gone else None
        if not self._is_compacted:
            return Comparable(within) if gone else None
        now = replace(at, point=offsets_of(at).joined(self._log.last_look().stable))
        everything = [EVERYTHING]
        return Comparable(within, self._reader.keys(self._after(at, now, everything), everything))

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """The ends of partitions, and even parts of the hashes. What expired before it was filled is told here."""
        left = rest(split)
        if left is None:
            return ()
        there = {span.partition: span.length for span in self._spans([left], at)}
        for span in self._log.expired_before(at):
            if places.is_in(left, span.partition):
                self._log.tell_expired(span)
        return places.bounds_in(left, there, rows) if sum(there.values()) > rows else ()

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """What lies in no partition that has messages."""
        return places.beyond({span.partition: span.length for span in self._spans([EVERYTHING], at)})

    def row_count(self, at: Version) -> int:
        """At most: a key has one row, and perhaps many messages."""
        return self._log.row_count(at)

    def row_estimate(self) -> int:
        """The same."""
        return self._log.row_estimate()

    def check_keys(self, at: Version) -> None:
        """KeyNotUnique if a key has messages in two partitions: nobody can tell which is newer."""
        found = self._reader.in_two_partitions(self._spans([EVERYTHING], at))
        if found:
            raise KeyNotUnique(
                "a key of the topic has messages in two partitions",
                detail=f"e.g. {', '.join(found)}",
                hint=f"Its producers choose partitions in different ways. {NEW_TOPIC}",
            )

    def release(self, version: Version) -> None:
        """Note in the group how far the topic was read. The version is in the target or in the store now."""
        self._released = version
        self._log.release(version)


def _holds_some(ranges: Sequence[Range], partition: int) -> bool:
    return any(places.is_in(part, partition) for part in ranges)


def _seen_s(version: Version) -> float:
    seen_s: float = json.loads(version.carry).get("seen_s", 0.0)
    return seen_s


def _stamped(version: Version, seen_s: float) -> Version:
    return replace(version, carry=json.dumps({**json.loads(version.carry), "seen_s": int(seen_s)}))
