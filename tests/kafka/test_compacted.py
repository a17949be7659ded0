"""A replica that appends, of a topic that is compacted before it is read, between two reads, and while it is read."""

from __future__ import annotations

import threading
import time

import pytest

from tests.kafka.harness import Kafka, Stream, clicks, until

pytestmark = pytest.mark.full


def make(stream: Stream) -> None:
    stream.kafka.make(
        stream.topic, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="100",
        max_compaction_lag_ms="100", delete_retention_ms="100",
    )  # fmt: skip


def send(kafka: Kafka, topic: str, numbers: range, keys: int) -> None:
    """One by one, each with one of so many keys, in segments of their own."""
    for number in numbers:
        kafka.send(topic, clicks([number]), key=str(number % keys).encode())
        time.sleep(0.12)  # a segment is closed by its age alone


def test_a_compacted_topic_has_gaps(stream: Stream) -> None:
    # R26
    make(stream)
    send(stream.kafka, stream.topic, range(12), 3)
    until(lambda: len(stream.kafka.left(stream.topic)) <= 4)
    job = stream.create(chunk_rows=2)
    job.wait(120)
    there = stream.kafka.left(stream.topic)
    assert set(there) <= set(stream.ids()), "what is left was read"
    before = stream.ids()
    send(stream.kafka, stream.topic, range(12, 18), 2)
    until(lambda: len(stream.kafka.left(stream.topic)) <= 6)
    stream.engine.run_once()
    assert set(before) <= set(stream.ids()), "what was taken in stays"
    assert set(stream.kafka.left(stream.topic)) <= set(stream.ids())
    assert job.verify().differences == ()


def test_a_topic_that_is_compacted_while_it_is_read(stream: Stream) -> None:
    # R26
    make(stream)
    send(stream.kafka, stream.topic, range(4), 2)
    stop = threading.Event()
    sent = [4]

    def produce() -> None:
        while not stop.is_set():
            send(stream.kafka, stream.topic, range(sent[0], sent[0] + 1), 2)
            sent[0] += 1

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        job = stream.create(chunk_rows=1)
        job.wait(120)
        for _ in range(4):
            stream.engine.run_once()
    finally:
        stop.set()
        producer.join()
    stream.engine.run_once()
    found = stream.places()
    assert len(found) == len(set(found)), "no message is there twice"
    assert stream.ids() == [offset for _, offset in found], "each is what was sent at its offset"
    assert set(stream.kafka.left(stream.topic)) <= {offset for _, offset in found}
    assert job.verify().differences == ()
