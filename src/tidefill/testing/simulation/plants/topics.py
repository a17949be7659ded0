"""Bugs in following a topic: its ends, leaders, partitions, spans, and what it forgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tidefill.core.keys import Key
from tidefill.core.version import Offsets, Version
from tidefill.core.walk import Range
from tidefill.jobs.row import Job
from tidefill.kafka import spans, upstream
from tidefill.kafka.look import TopicLook
from tidefill.kafka.spans import Span
from tidefill.kafka.upstream import KafkaUpstream
from tidefill.run.memory import Remembered
from tidefill.run.reporting import Reporting
from tidefill.testing.memory.topic import MessageReader
from tidefill.testing.simulation.plants.plant import plant_in
from tidefill.testing.simulation.topics.scripts import script_of_messages

_check = KafkaUpstream.check
_version = upstream._version
_spans_in = spans.spans_in
_beyond = spans.beyond


def _up_to_the_high_watermark(self: TopicLook) -> Offsets:
    return Offsets.of({number: each.high for number, each in self.partitions.items()})


def _new_partitions_begin_at_their_end(
    identity: str, point: Offsets, epochs: Mapping[int, int], begins: Mapping[int, int]
) -> Version:
    """`begins` are those of the first version."""
    return _version(identity, point, epochs, {**{number: point.at(number) for number in epochs}, **begins})


def _new_partitions_are_not_seen(self: KafkaUpstream[Any], at: Version) -> None:
    _check(self, at)
    assert self._seen is not None
    known = json.loads(at.carry)["epochs"]
    old = {number: part for number, part in self._seen.partitions.items() if str(number) in known}
    self._seen = replace(self._seen, partitions=old)


def _in_silence(self: MessageReader, span: Span) -> None:
    """As with failOnDataLoss = false: what is there is read."""


def _not_clipped(self: KafkaUpstream[Any], at: Version) -> dict[int, int]:
    return {int(number): offset for number, offset in json.loads(at.carry)["begins"].items()}


def _with_the_bound(part: Range, ends: Offsets, begins: Mapping[int, int]) -> list[Span]:
    """Both ends of the range are in."""
    found = _spans_in(part, ends, begins)
    after = part.after.values if part.after is not None else (None, None)
    return [
        replace(span, begin=span.begin - 1) if (span.partition, span.begin - 1) == after else span for span in found
    ]


def _above_the_last_partition_only(ends: Offsets, begins: Mapping[int, int]) -> tuple[Range, ...]:
    return _beyond(ends, begins)[-1:]


def _up_to_the_next_offset(ends: Offsets, begins: Mapping[int, int]) -> tuple[Range, ...]:
    """The next offset is taken for that of the last message."""
    parts: list[Range] = []
    after: Key | None = None
    for partition, end in ends.next:
        if begins.get(partition, 0) < end:
            parts.append(Range(after, Key((partition, begins.get(partition, 0) - 1))))
            after = Key((partition, end))
    return (*parts, Range(after, None))


def _refuse_another_topic_alone(self: KafkaUpstream[Any], *_: object) -> None:
    """That the log was cut is not looked at."""


def _noted_before_it_is_said(self: Reporting, job: Job, active: Remembered) -> None:
    for notice in active.machine.standing().notices:
        if notice not in active.told:
            active.told.add(notice)
            self._rows.event_once(job, notice)


_plant = partial(plant_in, script_of=script_of_messages)

OF_TOPICS = (
    _plant(
        "end-past-an-open-transaction",
        "the end of a partition is taken past a transaction that is open",
        ("I5 progress", "I1 covered"), 0,
        (TopicLook, "stable", property(_up_to_the_high_watermark)),
    ),
    _plant(
        "new-partition-begins-at-its-end",
        "a partition that is added is read from where it ends",
        ("I1 covered", "I2 monotone"), 0,
        (upstream, "_version", _new_partitions_begin_at_their_end),
    ),
    _plant(
        "new-partition-unseen",
        "the partitions are those of the first look",
        ("I5 progress",), 0,
        (KafkaUpstream, "check", _new_partitions_are_not_seen),
    ),
    _plant(
        "truncation-unnoticed",
        "nobody asks whether a new leader has what was taken in",
        ("I1 covered", "I5 progress", "I7 loud"), 60,
        (KafkaUpstream, "_check_uncut", _refuse_another_topic_alone),
    ),
    _plant(
        "old-epoch-kept",
        "an older answer takes the place of the epoch that is known",
        ("I7 loud",), 115,
        (upstream, "_newest", lambda known, told: dict(told)),
    ),
    _plant(
        "loss-in-silence",
        "a chunk is read in part, and counts as read",
        ("I7 loud", "I1 covered"), 0,
        (MessageReader, "_refuse", _in_silence),
    ),
    _plant(
        "fill-not-clipped",
        "a chunk is not clipped to what the topic has left",
        ("I5 progress", "I7 loud"), 0,
        (KafkaUpstream, "left", _not_clipped),
    ),
    _plant(
        "bound-read-twice",
        "the message at the bound of two chunks is read by both",
        ("I1 covered",), 3,
        (spans, "spans_in", _with_the_bound),
    ),
    _plant(
        "tail-of-one-partition",
        "only what lies above the last partition is Done at once",
        ("I5 progress",), 0,
        (spans, "beyond", _above_the_last_partition_only),
    ),
    _plant(
        "end-off-by-one",
        "the next message of each partition is taken for one that is still to be filled",
        ("I5 progress",), 0,
        (spans, "beyond", _up_to_the_next_offset),
    ),
    _plant(
        "expired-and-nobody-told",
        "what expired before it was filled is left out without a word",
        ("I7 loud",), 0,
        (KafkaUpstream, "tell", lambda self, notice: None),
    ),
    _plant(
        "noted-before-it-is-said",
        "what expired counts as said, though the store did not answer",
        ("I7 loud",), 20,
        (Reporting, "notify", _noted_before_it_is_said),
    ),
)  # fmt: skip
