"""The rules of the upstream, with a cluster that says what a test wants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.reasons import Reason
from tidefill.core.version import Offsets, Version
from tidefill.core.walk import Range, Split, start
from tidefill.errors import HistoryGone, Unavailable, UpstreamReplaced, UpstreamUnfit
from tidefill.kafka.look import PartitionLook, TopicLook, TopicSetUp
from tidefill.kafka.spans import Span
from tidefill.kafka.upstream import AHEAD_MAX, NO_RIGHT, NOTICES_MAX, KafkaUpstream
from tidefill.ports.frames import Comparable

EVERYTHING = Range(None, None)


class Cluster:
    """`partitions`: earliest, stable, high and epoch of each."""

    name = "events"

    def __init__(self, *partitions: tuple[int, int, int, int]) -> None:
        self.identity = "cluster/topic"
        self.partitions = list(partitions)
        self.compacted = False
        self.uncut = True
        self.asked: list[tuple[int, int, int]] = []
        self.written: list[Offsets] = []
        self.refuses: Exception | None = None

    def look(self, topic: str) -> TopicLook:
        return TopicLook(self.identity, {number: PartitionLook(*each) for number, each in enumerate(self.partitions)})

    def set_up(self, topic: str) -> TopicSetUp:
        return TopicSetUp(self.compacted, not self.compacted, -1)

    def still_has(self, topic: str, partition: int, offset: int, epoch: int) -> bool:
        self.asked.append((partition, offset, epoch))
        return self.uncut

    def offsets_at(self, topic: str, numbers: list[int], moment_ms: int) -> dict[int, int]:
        return {0: 4}

    def write_offsets(self, group: str, topic: str, at: Offsets) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.written.append(at)


class Spans:
    """A frame is the list of its spans."""

    def read(self, spans: Sequence[Span]) -> list[Span]:
        return list(spans)

    def came(self, spans: Sequence[Span]) -> list[Span]:
        return list(spans)


class Clock:
    now_s = 100.0


def upstream_of(
    cluster: Cluster, begin: str = "earliest", clock: type[Clock] = Clock, ahead_max: int = AHEAD_MAX
) -> KafkaUpstream[list[Span]]:
    made = KafkaUpstream(
        Spans(), cluster, "clicks", "group", begin=begin, now_s=lambda: clock.now_s, ahead_max=ahead_max
    )
    made.prepare(None)
    return made


def head(upstream: KafkaUpstream[Any], at: Version | None = None) -> Version:
    """As the runner asks: check, then the head."""
    if at is not None:
        upstream.check(at)
    with upstream.open_head(first=at is None) as found:
        return found


def test_the_first_version_ends_before_an_open_transaction() -> None:
    upstream = upstream_of(Cluster((2, 7, 9, 3), (0, 0, 0, 1)))
    first = head(upstream)
    assert (first.identity, first.point) == ("cluster/topic", Offsets.of({0: 7}))
    assert json.loads(first.carry) == {"epochs": {"0": 3, "1": 1}, "begins": {"0": 2}}
    assert upstream.row_count(first) == 5
    assert upstream.beyond(first) == (Range(None, Key((0, 1))), Range(Key((0, 6)), None))
    assert upstream.rows([EVERYTHING], first) == [Span(0, 2, 7)]


def test_what_comes_later_is_forwarded_from_the_first_offset_of_a_new_partition() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    coverage = start(upstream.beyond(first))
    cluster.partitions = [(0, 8, 8, 1), (0, 3, 3, 0)]
    second = head(upstream, first)
    assert upstream.classify_changes(first, second, coverage) is Changed.SOME
    changes = upstream.read_changes(first, second, coverage)
    assert (changes.rows, changes.removes, changes.fresh) == ([Span(0, 5, 8), Span(1, 0, 3)], False, True)
    assert upstream.rows([Range(None, Key((0, 4)))], second) == [Span(0, 0, 5)], "the fill has what the forward has not"
    assert upstream.classify_changes(second, second, coverage) is Changed.NOTHING


@pytest.mark.parametrize(("begin", "expected"), [("latest", {0: 9}), ("2026-11-18", {0: 4})])
def test_where_it_begins_is_fixed_with_the_first_version(begin: str, expected: dict[int, int]) -> None:
    cluster = Cluster((1, 9, 9, 1))
    upstream = upstream_of(cluster, begin)
    first = head(upstream)
    cluster.partitions = [(1, 12, 12, 1)]
    later = head(upstream, first)
    assert json.loads(later.carry)["begins"] == {str(number): offset for number, offset in expected.items()}
    assert upstream.rows([EVERYTHING], later) == [Span(0, expected[0], 12)]


def test_a_time_may_lie_behind_an_open_transaction() -> None:
    cluster = Cluster((0, 3, 9, 1), (0, 2, 6, 1))
    upstream = upstream_of(cluster, "2026-11-18")
    first = head(upstream)
    assert first.point == Offsets.of({0: 3, 1: 2})
    assert json.loads(first.carry)["begins"] == {"0": 4, "1": 6}, "in partition 1 all messages are older"
    assert upstream.rows([EVERYTHING], first) == []
    cluster.partitions = [(4, 9, 9, 1), (6, 8, 8, 1)]
    second = head(upstream, first)
    changes = upstream.read_changes(first, second, start(upstream.beyond(first)))
    assert changes.rows == [Span(0, 4, 9), Span(1, 6, 8)], "what is older does not count, and may expire"


def test_a_stale_answer_for_one_partition_holds_up_no_other() -> None:
    cluster = Cluster((0, 5, 9, 1), (0, 5, 9, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.partitions = [(0, 4, 9, 1), (0, 8, 9, 1)]
    assert head(upstream, first).point == Offsets.of({0: 5, 1: 8})


def test_a_head_is_so_many_messages_ahead_at_most() -> None:
    cluster = Cluster((0, 0, 0, 1))
    upstream = upstream_of(cluster, ahead_max=10)
    first = head(upstream)
    cluster.partitions = [(0, 25, 25, 1)]
    second = head(upstream, first)
    assert second.point == Offsets.of({0: 10})
    assert head(upstream, second).point == Offsets.of({0: 20})


def test_a_topic_that_was_made_again() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.identity = "cluster/another"
    with pytest.raises(UpstreamReplaced, match="was made again"):
        upstream.check(first)


def test_history_is_gone_only_where_it_was_not_taken_in() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.partitions = [(5, 8, 8, 1)]
    upstream.check(first)
    cluster.partitions = [(6, 8, 8, 1)]
    with pytest.raises(HistoryGone) as gone:
        upstream.check(first)
    assert gone.value.detail == "Partition 0: offsets 5 to 5."
    cluster.partitions = [(5, 8, 8, 1), (2, 3, 3, 0)]
    with pytest.raises(HistoryGone, match="expired"):
        upstream.check(first)


def test_a_new_leader_is_asked_once_whether_it_has_everything() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    upstream.check(first)
    assert cluster.asked == []
    cluster.partitions = [(0, 9, 9, 2)]
    upstream.check(first)
    upstream.check(first)
    assert cluster.asked == [(0, 5, 1)]
    second = head(upstream, first)
    assert json.loads(second.carry)["epochs"] == {"0": 2}
    cluster.uncut = False
    cluster.partitions = [(0, 20, 20, 3)]
    with pytest.raises(UpstreamReplaced, match="has lost messages"):
        upstream.check(second)


def test_a_leader_that_was_replaced_tells_its_old_epoch() -> None:
    cluster = Cluster((0, 5, 5, 1), (0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.partitions = [(0, 9, 9, 2), (0, 5, 5, 1)]
    second = head(upstream, first)
    cluster.partitions = [(0, 5, 5, 1), (0, 7, 7, 1)]
    third = head(upstream, second)
    assert third.point == Offsets.of({0: 9, 1: 7})
    assert json.loads(third.carry)["epochs"] == {"0": 2, "1": 1}, "offset 9 is not of epoch 1"


def test_an_end_below_ours_is_asked_about_under_the_same_leader_too() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.partitions, cluster.uncut = [(0, 3, 3, 1)], False
    with pytest.raises(UpstreamReplaced, match="has lost messages"):
        upstream.check(first)


def test_what_expired_before_it_was_filled_is_told_and_left_out() -> None:
    cluster = Cluster((0, 100, 100, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.partitions = [(50, 100, 100, 1)]
    upstream.check(first)
    split = Split(Key((0, 19)), Key((0, 99)))
    assert upstream.bounds(split, 20, first) == [Key((0, 69)), Key((0, 89))]
    assert upstream.notices() == ("partition 0: offsets 20 to 49 expired before they were filled",)
    assert upstream.rows([Range(Key((0, 19)), Key((0, 69)))], first) == [Span(0, 50, 70)]
    upstream.bounds(Split(Key((0, 59)), Key((0, 99))), 20, first)
    assert len(upstream.notices()) == 1


def test_what_was_told_long_ago_is_not_kept() -> None:
    cluster = Cluster((0, 2000, 2000, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    for earliest in range(1, 1300):
        cluster.partitions = [(earliest, 2000, 2000, 1)]
        upstream.check(first)
        upstream.bounds(Split(None, Key((0, 1999))), 20, first)
    assert len(upstream.notices()) == NOTICES_MAX
    assert upstream.notices()[-1] == "partition 0: offsets 0 to 1298 expired before they were filled"


def test_what_the_topic_forgot_is_not_compared() -> None:
    cluster = Cluster((0, 100, 100, 1), (3, 9, 9, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    assert upstream.comparable(first) is None
    cluster.partitions = [(50, 100, 100, 1), (3, 9, 9, 1)]
    assert upstream.comparable(first) == Comparable((Range(None, Key((0, -1))), Range(Key((0, 49)), None)))
    assert upstream.rows([Range(Key((0, 49)), None)], first) == [Span(0, 50, 100), Span(1, 3, 9)]
    cluster.compacted = True
    assert upstream.comparable(first) == Comparable(within=())


def test_the_lag_is_the_age_of_the_first_head_that_was_not_taken_in() -> None:
    class Now(Clock):
        pass

    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster, clock=Now)
    first = head(upstream)
    assert upstream.look(first).lag_s == 0.0
    cluster.partitions = [(0, 6, 6, 1)]
    head(upstream, first)
    Now.now_s = 107.0
    cluster.partitions = [(0, 9, 9, 1)]
    second = head(upstream, first)
    assert upstream.look(first).lag_s == 7.0
    assert upstream.look(second).lag_s == 0.0


def test_a_transaction_that_stays_open_is_told() -> None:
    class Now(Clock):
        pass

    cluster = Cluster((0, 5, 8, 1))
    upstream = upstream_of(cluster, clock=Now)
    first = head(upstream)
    assert upstream.look(first).held is None, "the two ends may be of two moments"
    Now.now_s += 59
    head(upstream, first)
    assert (upstream.look(first).held, upstream.look(first).withheld) == (Reason.OPEN_TRANSACTION, 3)
    assert upstream.notices() == ()
    Now.now_s += 2
    head(upstream, first)
    assert upstream.notices() == ("partition 0 waits for an open transaction at offset 5",)
    cluster.partitions = [(0, 9, 9, 1)]
    head(upstream, first)
    assert upstream.look(first).held is None


def test_offsets_are_written_for_people_and_may_fail() -> None:
    cluster = Cluster((0, 5, 5, 1))
    upstream = upstream_of(cluster)
    first = head(upstream)
    cluster.refuses = Unavailable("away")
    upstream.release(first)
    cluster.refuses = None
    upstream.release(first)
    upstream.release(first)
    assert cluster.written == [first.point]
    cluster.refuses = UpstreamUnfit("no right")
    upstream.release(Version(first.identity, Offsets.of({0: 6}), first.carry))
    assert upstream.notices() == (NO_RIGHT,)
