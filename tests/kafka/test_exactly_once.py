"""Random histories of a topic: at every step the target has each message that its coverage and version promise, once.

The steps are those that the planner takes: a chunk as of the version, or a forward to the head. A message is its
partition and offset.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.kafka.test_upstream import Cluster, head, upstream_of
from tidefill.core.keys import Key
from tidefill.core.version import Offsets, Version, newer
from tidefill.core.walk import Coverage, Range, covered_ranges, rest, start, unfinished, union, usable
from tidefill.errors import HistoryGone
from tidefill.kafka import spans
from tidefill.kafka.spans import Span
from tidefill.kafka.upstream import KafkaUpstream

HISTORIES = 100
STEPS = 40
Message = tuple[int, int]


class History:
    """A topic, its replica, and chance."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cluster = Cluster(*((self.dice.randrange(3), 5, 5, 0) for _ in range(self.dice.randint(1, 3))))
        self.upstream = upstream_of(self.cluster, self.dice.choice(["earliest", "latest"]))
        self.at: Version = head(self.upstream)
        self.coverage: Coverage = start(self.upstream.beyond(self.at))
        self.begins = self.first_counted()
        self.target = Counter[Message]()
        self.expired = set[Message]()

    def first_counted(self) -> dict[int, int]:
        """The offset from which on the messages of each partition count."""
        ends = self.at.point
        assert isinstance(ends, Offsets)
        earliest = {number: each[0] for number, each in enumerate(self.cluster.partitions)}
        return earliest if self.upstream._begin == "earliest" else {**earliest, **ends.by_partition}

    # What others do.

    def produce(self) -> None:
        number = self.dice.randrange(len(self.cluster.partitions))
        earliest, stable, high, epoch = self.cluster.partitions[number]
        end = high + self.dice.randint(1, 6)
        self.cluster.partitions[number] = (earliest, self.dice.randint(stable, end), end, epoch)

    def grow(self) -> None:
        self.cluster.partitions.append((0, 0, 0, 0))

    def expire(self) -> None:
        number = self.dice.randrange(len(self.cluster.partitions))
        earliest, stable, high, epoch = self.cluster.partitions[number]
        self.cluster.partitions[number] = (min(stable, earliest + self.dice.randint(1, 4)), stable, high, epoch)

    # What the job does.

    def take(self, read: list[Span]) -> None:
        for span in read:
            assert span.begin >= self.cluster.partitions[span.partition][0], "expired messages cannot be read"
            self.target.update((span.partition, offset) for offset in range(span.begin, span.end))

    def forward(self) -> None:
        newest = head(self.upstream, self.at)
        if newer(newest, self.at):
            self.take(self.upstream.read_changes(self.at, newest, self.coverage).rows)
            self.at = newest

    def fill(self) -> None:
        self.upstream.check(self.at)
        left = unfinished(self.coverage)
        if not left:
            return
        split = self.dice.choice(left)
        bounds = usable(split, self.upstream.bounds(split, self.dice.randint(1, 4), self.at))
        whole = rest(split)
        assert whole is not None
        chunk = Range(whole.after, bounds[0] if bounds else whole.upto)
        self.take(self.upstream.rows([chunk], self.at))
        lost = spans.spans_in(chunk, self.upstream.last_look().earliest, self.begins)
        self.expired |= {(span.partition, offset) for span in lost for offset in range(span.begin, span.end)}
        self.coverage = union(self.coverage, [chunk])

    def step(self) -> None:
        acts: list[Callable[[], None]] = [
            *[self.produce] * 3, *[self.forward] * 3, *[self.fill] * 4, self.expire, self.grow
        ]  # fmt: skip
        self.dice.choice(acts)()

    def promised(self) -> set[Message]:
        """Every message up to the version that is covered, counts, and did not expire before it was filled."""
        ends, covered = self.at.point, covered_ranges(self.coverage)
        assert isinstance(ends, Offsets)
        counted = {
            (number, offset) for number, end in ends.next for offset in range(self.begins.get(number, 0), end)
        } - self.expired
        return {each for each in counted if any(part.holds(Key(each)) for part in covered)}


def play(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        try:
            history.step()
        except HistoryGone:
            return
        assert history.target == Counter(history.promised()), seed
    while unfinished(history.coverage):
        history.fill()
    assert history.target == Counter(history.promised()), seed


def play_all() -> None:
    for seed in range(HISTORIES):
        play(seed)


def test_every_message_is_there_once() -> None:
    play_all()


spans_in = spans.spans_in


def _nothing_to_fill(ends: Offsets, begins: dict[int, int]) -> tuple[Range, ...]:
    return (Range(None, None),)


def _with_the_end(part: Range, ends: Offsets, begins: dict[int, int]) -> list[Span]:
    return [Span(span.partition, span.begin, span.end + 1) for span in spans_in(part, ends, begins)]


def _new_partitions_from_their_end(part: Range, ends: Offsets, begins: dict[int, int]) -> list[Span]:
    return [span for span in spans_in(part, ends, begins) if span.partition < 2]


def _without_the_clip(self: KafkaUpstream[Any], at: Version) -> dict[int, int]:
    return {}


@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        (spans, "beyond", _nothing_to_fill),
        (spans, "spans_in", _with_the_end),
        (spans, "spans_in", _new_partitions_from_their_end),
        (KafkaUpstream, "left", _without_the_clip),
    ],
)
def test_a_bug_is_found(place: object, name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, name, bug)
    with pytest.raises(AssertionError):
        play_all()
