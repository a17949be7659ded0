"""SIGKILL of the runner in the middle of steps, and of the broker: every commit has what its offsets say."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_lost_spark import java_below
from tests.kafka.harness import COLUMNS, Kafka, Message, Stream, clicks, until
from tests.kafka.test_upserts import ORDERS, rows, upsert
from tests.quick_spark import QUICK
from tidefill.core.confirm import payload_from_text
from tidefill.core.keys import Key
from tidefill.core.version import Offsets
from tidefill.core.walk import covers
from tidefill.delta.target import DeltaTarget
from tidefill.engine.job import Job
from tidefill.jobs.lifecycle import Life
from tidefill.testing.memory.topic import hash_of

DEADLINE_S = 240.0
KEYS = 40
FILLS, FORWARDS = ("fill", "both"), ("forward", "both")


class Runner:
    """`tidefill run` over the store of a stream, with a Spark of its own."""

    def __init__(self, stream: Stream) -> None:
        self.folder = stream.folder
        lines = ['warehouse = "lake"', 'store = "store"', "[spark]"]
        lines += [f'"{name}" = "{value}"' for name, value in QUICK.items()]
        lines += ["[connections.events]", 'kind = "kafka"']
        lines += [f'"{name}" = "{value}"' for name, value in stream.kafka.settings.items()]
        (self.folder / "tidefill.toml").write_text("\n".join(lines) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        with (self.folder / "process.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidefill.cli", "run"], cwd=self.folder, env=environment,
                start_new_session=True, stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """The process and its Spark."""
        if self.process is not None:
            for java in java_below(self.process):
                os.kill(java, signal.SIGKILL)
            self.process.kill()
            self.process.communicate()
            self.process = None

    def until(self, so: Callable[[], bool]) -> None:
        try:
            until(so, DEADLINE_S)
        except AssertionError as error:
            raise AssertionError((self.folder / "process.log").read_text()) from error


@pytest.fixture
def runner(stream: Stream) -> Iterator[Runner]:
    made = Runner(stream)
    yield made
    made.kill()


class Producer:
    """Somebody who sends clicks and orders to two topics until it is told to stop."""

    def __init__(self, stream: Stream, orders: str) -> None:
        self.stream, self.orders = stream, orders
        self.dice, self.sent = random.Random(7), 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._go_on, daemon=True)

    def send(self, count: int) -> None:
        kafka = self.stream.kafka
        for number in range(self.sent, self.sent + count):
            kafka.send(self.stream.topic, clicks([number]), number % 2)
            key = self.dice.randrange(KEYS)
            value = None if self.dice.randrange(4) == 0 else json.dumps({"id": key, "total": number}).encode()
            kafka.send(self.orders, [value], key % 2, str(key).encode())
        self.sent += count

    def _go_on(self) -> None:
        while not self.stop.wait(0.05):
            self.send(2)


@pytest.mark.full
def test_a_runner_is_killed_in_fills_and_forwards(stream: Stream, runner: Runner) -> None:
    # R11, R26
    orders = f"{stream.topic}_orders"
    stream.kafka.make(stream.topic, 2)
    stream.kafka.make(orders, 2)
    producer = Producer(stream, orders)
    producer.send(300)
    words: dict[str, Any] = {"format": "json", "chunk_rows": 20}
    jobs = {
        "clicks": stream.engine.create_replica("clicks", stream.source, columns=COLUMNS, **words),
        "orders": stream.engine.create_replica(
            "orders", f"events.{orders}", columns=ORDERS, mode="upsert", key="id", **words
        ),
    }
    producer.thread.start()
    for name, kinds in (("orders", FILLS), ("clicks", FILLS), ("orders", FORWARDS), ("clicks", FORWARDS)):
        runner.start()
        runner.until(partial(is_doing, jobs[name], kinds))
        runner.kill()
    producer.stop.set()
    producer.thread.join()
    runner.start()
    runner.until(lambda: all(is_up_to_date(job) for job in jobs.values()))
    runner.kill()
    assert stream.ids() == [*range(producer.sent)]
    assert check_every_commit(stream, "clicks", stream.kafka.messages(stream.topic), each) > 8
    assert check_every_commit(stream, "orders", stream.kafka.messages(orders), newest) > 8
    for job in jobs.values():
        assert job.verify().differences == ()


def is_doing(job: Job, kinds: tuple[str, ...]) -> bool:
    """Whether a step of one of these kinds is under way, and is not the first one."""
    status = job.status()
    assert status.failure is None, status.failure
    return status.doing is not None and status.doing.kind in kinds and status.rows > 0


def is_up_to_date(job: Job) -> bool:
    status = job.status()
    assert status.failure is None, status.failure
    return status.state == Life.LIVE.value and status.waits_for == "IDLE" and status.lag_versions == 0


def each(messages: list[Message], covered: Callable[[Key], bool]) -> set[tuple[Any, ...]]:
    """The rows of a replica that appends."""
    return {(part, offset) for part, offset, _, _ in messages if covered(Key((part, offset)))}


def newest(messages: list[Message], covered: Callable[[Key], bool]) -> set[tuple[Any, ...]]:
    """The rows of a replica of the newest messages."""
    found = {key: (part, offset, value) for part, offset, key, value in messages if covered(Key((part, hash_of(key))))}
    return {(part, offset) for part, offset, value in found.values() if value is not None}


def check_every_commit(
    stream: Stream,
    name: str,
    messages: list[Message],
    expected: Callable[[list[Message], Callable[[Key], bool]], set[tuple[Any, ...]]],
) -> int:
    """Each version of the target has what its own state promises; how many carry a state."""
    (path,) = stream.folder.joinpath("lake").glob(f"{name}-*")
    checked, spark = 0, stream.spark
    for file in sorted(path.glob("_delta_log/*.json")):
        told = [json.loads(line).get("commitInfo", {}).get("userMetadata") for line in file.read_text().splitlines()]
        payloads = [payload for text in told if (payload := payload_from_text(text)) is not None]
        if not payloads:
            continue
        state = payloads[0].state
        point = state.versions["t"].point
        assert isinstance(point, Offsets)
        below = [message for message in messages if message[1] < point.at(message[0])]
        frame = spark.read.format("delta").option("versionAsOf", int(file.stem)).load(str(path))
        there = [tuple(row) for row in frame.select("kafka_partition", "kafka_offset").collect()]
        assert len(there) == len(set(there)), state
        assert set(there) == expected(below, partial(covers, state.coverage["t"])), state
        checked += 1
    return checked


@pytest.mark.full
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_broker_is_killed_while_a_step_reads(
    stream: Stream, kafka: Kafka, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # R26
    kafka.make(stream.topic, 2)
    for part in (0, 1):
        values = [json.dumps({"id": each, "total": each}).encode() for each in range(part, 2000, 2)]
        for value in values:
            kafka.producer.produce(stream.topic, value, str(json.loads(value)["id"]).encode(), part)
        assert kafka.producer.flush(60) == 0
    commit, killed = DeltaTarget.commit, list[int]()

    def while_the_broker_dies(self: DeltaTarget, write: Any, payload: Any) -> None:
        """The frames are evaluated in here."""
        if payload.state.step == 2 and not killed:
            killed.append(payload.state.step)
            kafka.broker.kill()
            threading.Thread(target=kafka.broker.start).start()
        commit(self, write, payload)

    monkeypatch.setattr(DeltaTarget, "commit", while_the_broker_dies)
    if mode == "upsert":
        job = upsert(stream, chunk_rows=300)
    else:
        job = stream.engine.create_replica("orders", stream.source, format="json", columns=ORDERS, chunk_rows=300)
    job.wait(DEADLINE_S)
    kafka.connect()
    assert killed == [2]
    assert rows(stream) == {number: (float(number), None) for number in range(2000)}
    assert job.verify().differences == ()
