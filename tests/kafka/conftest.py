"""One broker for each run of pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.harness import Kafka, Stream


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    from tests.kafka.harness import Kafka
    from tidefill.local.kafka import local_kafka

    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "log.cleaner.backoff.ms": "200",
    }
    with local_kafka(settings) as broker:
        yield Kafka(broker)


@pytest.fixture
def stream(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> Iterator[Stream]:
    from tests.kafka.harness import Stream

    made = Stream(spark, kafka, tmp_path)
    yield made
    made.close()
