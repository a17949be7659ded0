"""A real broker, and what others do to it: make topics, send messages, open transactions, delete."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.kafka.server import KafkaServer
from tidefill.local.kafka import LocalKafka

DEADLINE_S = 60.0
Message = tuple[int, int, str | None, bytes | None]
"""Partition, offset, key and value."""

COLUMNS = "id BIGINT, at TIMESTAMP MILLIS, page STRING"


def until(so: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait for it, with a deadline."""
    ends_s = time.monotonic() + deadline_s
    while not so():
        assert time.monotonic() < ends_s, "it did not happen in time"
        time.sleep(0.05)


class Kafka:
    """The broker, with a client of somebody else's."""

    def __init__(self, broker: LocalKafka) -> None:
        self.broker = broker
        self.settings = {"bootstrap.servers": broker.servers}
        self.server = KafkaServer("events", self.settings)
        self.connect()

    def connect(self) -> None:
        """A client, and one more after the broker was away."""
        quiet = {**self.settings, "log_level": 0, "error_cb": lambda error: None}
        self.admin = AdminClient(quiet)
        self.producer = Producer({**quiet, "linger.ms": 5})

    def make(self, topic: str, partitions: int = 2, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        for each in self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
            each.result(DEADLINE_S)
        until(lambda: self._is_there(topic, partitions))

    def _is_there(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(timeout=DEADLINE_S).topics.get(topic)
        ready = found is not None and found.error is None and len(found.partitions) == partitions
        return ready and all(part.leader >= 0 for part in found.partitions.values())

    def grow(self, topic: str, partitions: int) -> None:
        for each in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            each.result(DEADLINE_S)
        until(lambda: self._is_there(topic, partitions))

    def delete(self, topic: str) -> None:
        for each in self.admin.delete_topics([topic]).values():
            each.result(DEADLINE_S)
        until(lambda: topic not in self.admin.list_topics(timeout=DEADLINE_S).topics)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """As retention does it."""
        for each in self.admin.delete_records([TopicPartition(topic, partition, before)]).values():
            each.result(DEADLINE_S)

    def send(self, topic: str, values: Iterable[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
        failed: list[Any] = []
        for value in values:
            self.producer.produce(
                topic, value, key, partition, on_delivery=lambda error, _: failed.append(error) if error else None
            )
            self.producer.poll(0)
        assert self.producer.flush(DEADLINE_S) == 0
        assert not failed, failed

    def transaction(self, topic: str, values: Iterable[bytes], partition: int = 0) -> Producer:
        """Messages in a transaction that is still open."""
        producer = Producer({**self.settings, "transactional.id": uuid.uuid4().hex, "log_level": 0})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(DEADLINE_S) == 0
        return producer

    def messages(self, topic: str) -> list[Message]:
        """What the topic has, as somebody reads it who does not look at transactions: by partition and offset."""
        consumer = Consumer({**self.settings, "group.id": "test", "enable.partition.eof": True, "log_level": 0})
        numbers = self.admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        found, left = list[Message](), set(numbers)
        while left:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "no answer"
            if message.error() is None:
                key = message.key()
                found.append((message.partition(), message.offset(), key and key.decode(), message.value()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
        consumer.close()
        return sorted(found, key=lambda each: each[:2])

    def groups(self) -> list[str]:
        return self.server.groups("tidefill-")


def clicks(numbers: Iterable[int]) -> list[bytes]:
    return [json.dumps({"id": each, "at": 1_000 * each, "page": f"page {each}"}).encode() for each in numbers]


class Stream:
    """An engine with a connection `events`, and a topic there."""

    def __init__(self, spark: SparkSession, kafka: Kafka, folder: Path) -> None:
        self.spark = spark
        self.kafka = kafka
        self.folder = folder
        self.topic = f"clicks_{uuid.uuid4().hex[:8]}"
        self.engine: Engine = connect(spark, folder / "lake", folder / "store", connections={"events": kafka.settings})

    @property
    def source(self) -> str:
        return f"events.{self.topic}"

    def create(self, **options: Any) -> Job:
        return self.engine.create_replica("clicks", self.source, **{"format": "json", "columns": COLUMNS, **options})

    def ids(self, name: str = "clicks") -> list[int]:
        return sorted(row.id for row in self.engine.table(name).select("id").collect())

    def places(self) -> list[tuple[int, int]]:
        rows = self.engine.table("clicks").select("kafka_partition", "kafka_offset").collect()
        return sorted((row.kafka_partition, row.kafka_offset) for row in rows)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Somebody runs the jobs meanwhile."""
        stop = threading.Event()
        runner = threading.Thread(target=self.engine.run, args=(stop,))
        runner.start()
        try:
            yield
        finally:
            stop.set()
            runner.join()

    def close(self) -> None:
        for job in self.engine.jobs():
            job.drop(cascade=True)
        for job in self.engine.jobs():
            job.wait(60, gone=True)
        self.engine.close()
        with suppress(KafkaException):
            self.kafka.delete(self.topic)
