"""What others do to a topic while it is followed: it forgets, grows, is made again, is cut; transactions stay open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kafka.harness import Kafka, Stream, clicks, until
from tidefill.core.confirm import Truth
from tidefill.engine.job import Job
from tidefill.errors import JobFailed
from tidefill.jobs.lifecycle import Life
from tidefill.run.backfill import Backfill


def failure(stream: Stream, job: Job) -> str:
    """The code with which the job stops."""
    stream.engine.run_once()
    with pytest.raises(JobFailed) as failed:
        job.wait(10)
    return str(failed.value.detail)


def test_transactions_open_aborted_and_committed_around_a_boundary(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(3)))
    stream.kafka.transaction(stream.topic, clicks([100, 101])).abort_transaction(60)
    opened = stream.kafka.transaction(stream.topic, clicks([3, 4]))
    stream.kafka.send(stream.topic, clicks([5]))
    job = stream.create()
    job.wait(120)
    assert stream.ids() == [0, 1, 2], "the open transaction holds back what comes after it"
    with stream.running():
        until(lambda: job.status().waits_for == "OPEN_TRANSACTION")
    assert job.status().lag_versions == 3
    opened.commit_transaction(60)
    until(lambda: stream.kafka.server.look(stream.topic).stable.at(0) == 10)
    stream.engine.run_once()
    assert stream.ids() == [*range(6)]
    stream.kafka.transaction(stream.topic, clicks([102])).abort_transaction(60)
    until(lambda: stream.kafka.server.look(stream.topic).stable.at(0) == 12)
    stream.engine.run_once()
    assert stream.ids() == [*range(6)], "a step without a row that counts"
    assert job.verify().differences == ()


def test_a_topic_that_was_made_again_is_another_one(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(5)))
    job = stream.create()
    job.wait(120)
    stream.kafka.delete(stream.topic)
    assert "[UPSTREAM_REPLACED]" in failure(stream, job)
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(10, 15)))
    job.resume()
    told = failure(stream, job)
    assert "[UPSTREAM_REPLACED]" in told, "its ends are equal"
    job.resync()
    job.wait(120)
    assert stream.ids() == [*range(10, 15)]


def test_retention_passes_the_position(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 2)
    stream.kafka.send(stream.topic, clicks(range(5)), 1)
    job = stream.create()
    job.wait(120)
    stream.kafka.expire(stream.topic, 1, 5)
    stream.engine.run_once()
    assert job.status().state == Life.LIVE.value, "what was taken in may go"
    assert job.verify().differences == ()
    assert stream.ids() == [*range(5)], "and stays in the replica"
    stream.kafka.send(stream.topic, clicks(range(5, 10)), 1)
    stream.kafka.expire(stream.topic, 1, 7)
    told = failure(stream, job)
    assert "[HISTORY_GONE]" in told
    assert "Partition 1: offsets 5 to 6." in told


@pytest.mark.full
def test_retention_passes_what_is_not_filled(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(100)))
    job = stream.create(chunk_rows=20)
    execute = Backfill.execute

    def then_expire(self: Backfill[Any], row: Any, truth: Truth, *more: Any) -> Truth:
        found = execute(self, row, truth, *more)
        if found.state.step == 1:
            stream.kafka.expire(stream.topic, 0, 50)
        return found

    monkeypatch.setattr(Backfill, "execute", then_expire)
    job.wait(240)
    assert stream.ids() == [*range(20), *range(50, 100)]
    events = [text for _, text in job.events()]
    assert any("partition 0: offsets 20 to 49 expired before they were filled" in text for text in events), events
    assert job.verify().differences == ()


def test_a_broker_that_is_stopped_and_started_has_its_messages(kafka: Kafka) -> None:
    kafka.make("t", 1)
    kafka.send("t", [b"one"])
    before = kafka.server.look("t")
    kafka.broker.stop()
    kafka.broker.start()
    kafka.connect()
    until(lambda: kafka._is_there("t", 1))
    after = kafka.server.look("t")
    assert (after.identity, after.stable) == (before.identity, before.stable)
    assert after.epochs != before.epochs
    assert kafka.server.still_has("t", 0, 1, before.epochs[0])
    assert not kafka.server.still_has("t", 0, 7, before.epochs[0]), "no such offset was ever there"
    kafka.delete("t")
