"""The newest message of a key as a row: keys are decoded strictly, and values where they are the newest."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidefill.core.keys import Key
from tidefill.core.walk import Range
from tidefill.errors import BadMessage, KeyNotUnique
from tidefill.kafka.connections import Topics, TopicWords
from tidefill.kafka.newest import NewestReader
from tidefill.kafka.reader import SparkReader
from tidefill.kafka.spans import Span
from tidefill.spark.faults import translated
from tidefill.spark.names import WEIGHT

TOPICS = Topics(("events",), lambda _: {})
COLUMNS = "id BIGINT, region STRING, total BIGINT"
EVERYTHING = [Range(None, None)]
SPANS = [Span(0, 0, 100), Span(1, 0, 100)]
Message = tuple[int, bytes | None, bytes | None]


class Given(SparkReader):
    """Messages that are given: partition, key and value, in the order of their offsets."""

    def __init__(self, spark: SparkSession, messages: Sequence[Message]) -> None:
        at = datetime(2026, 11, 18, tzinfo=UTC)
        data = [(part, number, at, key, value) for number, (part, key, value) in enumerate(messages)]
        columns = "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
        self._found = spark.createDataFrame(data, columns)

    def messages(self, spans: Sequence[Span]) -> DataFrame | None:
        return self._found


def reader(spark: SparkSession, *messages: Message, **words: str) -> NewestReader:
    said = {"format": "json", "columns": COLUMNS, "mode": "upsert", "key": "id", **words}
    definition = TOPICS.define("events.t", TopicWords(**said))
    assert definition.upsert is not None
    return NewestReader(Given(spark, messages), definition, definition.upsert)


def found(frame: DataFrame, *more: str) -> list[tuple[Any, ...]]:
    with translated():
        return sorted((row.id, row.region, row.total, row.kafka_offset, *(row[name] for name in more)) for row in
                      frame.collect())  # fmt: skip


def test_the_newest_counts_and_a_tombstone_deletes(spark: SparkSession) -> None:
    read = reader(
        spark, (0, b"1", b'{"total": 1}'), (1, b"2", b"nonsense"), (0, b"1", b'{"id": 1, "total": 3}'),
        (1, b"2", b'{"total": 4}'), (0, b"-3", b'{"total": 5}'), (0, b"-3", None), (1, b"0040", b"{}"),
    )  # fmt: skip
    assert found(read.newest(SPANS, EVERYTHING)) == [(1, None, 3, 2), (2, None, 4, 3), (40, None, None, 6)]
    weights = {(row.id, row.kafka_partition): row[WEIGHT] for row in read.net(SPANS, EVERYTHING).collect()}
    assert weights == {(1, 0): 1, (2, 1): 1, (40, 1): 1, (-3, 0): -1}
    assert sorted(row.id for row in read.keys(SPANS, EVERYTHING).collect()) == [-3, 1, 2, 40]
    middle = zlib.crc32(b"2")
    parts = [Range(None, Key((1, middle))), Range(Key((1, middle)), None)]
    rows = [found(read.newest(SPANS, [part])) for part in parts]
    assert sorted(rows[0] + rows[1]) == [(1, None, 3, 2), (2, None, 4, 3), (40, None, None, 6)]
    assert (2, None, 4, 3) in rows[0]


def test_keys_that_are_objects(spark: SparkSession) -> None:
    read = reader(
        spark, (0, b'{"id": 1, "region": "eu"}', b'{"total": 1}'), (0, b'{"region":"eu","id":1}', b'{"total": 2}'),
        (0, b'{"id": 1, "region": "us"}', b'{"region": "us", "total": 3}'), key="id, region",
    )  # fmt: skip
    assert found(read.newest(SPANS, EVERYTHING)) == [(1, "eu", 2, 1), (1, "us", 3, 2)]


@pytest.mark.parametrize(
    ("key", "words", "wanted"),
    [
        (None, {}, "it has no key"),
        (b"\xff", {}, "its key is not UTF-8"),
        (b"", {}, "its key has no id that is a bigint"),
        (b" 1", {}, "its key has no id that is a bigint"),
        (b"1.0", {}, "its key has no id that is a bigint"),
        (b"9223372036854775808", {}, "its key has no id that is a bigint"),
        (b'{"id": 1}', {}, "its key has no id that is a bigint"),
        (b"1", {"key_format": "json"}, "of its key: it is no JSON object"),
        (b'{"id": "1"}', {"key_format": "json"}, "of its key: a field does not fit"),
        (b'{"id": null}', {"key_format": "json"}, "its key has no id that is a bigint"),
        (b"1", {"value": '{"id": 2}'}, "its key and its value name different rows"),
        (b"1", {"value": '{"total": "2"}'}, "a field does not fit"),
    ],
)
def test_bad_messages(spark: SparkSession, key: bytes | None, words: dict[str, str], wanted: str) -> None:
    value = words.pop("value", "{}").encode()
    read = reader(spark, (0, b'{"id": 7}' if words else b"7", b"{}"), (0, key, value), **words)
    for frame in (read.newest(SPANS, EVERYTHING), read.net(SPANS, EVERYTHING)):
        with pytest.raises(BadMessage) as stopped, translated():
            frame.collect()
        assert f"partition 0, offset 1: {wanted}" in stopped.value.detail


def test_a_key_in_two_partitions(spark: SparkSession) -> None:
    read = reader(spark, (0, b"1", b"{}"), (1, b"1", None), (1, b"2", b"{}"))
    assert read.in_two_partitions(SPANS) == ["(1,)"]
    for frame in (read.newest(SPANS, EVERYTHING), read.net(SPANS, EVERYTHING)):
        with pytest.raises(KeyNotUnique), translated():
            frame.collect()


def event(op: str | None, after: object, **more: object) -> bytes:
    return json.dumps({"op": op, "before": None, "after": after, "source": {"lsn": 7}, **more}).encode()


def test_events_of_debezium_alone_and_beside_their_schema(spark: SparkSession) -> None:
    in_schema = {"schema": {"type": "struct"}, "payload": json.loads(event("u", {"id": 2, "total": 22}))}
    read = reader(
        spark, (0, b'{"id": 1}', event("c", {"id": 1, "region": "eu", "total": 1})),
        (0, b'{"schema": {}, "payload": {"id": 2}}', event("r", {"id": 2, "total": 2})),
        (0, b'{"id": 2}', json.dumps(in_schema).encode()), (0, b'{"id": 3}', event("c", {"id": 3})),
        (0, b'{"id": 3}', event("d", None)), (0, b'{"id": 4}', event("d", None)), (0, b'{"id": 4}', None),
        format="debezium",
    )  # fmt: skip
    assert found(read.newest(SPANS, EVERYTHING)) == [(1, "eu", 1, 0), (2, None, 22, 2)]
    weights = {row.id: row[WEIGHT] for row in read.net(SPANS, EVERYTHING).collect()}
    assert weights == {1: 1, 2: 1, 3: -1, 4: -1}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b"{}", "it is no event of Debezium: it has no op"),
        (b"[]", "it is no JSON object"),
        (event("t", None), "its op is no change of a row"),
        (event("u", None), "it does not say what the row is after the change"),
        (event("u", {"id": 9}), "its key and its value name different rows"),
        (event("u", {"id": 1, "total": "much"}), "a field does not fit"),
        (event("u", {"id": 1, "region": "__debezium_unavailable_value"}), "Debezium left a value out"),
    ],
)
def test_events_that_are_bad(spark: SparkSession, value: bytes, wanted: str) -> None:
    read = reader(spark, (0, b'{"id": 1}', value), format="debezium")
    with pytest.raises(BadMessage) as stopped, translated():
        read.newest(SPANS, EVERYTHING).collect()
    assert f"partition 0, offset 0: {wanted}" in stopped.value.detail
