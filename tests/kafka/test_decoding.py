"""Strict decoding: a message becomes the row that its columns promise, or is a bad one; never a NULL in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidefill.errors import BadMessage
from tidefill.kafka.connections import Topics, TopicWords
from tidefill.kafka.reader import decoded
from tidefill.spark.faults import translated

TOPICS = Topics(("events",), lambda _: {})
COLUMNS = (
    "id BIGINT, at TIMESTAMP MILLIS, micro TIMESTAMP MICROS, said TIMESTAMP, day DATE, days DATE DAYS, "
    "price DECIMAL(6, 2), flag BOOLEAN, share DOUBLE, partition STRING, tags ARRAY<STRING>"
)
GOOD = (
    b' {"id": 1, "at": 1700000000123, "micro": 1700000000123456, "said": "2026-11-18T10:00:00+01:00", '
    b'"day": "2026-11-18", "days": 1, "price": 12.5, "flag": true, "share": 0.5, "partition": "p", "tags": ["a"]}\n'
)
BAD = [
    (None, "it has no value"),
    (b"\xff{}", "it is not UTF-8"),
    (b"", "it is no JSON object"),
    (b"[1]", "it is no JSON object"),
    (b'[{"id": 1}]', "it is no JSON object"),
    (b"null", "it is no JSON object"),
    (b'{"id": 1', "it is no JSON object"),
    (b'{"id": 1} x', "it is no JSON object"),
    (b'{"id": 1}{"id": 2}', "it is no JSON object"),
    (b'{"id": 1},{"id": 2}', "it is no JSON object"),
    (b"{'id': 1}", "a field does not fit"),
    (b'{"id": "1"}', "a field does not fit"),
    (b'{"id": 1.5}', "a field does not fit"),
    (b'{"id": 9223372036854775808}', "a field does not fit"),
    (b'{"flag": "true"}', "a field does not fit"),
    (b'{"tags": "a"}', "a field does not fit"),
    (b'{"at": "2026-11-18T10:00:00Z"}', "a field does not fit"),
    (b'{"at": 9223372036854775807}', "the field at is no timestamp"),
    (b'{"said": 1700000000}', "the field said is no timestamp"),
    (b'{"said": 2026}', "the field said is no timestamp"),
    (b'{"said": "2026-11-18T25:00:00Z"}', "the field said is no timestamp"),
    (b'{"day": "2026-13-18"}', "the field day is no date"),
    (b'{"day": "2026-11-18T10:00:00Z"}', "the field day is no date"),
    (b'{"price": 1.005}', "the field price is no decimal"),
    (b'{"price": 12345.00}', "the field price is no decimal"),
    (b'{"price": "x"}', "the field price is no decimal"),
]


def rows_of(spark: SparkSession, values: Sequence[bytes | None], **words: str) -> DataFrame:
    data = [(3, number, datetime(2026, 11, 18, tzinfo=UTC), value) for number, value in enumerate(values)]
    frame = spark.createDataFrame(data, "partition INT, offset BIGINT, timestamp TIMESTAMP, value BINARY")
    return decoded(frame, TOPICS.define("events.t", TopicWords("json", COLUMNS, **words)))


def test_a_good_message(spark: SparkSession) -> None:
    row = rows_of(spark, [GOOD]).collect()[0]
    at, said = datetime.fromtimestamp(1700000000, UTC), datetime(2026, 11, 18, 9, tzinfo=UTC)
    assert (row.kafka_partition, row.kafka_offset, row.id, row.partition) == (3, 0, 1, "p")
    assert row["at"].astimezone(UTC) == at.replace(microsecond=123_000)
    assert row.micro.astimezone(UTC) == at.replace(microsecond=123_456)
    assert row.said.astimezone(UTC) == said
    assert (row.day, row.days) == (date(2026, 11, 18), date(1970, 1, 2))
    assert (row.price, row.flag, row.share, row.tags) == (Decimal("12.50"), True, 0.5, ["a"])


def test_fields_that_are_null_or_not_there_are_null(spark: SparkSession) -> None:
    first, second = rows_of(spark, [b'{"id": null, "said": null, "price": null, "other": 7}', b"{}"]).collect()
    assert set(tuple(first)[3:]) == set(tuple(second)[3:]) == {None}


def test_every_bad_message_is_kept_with_what_is_wrong(spark: SparkSession) -> None:
    rows = rows_of(spark, [value for value, _ in BAD], on_bad_message="keep").orderBy("kafka_offset").collect()
    told = [row.kafka_error for row in rows]
    assert [(value, error) for (value, wanted), error in zip(BAD, told, strict=True) if wanted not in str(error)] == []
    assert [row.kafka_value and bytes(row.kafka_value) for row in rows] == [value for value, _ in BAD]
    assert all(row.id is None for row in rows)


def test_a_bad_message_stops_with_partition_and_offset(spark: SparkSession) -> None:
    rows = rows_of(spark, [GOOD, b'{"id": "secret"}'])
    with pytest.raises(BadMessage) as stopped, translated():
        rows.select("kafka_partition", "kafka_offset").collect()
    assert "partition 3, offset 1" in stopped.value.detail
    assert "secret" not in str(stopped.value)
