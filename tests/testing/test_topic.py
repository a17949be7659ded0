"""A topic in memory is like one of a cluster: transactions, gaps, leaders."""

from __future__ import annotations

import pytest

from tidefill.core.version import Offsets
from tidefill.errors import BadMessage, Unavailable, Unreadable
from tidefill.kafka.spans import Span
from tidefill.testing.memory.topic import (
    UNREADABLE,
    Brokers,
    Log,
    MessageReader,
    Topic,
    row_of_message,
    row_that_is_kept,
)
from tidefill.testing.memory.world import World


def topic_of(*values: object) -> Topic:
    """One partition, the key of each message is its value."""
    topic = Topic("t", [Log()])
    for value in values:
        topic.send(0, value, value)
    return topic


def values(topic: Topic, end: int) -> list[object]:
    reader = MessageReader(World(), lambda: topic, row_that_is_kept)
    return [row[-1] for row in reader.read([Span(0, topic.logs[0].earliest, end)])()]


def test_an_open_transaction_holds_the_end_back() -> None:
    topic = topic_of("a")
    opened = topic.begin()
    topic.send(0, "b", "b", opened)
    topic.send(0, "c", "c")
    assert (topic.stable(0), topic.logs[0].high) == (1, 3)
    with pytest.raises(Unavailable):
        values(topic, 3)
    topic.end(opened, commit=False)
    assert topic.stable_ends() == Offsets.of({0: 4}), "a marker has an offset"
    assert values(topic, 4) == ["a", "c"]


def test_compaction_leaves_the_newest_message_of_each_key() -> None:
    topic = topic_of("a", "b", "a", "a")
    opened = topic.begin()
    topic.send(0, "b", "b", opened)
    topic.compact(0)
    assert values(topic, 4) == ["b", "a"]
    assert [offset for offset in range(5) if topic.logs[0].is_gone(offset)] == [0, 2]


def test_retention_takes_the_oldest() -> None:
    topic = topic_of("a", "b", "c")
    topic.expire(0, 2)
    assert values(topic, 3) == ["c"]
    with pytest.raises(Unreadable):
        MessageReader(World(), lambda: topic, row_of_message).read([Span(0, 1, 3)])()


def test_a_leader_without_the_newest_messages() -> None:
    topic = topic_of("a", "b", "c")
    log = topic.logs[0]
    topic.lead(0)
    topic.send(0, "d", "d")
    assert log.has(3, 0)
    assert log.has(4, 1)
    topic.lead(0, 2)
    topic.send(0, "e", "e")
    topic.send(0, "f", "f")
    assert values(topic, 4) == ["a", "b", "e", "f"]
    assert log.has(2, 0)
    assert not log.has(3, 0)
    assert not log.has(4, 1), "other messages have these offsets now"
    assert log.has(4, 2)


def test_a_leader_that_was_replaced_answers_as_it_did() -> None:
    topic, behind = topic_of("a"), list[int]()
    brokers = Brokers(World(), lambda: topic, lambda: behind[0] if behind else None)
    brokers.look("t")
    topic.lead(0)
    topic.send(0, "b", "b")
    behind.append(0)
    assert brokers.look("t").partitions[0].high == 1
    behind.clear()
    assert (brokers.look("t").partitions[0].high, brokers.look("t").epochs) == (2, {0: 1})


def test_a_message_that_cannot_be_read() -> None:
    topic = topic_of("a", UNREADABLE)
    assert values(topic, 2) == ["a", None]
    with pytest.raises(BadMessage, match="partition 0, offset 1"):
        MessageReader(World(), lambda: topic, row_of_message).read([Span(0, 0, 2)])()
