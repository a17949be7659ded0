"""A compacted topic on a real broker. Each test knows that the log was cleaned: the messages are gone from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kafka.harness import Message, Stream, until
from tests.kafka.test_upserts import put, rows, upsert
from tidefill.jobs.lifecycle import Life

FILLER = 1000
DAY_MS = "86400000"


def clean(stream: Stream, until_so: Callable[[list[Message]], bool]) -> int:
    """Send fillers, which fill segments, until the cleaner has done its work; the total of the last one."""
    sent = [0]

    def cleaned() -> bool:
        sent[0] += 1
        put(stream, [(FILLER, sent[0], None)], 1)
        return until_so(stream.kafka.messages(stream.topic))

    until(cleaned)
    return sent[0]


@pytest.mark.full
@pytest.mark.parametrize("tombstones_ms", ["100", DAY_MS])
def test_a_log_is_cleaned_while_nobody_runs_the_job(stream: Stream, tombstones_ms: str) -> None:
    # R26
    stream.kafka.make(
        stream.topic, 1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01",
        delete_retention_ms=tombstones_ms,
    )  # fmt: skip
    put(stream, [(number, number, "first") for number in range(20)], 1)
    job = upsert(stream, chunk_rows=8)
    job.wait(240)
    assert len(rows(stream)) == 20
    put(stream, [(number, 2 * number, "second") for number in range(10)], 1)
    put(stream, [(number, None, None) for number in range(10, 15)], 1)
    stay = tombstones_ms == DAY_MS

    def is_clean(there: list[Message]) -> bool:
        """The first messages have gone, and the tombstones too, unless they stay for a day."""
        firsts = [offset for _, offset, key, _ in there if offset < 15]
        tombstones = [offset for _, offset, key, value in there if value is None]
        return not firsts and (stay or not tombstones)

    last = clean(stream, is_clean)
    stream.engine.run_once()
    expected: dict[int, tuple[float, str | None]] = {number: (2.0 * number, "second") for number in range(10)}
    expected |= {number: (float(number), "first") for number in range(15, 20)} | {FILLER: (float(last), None)}
    assert rows(stream) == expected
    assert job.verify().differences == ()
    assert job.status().state == Life.LIVE.value
    again = stream.engine.create_replica(
        "again", stream.source, format="json", columns="id BIGINT, total BIGINT", mode="upsert", key="id"
    )
    again.wait(240)
    assert {row.id: row.total for row in stream.engine.table("again").collect()} == {
        number: int(total) for number, (total, _) in expected.items()
    }
