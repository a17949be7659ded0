"""The broker is killed under a replica: it comes back with all of its messages, or without the newest ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.harness import Kafka, Stream, clicks, until
from tests.kafka.test_meddling import failure
from tidefill.jobs.lifecycle import Life

pytestmark = pytest.mark.full


def come_back(kafka: Kafka, topic: str) -> None:
    kafka.broker.start()
    kafka.connect()
    until(lambda: kafka._is_there(topic, 1))


def segment(kafka: Kafka, topic: str) -> Path:
    return kafka.broker.data / f"{topic}-0" / "00000000000000000000.log"


def test_the_broker_is_killed_and_comes_back(stream: Stream, kafka: Kafka) -> None:
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(5)))
    job = stream.create()
    job.wait(120)
    kafka.broker.kill()
    with stream.running():
        until(lambda: "does not answer" in job.status().waiting)
        assert job.status().state == Life.LIVE.value
        come_back(kafka, stream.topic)
        stream.kafka.send(stream.topic, clicks(range(5, 8)))
        until(lambda: len(stream.ids()) == 8)
    assert stream.ids() == [*range(8)], "another epoch of the leader is no harm"
    assert job.verify().differences == ()


def test_a_log_that_was_cut_is_noticed(stream: Stream, kafka: Kafka) -> None:
    # R26
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(5)))
    size = segment(kafka, stream.topic).stat().st_size
    stream.kafka.send(stream.topic, clicks(range(5, 10)))
    job = stream.create()
    job.wait(120)
    kafka.broker.kill()
    with segment(kafka, stream.topic).open("r+b") as file:
        file.truncate(size)
    come_back(kafka, stream.topic)
    stream.kafka.send(stream.topic, clicks(range(50, 60)))
    assert kafka.server.look(stream.topic).stable.at(0) >= 10, "by its end nothing is to be seen"
    assert "[UPSTREAM_REPLACED]" in failure(stream, job)
