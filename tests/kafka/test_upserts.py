"""A live topic becomes a Delta table of the newest message of each key, through the engine, as a user has it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.kafka.harness import Stream
from tidefill.engine.job import Job
from tidefill.errors import InvalidSetting, JobFailed, UpstreamUnfit

ORDERS = "id BIGINT, total DECIMAL(10, 2), note STRING"
Order = tuple[int, float | None, str | None]


def upsert(stream: Stream, **options: Any) -> Job:
    words = {"format": "json", "columns": ORDERS, "mode": "upsert", "key": "id", **options}
    return stream.engine.create_replica("orders", stream.source, **words)


def put(stream: Stream, orders: Iterable[Order], partitions: int = 2) -> None:
    """A total of None deletes."""
    for number, total, note in orders:
        value = None if total is None else json.dumps({"id": number, "total": total, "note": note}).encode()
        stream.kafka.send(stream.topic, [value], number % partitions, str(number).encode())


def rows(stream: Stream) -> dict[int, tuple[float, str | None]]:
    found = stream.engine.table("orders").collect()
    assert len({row.id for row in found}) == len(found), "a key once"
    return {row.id: (float(row.total), row.note) for row in found}


def test_the_newest_message_of_a_key_is_its_row(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 2, cleanup_policy="compact")
    put(stream, [(number, number, "first") for number in range(20)])
    put(stream, [(1, 100.5, "second"), (2, None, None), (3, None, None), (3, 33, "again"), (40, None, None)])
    stream.engine.execute(
        f"CREATE REPLICA orders FROM {stream.source} WITH (format = 'json', columns = '{ORDERS}', mode = 'upsert', "
        "key = 'id', chunk_rows = 4)"
    )
    job = stream.engine.job("orders")
    job.wait(240)
    expected: dict[int, tuple[float, str | None]] = {number: (float(number), "first") for number in range(20)}
    expected |= {1: (100.5, "second"), 3: (33.0, "again")}
    del expected[2]
    assert rows(stream) == expected
    put(stream, [(2, 2.5, "back"), (1, None, None), (4, 1, None), (4, 4.5, None), (50, 5, "new")])
    stream.engine.run_once()
    expected |= {2: (2.5, "back"), 4: (4.5, None), 50: (5.0, "new")}
    del expected[1]
    assert rows(stream) == expected
    assert job.verify().differences == ()
    assert job.status().lag_versions == 0


def failure(stream: Stream, job: Job) -> str:
    """The code with which the job stops."""
    stream.engine.run_once()
    with pytest.raises(JobFailed) as failed:
        job.wait(10)
    return str(failed.value.detail)


@pytest.mark.full
def test_bad_messages_stop_it_until_a_newer_one_has_the_key(stream: Stream) -> None:
    stream.kafka.make(stream.topic, 1, cleanup_policy="compact")
    put(stream, [(1, 1, None), (2, 2, None)], 1)
    job = upsert(stream)
    job.wait(120)
    stream.kafka.send(stream.topic, [b'{"id": 1, "total": 1.234}'], 0, b"1")
    assert "partition 0, offset 2: the field total is no decimal(10, 2) as the column wants it" in failure(stream, job)
    put(stream, [(1, 1.5, "mended")], 1)
    job.resume()
    job.wait(120)
    assert rows(stream) == {1: (1.5, "mended"), 2: (2.0, None)}
    stream.kafka.send(stream.topic, [b'{"id": 3, "total": 3}'], 0, b"2")
    assert "partition 0, offset 4: its key and its value name different rows" in failure(stream, job)
    put(stream, [(2, 22, None)], 1)
    job.resume()
    stream.kafka.send(stream.topic, [b'{"id": 4, "total": 4}'], 0, b"four")
    assert "partition 0, offset 6: its key has no id that is a bigint" in failure(stream, job)
    assert rows(stream) == {1: (1.5, "mended"), 2: (2.0, None)}, "nothing of the step was committed"


@pytest.mark.full
def test_a_key_in_two_partitions_and_a_partition_more(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 2)
    put(stream, [(number, number, None) for number in range(6)])
    stream.kafka.send(stream.topic, [b'{"id": 4, "total": 5}'], 1, b"4")
    job = upsert(stream, chunk_rows=2, verify=False)
    told = failure(stream, job)
    assert "[KEY_NOT_UNIQUE]" in told, "two chunks brought a row each"
    assert "(4,)" in told
    job.drop()
    job.wait(60, gone=True)
    stream.topic += "b"
    stream.kafka.make(stream.topic, 2)
    put(stream, [(number, number, None) for number in range(6)])
    job = upsert(stream, chunk_rows=2)
    job.wait(120)
    stream.kafka.send(stream.topic, [None], 1, b"4")
    told = failure(stream, job)
    assert "[KEY_NOT_UNIQUE]" in told, "a delete that comes from another partition than the row"
    assert len(rows(stream)) == 6
    stream.kafka.grow(stream.topic, 3)
    job.resume()
    assert "[UPSTREAM_REPLACED]" in failure(stream, job)


@pytest.mark.full
def test_a_topic_that_forgets_by_age(stream: Stream) -> None:
    # R26
    stream.kafka.make(stream.topic, 1)
    put(stream, [(number, number, None) for number in range(6)], 1)
    job = upsert(stream)
    job.wait(120)
    put(stream, [(1, 10, None), (2, None, None)], 1)
    stream.engine.run_once()
    stream.kafka.expire(stream.topic, 0, 4)
    expected = {0: (0.0, None), 1: (10.0, None), 3: (3.0, None), 4: (4.0, None), 5: (5.0, None)}
    assert job.verify().differences == (), "rows whose messages have expired are not missed"
    assert rows(stream) == expected
    put(stream, [(3, None, None), (4, 40, None)], 1)
    stream.engine.run_once()
    del expected[3]
    assert rows(stream) == {**expected, 4: (40.0, None)}
    with pytest.raises(UpstreamUnfit, match="has forgotten 4 offsets"):
        stream.engine.create_replica("again", stream.source, format="json", columns=ORDERS, mode="upsert", key="id")
    taken = stream.engine.create_replica(
        "again", stream.source, format="json", columns=ORDERS, mode="upsert", key="id", incomplete="accepted"
    )
    taken.wait(120)
    assert {row.id for row in stream.engine.table("again").collect()} == {1, 4, 5}


@pytest.mark.full
def test_keys_that_are_json_and_what_is_refused(stream: Stream) -> None:
    stream.kafka.make(stream.topic, 1, cleanup_policy="compact")
    columns = "region STRING, id BIGINT, total BIGINT"
    for key, value in [
        ({"region": "eu", "id": 1}, {"region": "eu", "id": 1, "total": 1}),
        ({"id": 1, "region": "us"}, {"total": 2}),
        ({"region": "eu", "id": 1}, {"total": 3}),
    ]:
        stream.kafka.send(stream.topic, [json.dumps(value).encode()], 0, json.dumps(key).encode())
    stream.kafka.send(stream.topic, [None], 0, b'{"region":"us","id":1}')
    words: dict[str, Any] = {"format": "json", "columns": columns, "mode": "upsert"}
    for wrong in ({}, {"key": "region, other"}, {"key": "region, id", "key_format": "text"}, {"key": "id, ID"}):
        with pytest.raises(InvalidSetting):
            stream.engine.create_replica("orders", stream.source, **{**words, **wrong})
    told = stream.engine.execute(
        f"EXPLAIN CREATE REPLICA orders FROM {stream.source} WITH (format = 'json', columns = '{columns}', "
        "mode = 'upsert', key = 'region, id')"
    )
    facts = {str(name): str(value) for name, value in told.rows}
    assert facts["key"] == "region, id"
    assert facts["walk"] == "kafka_partition, region, id: by partition, and ranges of a hash of the key"
    assert facts["kept fresh"].endswith("the newest message of a key is its row, and a tombstone deletes it")
    notices = " ".join(str(value) for name, value in told.rows if name == "notice")
    assert "min.compaction.lag.ms is 0" in notices
    assert "keeps deletes for 24.0 hours" in notices
    job = stream.engine.create_replica("orders", stream.source, **words, key="region, id")
    job.wait(120)
    found = [(row.region, row.id, row.total) for row in stream.engine.table("orders").collect()]
    assert found == [("eu", 1, 3)]
    view = stream.engine.create_view("totals", "SELECT region, sum(total) AS total FROM orders GROUP BY region")
    view.wait(240)
    for key, value in [({"region": "eu", "id": 1}, None), ({"region": "us", "id": 7}, b'{"total": 7}')]:
        stream.kafka.send(stream.topic, [value], 0, json.dumps(key).encode())
    stream.engine.run_once()
    assert [tuple(row) for row in stream.engine.table("totals").collect()] == [("us", 7)]
