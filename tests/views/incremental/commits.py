"""The commits of a view, as the history of its Delta table has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from tidefill.core.confirm import payload_from_text
from tidefill.core.state import JobState
from tidefill.core.version import bases_of_all
from tidefill.spark.names import table_at


@dataclass(frozen=True, slots=True)
class Commit:
    """`bases`: from which version of each table it comes, by the identity of the table."""

    version: int
    at: datetime
    state: JobState

    @property
    def bases(self) -> dict[str, int]:
        return bases_of_all(self.state.versions.values())


def finished_commits(spark: SparkSession, location: str) -> list[Commit]:
    """Those that cover everything, the newest first."""
    found = []
    for row in spark.sql(f"DESCRIBE HISTORY {table_at(location)}").collect():
        payload = payload_from_text(row["userMetadata"])
        if payload is not None and payload.state.finished():
            found.append(Commit(int(row["version"]), row["timestamp"], payload.state))
    return found


def identity(spark: SparkSession, location: str) -> str:
    """What the table is called in `bases`."""
    return str(spark.sql(f"DESCRIBE DETAIL {table_at(location)}").collect()[0]["id"])
