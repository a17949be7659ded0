"""The rules of the upstream of newest messages, with a cluster that says what a test wants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kafka.test_upstream import Cluster
from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.version import Offsets, Version
from tidefill.core.walk import Range, Split, whole
from tidefill.errors import HistoryGone, KeyNotUnique, UpstreamReplaced
from tidefill.kafka import places
from tidefill.kafka.look import TopicSetUp
from tidefill.kafka.spans import Span
from tidefill.kafka.upsert import READABLE_S, UpsertUpstream
from tidefill.kafka.upstream import KafkaUpstream

EVERYTHING = Range(None, None)
TOMBSTONES_S = 1000.0
COMPACTED = TopicSetUp(compacted=True, deletes=False, retention_ms=-1, tombstones_ms=round(TOMBSTONES_S * 1000))


class Newest:
    """A frame is what it was asked for, and the spans that it reads."""

    twice: tuple[str, ...] = ()

    def read(self, spans: Sequence[Span]) -> tuple[str, list[Span]]:
        return "read", list(spans)

    def came(self, spans: Sequence[Span]) -> tuple[str, list[Span]]:
        return "came", list(spans)

    def newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> tuple[str, list[Span]]:
        return "newest", list(spans)

    def net(self, spans: Sequence[Span], ranges: Sequence[Range]) -> tuple[str, list[Span]]:
        return "net", list(spans)

    def keys(self, spans: Sequence[Span], ranges: Sequence[Range]) -> tuple[str, list[Span]]:
        return "keys", list(spans)

    def in_two_partitions(self, spans: Sequence[Span]) -> Sequence[str]:
        return self.twice


class Topic:
    """The topic, its upstream, and the time."""

    def __init__(self, *partitions: tuple[int, int, int, int], ahead_max: int = 1000) -> None:
        self.now_s = 10_000.0
        self.keeps = COMPACTED
        self.cluster = Cluster(*partitions)
        self.reader = Newest()
        self.ahead_max = ahead_max
        self.upstream = self.another()

    def another(self, released: Version | None = None) -> UpsertUpstream[Any]:
        """That of another process."""
        log: KafkaUpstream[Any] = KafkaUpstream(
            self.reader, self.cluster, "t", "group", now_s=lambda: self.now_s, ahead_max=self.ahead_max
        )
        made = UpsertUpstream(log, self.reader, lambda: self.keeps, now_s=lambda: self.now_s)
        made.prepare(released)
        return made

    def ends(self, *ends: int) -> None:
        self.cluster.partitions = [(0, end, end, 1) for end in ends]

    def head(self, at: Version | None = None) -> Version:
        """As the runner asks: check, then the head."""
        if at is not None:
            self.upstream.check(at)
        with self.upstream.open_head(first=at is None) as found:
            return found


def seen_s(version: Version) -> float:
    return float(json.loads(version.carry)["seen_s"])


def test_a_chunk_reads_its_partition_and_a_forward_what_is_new_in_those_that_are_covered() -> None:
    topic = Topic((0, 10, 10, 1), (0, 4, 4, 1))
    first = topic.head()
    middle = Key((0, places.HASHES // 2 - 1))
    assert list(topic.upstream.bounds(Split(None, None), 5, first)) == [middle, places.end(0), places.end(1)]
    assert topic.upstream.rows([Range(None, middle)], first) == ("newest", [Span(0, 0, 10)])
    topic.ends(12, 9)
    second = topic.head(first)
    covered = (Split(None, middle, whole()[0].position), Split(middle, None))
    changes = topic.upstream.read_changes(first, second, covered)
    assert (changes.rows, changes.net, changes.fresh) == (("net", [Span(0, 10, 12)]), True, False)
    assert topic.upstream.classify_changes(first, second, covered) is Changed.SOME
    assert topic.upstream.classify_changes(first, second, (Split(None, None),)) is Changed.NOTHING


def test_a_version_of_a_compacted_topic_is_readable_while_nothing_can_have_been_replaced() -> None:
    topic = Topic((0, 10, 10, 1))
    first = topic.head()
    topic.upstream.check(first)
    topic.now_s += 5000
    assert topic.upstream.readable(first), "nothing came after it"
    topic.ends(11)
    second = topic.head(first)
    topic.ends(12)
    topic.upstream.check(second)
    topic.now_s += READABLE_S - 1
    assert topic.upstream.readable(second)
    topic.now_s += 1
    assert not topic.upstream.readable(second)
    topic.keeps = TopicSetUp(True, False, -1, lag_ms=100_000)
    topic.now_s += 49 - READABLE_S
    assert topic.another().readable(second), "half of the lag"
    topic.keeps = TopicSetUp(compacted=False, deletes=True, retention_ms=-1)
    topic.now_s += 5000
    assert topic.another().readable(second)


def test_who_was_away_for_too_long_reads_the_covered_part_once_more() -> None:
    topic = Topic((0, 10, 10, 1))
    first = topic.head()
    topic.ends(20)
    topic.now_s += TOMBSTONES_S / 2
    assert topic.upstream.classify_changes(first, topic.head(first), whole()) is Changed.SOME
    topic.now_s += 1
    assert topic.upstream.look(first).history_runs_short
    assert topic.upstream.classify_changes(first, topic.head(first), whole()) is Changed.ALL
    topic.keeps = TopicSetUp(True, True, 1000, 0, round(TOMBSTONES_S * 1000))
    topic.now_s += 100
    head = topic.head(first)
    with pytest.raises(HistoryGone, match="deletes of the topic may be gone"):
        topic.upstream.classify_changes(first, head, whole())


def test_who_looks_is_not_away_and_the_next_process_knows_it() -> None:
    topic = Topic((0, 10, 10, 1))
    first = topic.head()
    idle = first
    for _ in range(30):
        topic.now_s += TOMBSTONES_S / 30
        idle = topic.head(first)
    assert idle.point == first.point
    assert 0 < topic.now_s - seen_s(idle) < TOMBSTONES_S / 4, "it is written seldom, and often enough"
    topic.ends(11)
    topic.upstream = topic.another(released=idle)
    assert topic.upstream.classify_changes(first, topic.head(first), whole()) is Changed.SOME
    topic.upstream = topic.another()
    assert topic.upstream.classify_changes(first, topic.head(first), whole()) is Changed.ALL


def test_an_idle_job_writes_seldom_and_is_not_away_when_messages_come() -> None:
    topic = Topic((0, 10, 10, 1))
    first = topic.head()
    written = [first.carry]
    for _ in range(300):
        topic.now_s += TOMBSTONES_S / 100
        idle = topic.head(first)
        if idle.carry != written[-1]:
            written.append(idle.carry)
            topic.upstream.release(idle)
    assert 20 < len(written) < 30, "by eighths of the time"
    topic.ends(11)
    topic.now_s += TOMBSTONES_S / 2
    assert topic.upstream.classify_changes(first, topic.head(first), whole()) is Changed.SOME


def test_a_head_that_is_short_of_the_end_is_as_old_as_the_version_before_it() -> None:
    topic = Topic((0, 10, 10, 1), ahead_max=5)
    first = topic.head()
    topic.ends(30)
    topic.now_s += 100
    second = topic.head(first)
    assert (second.point, seen_s(second)) == (Offsets.of({0: 15}), seen_s(first))
    topic.now_s += TOMBSTONES_S
    third = topic.head(second)
    assert (third.point, seen_s(third)) == (Offsets.of({0: 30}), topic.now_s), "all of it is read anyhow"


def test_what_a_comparison_leaves_out() -> None:
    topic = Topic((0, 10, 10, 1), (0, 5, 5, 1))
    first = topic.head()
    topic.cluster.partitions = [(4, 12, 12, 1), (0, 5, 5, 1)]
    found = topic.upstream.comparable(first)
    assert found is not None
    assert found.but == ("keys", [Span(0, 10, 12)]), "what was written after the version"
    assert found.within == (Range(None, Key((0, -1))), Range(Key((0, 3)), None)), "what has expired"


def test_a_partition_more_and_a_key_in_two_of_them_are_stops() -> None:
    topic = Topic((0, 10, 10, 1), (0, 0, 0, 1))
    first = topic.head()
    topic.ends(10, 3)
    topic.upstream.check(first)
    topic.reader.twice = ("(7,)",)
    with pytest.raises(KeyNotUnique, match="messages in two partitions") as stopped:
        topic.upstream.check_keys(first)
    assert "(7,)" in stopped.value.detail
    topic.ends(10, 3, 0)
    with pytest.raises(UpstreamReplaced, match="has got a partition 2"):
        topic.upstream.check(first)


def test_what_expired_before_it_was_filled_is_told() -> None:
    topic = Topic((0, 10, 10, 1), (0, 5, 5, 1))
    first = topic.head()
    topic.cluster.partitions = [(3, 10, 10, 1), (2, 5, 5, 1)]
    topic.upstream.check(first)
    topic.upstream.bounds(Split(places.before(1), None), 100, first)
    assert topic.upstream.notices() == ("partition 1: offsets 0 to 1 expired before they were filled",)
