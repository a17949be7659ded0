"""A live topic becomes a Delta table, through the engine, as a user has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from tests.kafka.harness import COLUMNS, Stream, clicks
from tidefill.errors import InvalidSetting, JobFailed, UnsupportedQuery, UpstreamUnfit


@pytest.fixture
def producer(stream: Stream) -> Iterator[Callable[[], int]]:
    """Somebody who sends to partition 1, from when the test begins until he is told to stop; he says how many."""
    stop, sent = threading.Event(), list[int]()

    def send() -> None:
        while not stop.wait(0.02):
            number = 1_000_000 + len(sent)
            stream.kafka.send(stream.topic, clicks([number]), 1)
            sent.append(number)

    thread = threading.Thread(target=send, daemon=True)

    def end() -> int:
        stop.set()
        if thread.is_alive():
            thread.join()
        return len(sent)

    stream.kafka.make(stream.topic, 3)
    thread.start()
    yield end
    end()


def test_a_topic_is_filled_under_a_producer_followed_and_dropped(stream: Stream, producer: Callable[[], int]) -> None:
    # R26
    stream.kafka.send(stream.topic, clicks(range(500)), 0)
    stream.engine.execute(
        f"CREATE REPLICA clicks FROM {stream.source} WITH (format = 'json', columns = '{COLUMNS}', chunk_rows = 250)"
    )
    job = stream.engine.job("clicks")
    view = stream.engine.create_view("pages", "SELECT id, page FROM clicks WHERE page IS NOT NULL", verify=False)
    view.wait(240)
    sent = producer()
    stream.engine.run_once()
    expected = sorted([*range(500), *range(1_000_000, 1_000_000 + sent)])
    assert stream.ids() == expected
    assert stream.places() == sorted([*((0, each) for each in range(500)), *((1, each) for each in range(sent))])
    assert stream.ids("pages") == expected
    row = stream.engine.table("clicks").where("id = 7").collect()[0]
    assert (row.page, row.at.astimezone(UTC)) == ("page 7", datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC))
    assert job.verify().differences == ()
    assert job.status().lag_versions == 0
    mine = f"tidefill-{job.id}-"
    (group,) = stream.kafka.server.groups(mine)
    assert group == f"tidefill-{job.id}-1"
    view.drop()
    job.drop()
    job.wait(60, gone=True)
    assert stream.kafka.server.groups(mine) == []
    assert list((stream.folder / "lake").iterdir()) == []


def test_an_empty_topic_a_new_partition_and_plain_appends(stream: Stream, spark: SparkSession) -> None:
    # R26
    stream.kafka.make(stream.topic, 1)
    job = stream.create()
    job.wait(120)
    assert stream.ids() == []
    stream.kafka.grow(stream.topic, 3)
    stream.kafka.send(stream.topic, clicks(range(10)), 2)
    stream.kafka.send(stream.topic, clicks(range(10, 20)), 0)
    stream.engine.run_once()
    assert stream.ids() == [*range(20)]
    stream.kafka.send(stream.topic, clicks([20]), 0)
    stream.engine.run_once()
    path = str(next(stream.folder.joinpath("lake").iterdir()))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert {entry.operationParameters.get("mode") for entry in history[:2]} == {"Append"}, "no MERGE, no overwrite"
    assert history[0].operationMetrics["numFiles"] == "1"
    assert job.verify().differences == ()


def test_an_unreadable_message_stops_the_job_with_its_offset(stream: Stream) -> None:
    stream.kafka.make(stream.topic, 2)
    stream.kafka.send(stream.topic, clicks(range(5)), 1)
    job = stream.create()
    job.wait(120)
    stream.kafka.send(stream.topic, [*clicks([5, 6]), b'{"id": "seven"}'], 1)
    stream.engine.run_once()
    with pytest.raises(JobFailed) as failed:
        job.wait(10)
    assert "[BAD_MESSAGE]" in failed.value.detail
    assert "partition 1, offset 7: a field does not fit the type of its column" in failed.value.detail
    assert stream.ids() == [*range(5)], "nothing of the step was committed"


def test_what_is_refused_before_anything_is_made(stream: Stream) -> None:
    stream.kafka.make(stream.topic, 1)
    stream.kafka.send(stream.topic, clicks([1]))
    with pytest.raises(UnsupportedQuery, match="is a topic, which is read once") as refused:
        stream.engine.create_view("v", f"SELECT id FROM {stream.source}")
    assert "CREATE REPLICA" in refused.value.hint
    with pytest.raises(UpstreamUnfit, match="there is no topic"):
        stream.engine.create_replica("c", f"{stream.source}x", format="raw")
    with pytest.raises(InvalidSetting, match="needs a format"):
        stream.engine.create_replica("c", stream.source)
    with pytest.raises(InvalidSetting, match="Spark does not know a type"):
        stream.create(columns="id BIGINTEGER")
    with pytest.raises(InvalidSetting, match="is no topic"):
        stream.engine.create_replica("c", "other", format="raw")
    with pytest.raises(InvalidSetting, match="refresh cannot be set"):
        stream.create(refresh="auto")
    assert stream.engine.jobs() == []
    told = stream.engine.execute(
        f"EXPLAIN CREATE REPLICA c FROM {stream.source} WITH (format = 'json', columns = '{COLUMNS}')"
    )
    facts = {str(name): str(value) for name, value in told.rows}
    assert facts["kept fresh"] == "incrementally: new messages are appended"
    assert facts["key"] == "kafka_partition, kafka_offset"
    assert "'page': 'page 1'" in facts["notice"]
