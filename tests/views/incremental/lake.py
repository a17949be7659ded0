"""The same tables as Delta tables, written by MERGE and DELETE."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.views.incremental.commits import Commit, finished_commits, identity
from tests.views.incremental.tables import Row
from tests.views.incremental.world import KEYS, TABLES, key_of, some_row
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.views.relations.lowered import TableColumns


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

    def run_until(self, done: Callable[[], bool], within_s: float) -> None:
        """Run all jobs until it holds."""
        deadline = time.monotonic() + within_s
        stop = threading.Event()
        self.engine.scheduler().run(stop, lambda: done() or time.monotonic() > deadline)
        assert done(), self.engine.statuses()

    def head(self, name: str) -> int:
        """The newest version of a table."""
        return int(self.spark.sql(f"DESCRIBE HISTORY {self._at(name)} LIMIT 1").collect()[0]["version"])

    def steps(self, name: str) -> int:
        """How often the view was committed since it is live."""
        return len(self._commits(name)) if self.engine.job(name).status().state == "live" else 0

    def _commits(self, name: str) -> list[Commit]:
        return finished_commits(self.spark, self._made(name))

    def head_of(self, name: str) -> int:
        """The newest version of a view."""
        return int(self.spark.sql(f"DESCRIBE HISTORY delta.`{self._made(name)}` LIMIT 1").collect()[0]["version"])

    def written_since(self, name: str, version: int) -> set[str]:
        """The first column of each row that a view's change feed has since then."""
        feed = self.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version + 1)
        return {str(row[0]) for row in feed.load(self._made(name)).collect()}

    def _made(self, name: str) -> str:
        return self.engine._inputs.live(name).location

    def versions_of(self, name: str, base: str) -> list[tuple[int, int]]:
        """Each version of a view that covers everything, with the version of the table that it comes from."""
        table = identity(self.spark, str(self.folder / base))
        return [(commit.version, commit.bases[table]) for commit in self._commits(name)]

    def at(self, name: str, version: int) -> list[str]:
        """What a view showed at one of its versions."""
        frame = self.spark.read.format("delta").option("versionAsOf", version).load(self._made(name))
        return _rows(frame.select(*(column for column in frame.columns if not column.startswith("__tf_"))))

    def over(self, base: str, version: int, sql: str) -> list[str]:
        """A query over a version of the table."""
        past = f"(SELECT * FROM {self._at(base)} VERSION AS OF {version})"
        return _rows(self.spark.sql(sql.replace(f"FROM {base} ", f"FROM {past} {base} ")))

    def expect(self, name: str, sql: str) -> None:
        """The view is its query, in values and types."""
        assert self.difference(name, sql) is None

    def difference(self, name: str, sql: str, *, settled: bool = True) -> str | None:
        """In what the view is not its query. Not `settled`: the query leaves a choice open, which Spark may make in
        another way, so only names and types are compared."""
        found, wanted = self.engine.table(name), self.engine.query(sql)
        for here, there in (
            (_types(found), _types(wanted)),
            *([(_rows(found), _rows(wanted))] if settled else []),
        ):
            if here != there:
                return f"{sql}\nis {here}\nand should be {there}"
        return None


def _kinds(table: TableColumns) -> list[str]:
    return [kind for _, kind in table.columns]


def _cast(value: Any, kind: str) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {kind})"


def _types(frame: DataFrame) -> list[str]:
    """Names and types. (In a Delta table, any part of a value may be NULL.)"""
    return [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema]


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))
