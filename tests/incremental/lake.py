"""The same tables as Delta tables, written by MERGE and DELETE."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.incremental.world import KEYS, TABLES, Row, key_of, some_row
from tidefill import connect
from tidefill.engine import Engine
from tidefill.views.lowering import TableColumns


class Lake:
    """An engine over tables that somebody changes."""

    def __init__(self, spark: SparkSession, folder: Path, chance: random.Random) -> None:
        self.spark, self.folder, self.chance = spark, folder, chance
        self.engine: Engine = connect(spark, folder / "lake", folder / "store")
        for name, table in TABLES.items():
            columns = ", ".join(f"{column} {kind}" for column, kind in table.columns)
            on = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            spark.sql(f"CREATE TABLE {self._at(name)} ({columns}) USING delta {on}")
            self._put(name, [some_row(chance, table) for _ in range(KEYS)])
            self.engine.register(name, location=folder / name, key=table.key)

    def _at(self, name: str) -> str:
        return f"delta.`{self.folder / name}`"

    def _put(self, name: str, rows: list[Row]) -> None:
        table = TABLES[name]
        once = {key_of(table, row): row for row in rows}.values()
        values = ", ".join(f"({', '.join(map(_cast, row, _kinds(table)))})" for row in once)
        names = ", ".join(column for column, _ in table.columns)
        on = " AND ".join(f"t.{column} = s.{column}" for column in table.key)
        self.spark.sql(
            f"MERGE INTO {self._at(name)} t USING (SELECT * FROM VALUES {values} AS s ({names})) s ON {on} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def write(self, *names: str) -> None:
        """Some rows come or change, and some go."""
        for name in names or TABLES:
            table = TABLES[name]
            self._put(name, [some_row(self.chance, table) for _ in range(3)])
            self.spark.sql(f"DELETE FROM {self._at(name)} WHERE {table.key[0]} = {self.chance.randrange(KEYS)}")

    def expect(self, name: str, sql: str) -> None:
        """The view is its query, in values and types."""
        found, wanted = self.engine.table(name), self.engine.query(sql)
        assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in wanted.schema], sql
        assert _rows(found) == _rows(wanted), sql


def _kinds(table: TableColumns) -> list[str]:
    return [kind for _, kind in table.columns]


def _cast(value: Any, kind: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {kind})"


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))
