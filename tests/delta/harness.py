"""Real Delta tables, put before the conformance suites."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from tidefill.core.keys import EPOCH, Timestamp, Value
from tidefill.delta.target import DeltaTarget
from tidefill.delta.upstream import DeltaUpstream
from tidefill.spark.coverage import collectable, key_of, key_types
from tidefill.spark.faults import translated
from tidefill.spark.names import MARK
from tidefill.spark.session import job_session
from tidefill.spark.weights import came, weighted, went
from tidefill.storage.local import remove_tree
from tidefill.testing.conformance.target.harness import Marked, TargetCan
from tidefill.testing.conformance.upstream.harness import Can, KeyValues, Kind, Layout, Row, Write

TYPES: dict[Kind, t.DataType] = {
    Kind.INT: t.LongType(),
    Kind.DECIMAL: t.DecimalType(30, 10),
    Kind.TEXT: t.StringType(),
    Kind.BYTES: t.BinaryType(),
    Kind.DATE: t.DateType(),
    Kind.TIMESTAMP: t.TimestampType(),
    Kind.BOOL: t.BooleanType(),
}


def local_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: t.StructType) -> DataFrame:
    """These rows; through Arrow, because a Python worker for each small frame costs a second."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[at] for row in rows], type=field.type) for at, field in enumerate(arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema).coalesce(1)


def _wait_for(path: str, within_s: float = 120.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not Path(path).exists():
        assert time.monotonic() < deadline_s, f"{path} did not come"
        time.sleep(0.01)


def to_spark(value: Value) -> Any:
    """A value of `core.keys` as Spark takes it."""
    return EPOCH + timedelta(microseconds=value.micros) if isinstance(value, Timestamp) else value


class DeltaUpstreamHarness:
    """`DeltaUpstream` over a table that others write through the same Spark."""

    capabilities = frozenset({Can.HOLD_DUPLICATES, Can.LOSE_HISTORY})

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._path = str(folder / f"up-{uuid.uuid4().hex}")
        self._layout: Layout | None = None

    @property
    def _columns(self) -> list[str]:
        assert self._layout is not None
        return [name for name, _ in self._layout.columns]

    def _frame(self, rows: Sequence[Row], extra: Sequence[tuple[str, ...]] = ()) -> DataFrame:
        assert self._layout is not None
        fields = [t.StructField(name, TYPES[kind]) for name, kind in self._layout.columns]
        schema = t.StructType([*fields, *(t.StructField("op", t.StringType()) for _ in extra[:1])])
        ends: Sequence[tuple[str, ...]] = extra or [()] * len(rows)
        data = [(*(to_spark(value) for value in row), *end) for row, end in zip(rows, ends, strict=True)]
        return local_frame(self._spark, data, schema)

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        self._layout = layout
        (
            self._frame(rows)
            .coalesce(1)
            .write.format("delta")
            .option("delta.enableChangeDataFeed", "true")
            .save(self._path)
        )

    def upstream(self) -> DeltaUpstream:
        assert self._layout is not None
        names = self._columns
        key = [names[column] for column in self._layout.key]
        walk = [names[column] for column in self._layout.walk]
        return DeltaUpstream(self._spark, self._path, key, [*walk, *(name for name in key if name not in walk)])

    def write(self, changes: Sequence[Write]) -> None:
        assert self._layout is not None
        layout = self._layout
        old = {layout.key_of(before): before for before, _ in changes if before is not None}
        new = {layout.key_of(after): after for _, after in changes if after is not None}
        rows = [*new.values(), *(row for key, row in old.items() if key not in new)]
        ops = [("U" if key in old else "I",) for key in new] + [("D",) for key in old if key not in new]
        self._frame(rows, ops).coalesce(1).createOrReplaceTempView("source_of_write")
        on = " AND ".join(f"t.{self._columns[column]} <=> s.{self._columns[column]}" for column in layout.key)
        values = ", ".join(f"s.{name}" for name in self._columns)
        self._spark.sql(
            f"MERGE INTO delta.`{self._path}` t USING source_of_write s ON {on} AND s.op <> 'I' "
            f"WHEN MATCHED AND s.op = 'D' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in self._columns)} "
            f"WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT ({', '.join(self._columns)}) VALUES ({values})"
        )

    def stir(self) -> None:
        """A commit that leaves the rows alone."""
        self._spark.sql(f"ALTER TABLE delta.`{self._path}` SET TBLPROPERTIES ('stirred' = '{uuid.uuid4().hex}')")

    def collect(self, frame: DataFrame) -> list[Row]:
        types = key_types(frame.schema, self._columns)
        with translated():
            found = frame.select(*collectable(self._columns, types)).collect()
        return [key_of(tuple(row), types).values for row in found]

    def sides(self, changes: DataFrame) -> tuple[DataFrame, DataFrame]:
        return went(changes), came(changes)

    def collect_keys(self, frame: DataFrame) -> list[KeyValues]:
        raise NotImplementedError

    def truncate(self) -> None:
        raise NotImplementedError

    def lose_history(self) -> None:
        """The log is cleaned up to a new checkpoint."""
        self._spark.sql(f"ALTER TABLE delta.`{self._path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        self.stir()
        log = Path(self._path) / "_delta_log"
        newest = max(path.name for path in log.glob("*.json"))
        for path in log.glob("*.json"):
            if path.name < newest:
                path.unlink()


COLUMNS = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("third", t.LongType()),
        t.StructField("nothing", t.LongType()),
        t.StructField("value", t.LongType()),
    ]
)


