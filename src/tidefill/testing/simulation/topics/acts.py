"""What may happen to a topic: producers, transactions, retention, compaction, leaders, new partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidefill.testing.memory.topic import NO_TRANSACTION, UNREADABLE, Topic
from tidefill.testing.simulation.acts import ACTS
from tidefill.testing.simulation.simulation import EXCUSES
from tidefill.testing.simulation.workload import Dice

if TYPE_CHECKING:
    from tidefill.testing.simulation.topics.topics import OfTopic

PARTITIONS_MAX = 5
KEYS = 12
OPEN_MAX = 2
MESSAGES_MAX = 40
"""That a partition keeps, so that there is an end to filling it."""


def send_some(topic: Topic, number: int) -> int:
    """A few messages, perhaps in a transaction, which may stay open, and which may be aborted; how many there are."""
    dice = Dice(number)
    kind = dice.upto(8)
    transaction = topic.begin() if kind < 3 and len(topic.opened) < OPEN_MAX else NO_TRANSACTION
    count = 10 if dice.upto(16) == 0 else 1 + dice.upto(4)
    for _ in range(count):
        topic.send(dice.upto(len(topic.logs)), dice.upto(KEYS), dice.upto(100), transaction)
    if transaction and kind < 2:
        topic.end(transaction, commit=kind == 1)
    return count


def produce(sim: OfTopic, number: int) -> None:
    """A few messages more, and retention."""
    sim.writes_since_commit += send_some(sim.topic, number)
    expire_old(sim)
    sim.world.tell("producer: %s", sim.topic.stable_ends())


def expire_old(sim: OfTopic) -> None:
    """What a partition has too much of."""
    for partition, log in enumerate(sim.topic.logs):
        if log.high - log.earliest > MESSAGES_MAX:
            _expire(sim, partition, log.high - MESSAGES_MAX)


def end_transaction(sim: OfTopic, number: int) -> None:
    """The oldest one ends."""
    if sim.topic.opened:
        sim.topic.end(next(iter(sim.topic.opened)), commit=number % 3 > 0)


def expire(sim: OfTopic, number: int) -> None:
    """Retention, up to what was taken in or is still to be filled: nobody may stop for that."""
    partition = number % len(sim.topic.logs)
    _expire(sim, partition, sim.topic.logs[partition].earliest + 1 + number // 7 % 20)


def _expire(sim: OfTopic, partition: int, before: int) -> None:
    taken = sim.taken()
    if taken is not None:
        sim.topic.expire(partition, min(taken.get(partition, 0), before))


def expire_past(sim: OfTopic, number: int) -> None:
    """Retention, and nobody was asked."""
    partition = number % len(sim.topic.logs)
    sim.topic.expire(partition, sim.topic.logs[partition].high - number // 7 % 3)


def lead(sim: OfTopic, number: int) -> None:
    """Another leader, which has everything, and gets more: nobody may stop for that."""
    partition = number % len(sim.topic.logs)
    sim.topic.lead(partition)
    for value in range(number // 7 % 4):
        sim.topic.send(partition, value, value)


def cut(sim: OfTopic, number: int) -> None:
    """Another leader, which does not have the newest messages; others come in their place."""
    sim.topic.lead(number % len(sim.topic.logs), 1 + number // 7 % 5)
    if number % 2:
        produce(sim, number)


def grow(sim: OfTopic, number: int) -> None:
    """A partition more, perhaps with messages at once."""
    if len(sim.topic.logs) < PARTITIONS_MAX:
        sim.topic.grow()
        for value in range(number % 4):
            sim.topic.send(len(sim.topic.logs) - 1, value, value)


def compact(sim: OfTopic, number: int) -> None:
    """Of one partition."""
    sim.topic.compact(number % len(sim.topic.logs))


def unreadable(sim: OfTopic, number: int) -> None:
    """A message that cannot be decoded."""
    sim.topic.send(number % len(sim.topic.logs), "unreadable", UNREADABLE)


def recreate(sim: OfTopic, number: int) -> None:
    """Another topic under the same name, perhaps with the same ends."""
    old = sim.topic
    sim.make_topic(len(old.logs))
    sim.topic.sent = old.sent
    for partition, log in enumerate(old.logs):
        for value in range(log.high if number % 2 else number % 5):
            sim.topic.send(partition, value, value)


OF_TOPIC: Mapping[str, Callable[[Any, int], None]] = {
    **ACTS,
    "write": produce,
    "expire": expire,
    "expire past": expire_past,
    "lead": lead,
    "cut": cut,
    "grow": grow,
    "compact": compact,
    "unreadable": unreadable,
    "recreate upstream": recreate,
}
EXCUSED_BY: Mapping[str, tuple[str, ...]] = {
    **EXCUSES,
    "expire past": ("HISTORY_GONE",),
    "cut": ("UPSTREAM_REPLACED",),
    "unreadable": ("BAD_MESSAGE",),
    "recreate upstream": ("UPSTREAM_REPLACED", "HISTORY_GONE"),
}
