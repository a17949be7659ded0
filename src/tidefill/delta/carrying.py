"""How a statement carries the payload of a step: by the settings of the session that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidefill.core.confirm import Payload, payload_to_text
from tidefill.spark.session import having_set


@contextmanager
def carrying(session: SparkSession, payload: Payload) -> Iterator[None]:
    """A MERGE takes its payload from the settings of the session that runs it."""
    settings = {
        "spark.databricks.delta.commitInfo.userMetadata": payload_to_text(payload),
        "spark.databricks.delta.write.txnAppId": payload.generation_uuid,
        "spark.databricks.delta.write.txnVersion": str(payload.state.step),
    }
    with having_set(session, settings):
        yield
