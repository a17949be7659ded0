"""The topic of `tidefill demo --kafka`: orders, of which the newest message of a key counts, and who sends more."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

CONNECTION, TOPIC = "events", "orders"
REPLICA, VIEW = "orders", "regions"
PARTITIONS = 4
MESSAGES_PER_KEY = 4
REGIONS = ("north", "east", "south", "west")
DELETES = 10  # one message in so many
READ_MAX = 10_000  # messages at a time
ANSWER_S = 30.0
LINGER_MS = 20
COLUMNS = "id BIGINT, region STRING, total BIGINT"
CREATES = {
    REPLICA: f"CREATE REPLICA {REPLICA} FROM {CONNECTION}.{TOPIC} WITH (mode = 'upsert', key = 'id', format = 'json', "
    f"columns = '{COLUMNS}'",
    VIEW: f"CREATE MATERIALIZED VIEW {VIEW} AS SELECT region, count(*) AS orders, sum(total) AS total FROM {REPLICA} "
    "GROUP BY region",
}


def make(servers: str, rows: int) -> None:
    """The topic, with so many messages."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"cleanup.policy": "compact"})
    for made in admin.create_topics([topic]).values():
        made.result(ANSWER_S)
    producer = _producer(servers)
    for key, value in _orders(random.Random(0), rows, rows):
        _send(producer, key, value)
    producer.flush(ANSWER_S)


def write(servers: str, rows: int, rate: int, stop: threading.Event) -> None:
    """So many messages a second, until told to stop. A broker that is away is waited for."""
    producer, begin_s = _producer(servers), time.monotonic()
    for number, (key, value) in enumerate(_orders(random.Random(1), rows, None)):
        if stop.wait(max(0.0, begin_s + number / rate - time.monotonic())):
            break
        _send(producer, key, value)
    producer.flush(ANSWER_S)


def _orders(dice: random.Random, rows: int, count: int | None) -> Iterator[tuple[str, str | None]]:
    """Key and value of messages, without an end if no count is given."""
    number, keys = 0, max(1, rows // MESSAGES_PER_KEY)
    while count is None or number < count:
        number, key = number + 1, dice.randrange(keys)
        order = {"id": key, "region": REGIONS[key % len(REGIONS)], "total": dice.randrange(10_000)}
        yield str(key), None if dice.randrange(DELETES) == 0 else json.dumps(order)


def _producer(servers: str) -> Any:
    from confluent_kafka import Producer

    quiet = {"log_level": 0, "error_cb": lambda error: None}
    return Producer({"bootstrap.servers": servers, "linger.ms": LINGER_MS, "enable.idempotence": True, **quiet})


def _send(producer: Any, key: str, value: str | None) -> None:
    """When there is room for it."""
    while True:
        try:
            producer.produce(TOPIC, value, key)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def newest(servers: str) -> tuple[int, int]:
    """How many orders there are, and their total, by a look at every message of the topic."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "demo", "enable.partition.eof": True, "log_level": 0,
        "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found, left = dict[bytes, bytes | None](), PARTITIONS
    while left:
        for message in consumer.consume(READ_MAX, ANSWER_S):
            error = message.error()
            if error is None:
                found[message.key()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                left -= 1
    consumer.close()
    totals = [json.loads(value)["total"] for value in found.values() if value is not None]
    return len(totals), sum(totals)