class DeltaTargetHarness:
    """`DeltaTarget`."""

    capabilities = frozenset(TargetCan)

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = self._session(spark)
        self._folder = folder / f"target-{uuid.uuid4().hex}"
        self._job_id = uuid.uuid4().hex
        self._name = f"shown_{self._job_id}"

    @staticmethod
    def _session(spark: SparkSession) -> SparkSession:
        """Whose tables have a checkpoint at every version, so that their log can be cleaned."""
        session = job_session(spark)
        session.conf.set("spark.databricks.delta.properties.defaults.checkpointInterval", "1")
        return session

    def _path(self, generation: int) -> str:
        return str(self._folder / f"shown-{self._job_id}-{generation}")

    def target(self, generation: int = 1) -> DeltaTarget:
        session, path = self._session(self._spark), self._path(generation)
        return DeltaTarget(session, path, COLUMNS, ("id",), self._name, job_id=self._job_id)

    def frame(self, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        return local_frame(self._spark, [tuple(row) for row in rows], COLUMNS)

    def marked(self, changes: Sequence[Marked]) -> DataFrame:
        schema = t.StructType([*COLUMNS.fields, t.StructField(MARK, t.StringType())])
        data = [((key, None, None, None) if row is None else tuple(row)) + (mark,) for mark, key, row in changes]
        return local_frame(self._spark, data, schema)

    def keys(self, ids: Sequence[int]) -> DataFrame:
        return weighted(local_frame(self._spark, [(id_,) for id_ in ids], t.StructType(COLUMNS.fields[:1])), -1)

    def failing(self) -> DataFrame:
        broken = f.when(f.col("id") > 1, f.raise_error(f.lit("broken")).cast("bigint")).otherwise(f.col("value"))
        marked = self.marked([("I", 1, (1, 1, None, 1)), ("I", 2, (2, 2, None, 2))])
        return marked.withColumn("value", broken)

    def meanwhile(self, frame: DataFrame, act: Callable[[], None]) -> DataFrame:
        """A task tells by a file that it has begun, and waits for another; in between a thread acts."""
        begun, done = (str(self._folder.with_name(f"{uuid.uuid4().hex}.{name}")) for name in ("begun", "done"))

        def waits(value: int) -> int:
            Path(begun).touch()
            _wait_for(done)
            return value

        def acts() -> None:
            _wait_for(begun)
            try:
                act()
            finally:
                Path(done).touch()

        threading.Thread(target=acts, daemon=True).start()
        return frame.withColumn("id", f.udf(waits, "bigint", useArrow=False)("id"))

    def rows(self, generation: int = 1) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._spark.read.format("delta").load(self._path(generation)).collect()]

    def shown(self) -> list[tuple[Any, ...]] | None:
        if not self._spark.catalog.tableExists(self._name):
            return None
        return [tuple(row) for row in self._spark.table(self._name).collect()]

    def foreign_append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.frame(rows).write.format("delta").mode("append").save(self._path(1))

    def foreign_delete(self, ids: Sequence[int]) -> None:
        listed = ", ".join(map(str, ids))
        self._spark.sql(f"DELETE FROM delta.`{self._path(1)}` WHERE id IN ({listed})")

    def restore(self, version: int) -> None:
        self._spark.sql(f"RESTORE delta.`{self._path(1)}` TO VERSION AS OF {version}")

    def optimize(self) -> None:
        self._spark.sql(f"ALTER TABLE delta.`{self._path(1)}` SET TBLPROPERTIES ('x' = '{uuid.uuid4().hex}')")

    def clean_log(self, keep: int) -> None:
        log = Path(self._path(1)) / "_delta_log"
        for path in sorted(log.glob("*.json"))[:-keep]:
            path.unlink()

    def remove(self) -> None:
        for resource in self.target().resources:
            if resource.kind == "path":
                remove_tree(resource.name)
