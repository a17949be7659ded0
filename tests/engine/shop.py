"""An engine and a table that is written beside it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.testing.turns import turns


class Shop:
    """An engine and a table that is written beside it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.source = str(folder / "source")
        self.warehouse = folder / "lake"
        self.engine: Engine = connect(spark, self.warehouse, folder / "store")

    def make(self, rows: int = 100, columns: str = "id, id % 7 AS v, concat('n', id) AS name", **options: str) -> None:
        frame = self.spark.sql(f"SELECT {columns} FROM range(0, {rows}, 1, 2)")
        frame.write.format("delta").options(**{"delta.enableChangeDataFeed": "true", **options}).save(self.source)

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("SOURCE", f"delta.`{self.source}`"))

    def turns(self, count: int) -> None:
        """So many turns of the only job."""
        turns(self.engine, count)

    def expect(self, name: str, query: str) -> None:
        """The job's table holds what the query gives now."""
        found = rows_of(self.engine.table(name))
        wanted = rows_of(self.spark.sql(query.replace("SOURCE", f"delta.`{self.source}`")))
        assert found == wanted


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))
