"""What others do to a topic while it is followed: it forgets, grows, is made again, is cut; transactions stay open."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
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

    def then_expire(self: Backfill[Any], row: Any, truth: Truth, step: Any) -> Truth:
        found = execute(self, row, truth, step)
        if found.state.step == 1:
            stream.kafka.expire(stream.topic, 0, 50)
        return found

    monkeypatch.setattr(Backfill, "execute", then_expire)
    job.wait(120)
    assert stream.ids() == [*range(20), *range(50, 100)]
    events = [text for _, text in job.events()]
    assert any("partition 0: offsets 20 to 49 expired before they were filled" in text for text in events), events
    assert job.verify().differences == ()


@pytest.mark.full
def test_a_compacted_topic_has_gaps(stream: Stream) -> None:
    # R26
    stream.kafka.make(
        stream.topic, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="200",
        max_compaction_lag_ms="200", delete_retention_ms="100",
    )  # fmt: skip
    for number in range(6):
        stream.kafka.send(stream.topic, clicks([number]), key=b"the same")
        time.sleep(0.25)  # a segment is closed by its age alone
    job = stream.create()
    job.wait(120)
    stream.kafka.send(stream.topic, clicks([6]), key=b"another")
    stream.engine.run_once()
    assert 6 in stream.ids()
    assert job.verify().differences == ()


@pytest.mark.full
def test_the_broker_is_killed_and_comes_back(stream: Stream, kafka: Kafka) -> None:
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks(range(5)))
    job = stream.create()
    job.wait(120)
    kafka.broker.kill()
    with stream.running():
        until(lambda: "does not answer" in job.status().waiting)
        assert job.status().state == Life.LIVE.value
        kafka.broker.start()
        kafka.connect()
        until(lambda: kafka._is_there(stream.topic, 1))
        stream.kafka.send(stream.topic, clicks(range(5, 8)))
        until(lambda: len(stream.ids()) == 8)
    assert stream.ids() == [*range(8)], "another epoch of the leader is no harm"
    assert job.verify().differences == ()


@pytest.mark.full
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
    kafka.broker.start()
    kafka.connect()
    until(lambda: kafka._is_there(stream.topic, 1))
    stream.kafka.send(stream.topic, clicks(range(50, 60)))
    assert kafka.server.look(stream.topic).stable.at(0) >= 10, "by its end nothing is to be seen"
    assert "[UPSTREAM_REPLACED]" in failure(stream, job)


def segment(kafka: Kafka, topic: str) -> Path:
    return kafka.broker.data / f"{topic}-0" / "00000000000000000000.log"


class Runner:
    """`engine.run()` in a process of its own."""

    def __init__(self, stream: Stream, spark_url: str) -> None:
        places = [spark_url, str(stream.folder / "lake"), str(stream.folder / "store"), stream.kafka.broker.servers]
        self._log = stream.folder / "runner.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.runner_process", *places], stdout=log, stderr=log
            )

    def until_filled(self, job: Job, rows: int) -> None:
        until(lambda: self._is_filled(job, rows), 120)

    def _is_filled(self, job: Job, rows: int) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return job.status().state == Life.LIVE.value or job.status().rows >= rows

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.full
def test_a_runner_is_killed_while_it_fills(stream: Stream, connect_url: str) -> None:
    stream.kafka.make(stream.topic, 2)
    stream.kafka.send(stream.topic, clicks(range(3000)), 0)
    stream.kafka.send(stream.topic, clicks(range(3000, 6000)), 1)
    job = stream.create(chunk_rows=500)
    for rows in (500, 2000):
        runner = Runner(stream, connect_url)
        runner.until_filled(job, rows)
        runner.kill()
        stream.kafka.send(stream.topic, clicks([6000 + rows]), 0)
        assert job.verify().differences == ()
    job.wait(180)
    stream.engine.run_once()
    assert stream.ids() == [*range(6000), 6500, 8000]
    assert job.verify().differences == ()


@pytest.mark.full
def test_a_broker_ends_with_its_parent() -> None:
    program = (
        "from tidefill.local.kafka import local_kafka\n"
        "with local_kafka() as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    import time; time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return "Kafka" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


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
