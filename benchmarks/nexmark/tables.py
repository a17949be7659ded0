"""The events of Nexmark in Delta tables: appended as they come, and changed and deleted as no stream would have it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.nexmark.events import PUBLISHED, Events, Shape, events
from benchmarks.nexmark.queries import SIDE_ROWS, TABLES
from tidefill.engine.engine import Engine
from tidefill.spark.names import table_at

BATCH_EVENTS = 100_000  # in one commit of each table, and in the memory of this process
CHANGES: Mapping[str, str] = {
    "person": "state = CASE state WHEN 'OR' THEN 'AZ' ELSE 'OR' END, name = concat(name, ' jr')",
    "auction": "category = 10 + (category - 9) % 5, expires = expires + INTERVAL '2' SECOND, seller = seller + 1",
    "bid": "price = price * 2 + 1, date_time = date_time + INTERVAL '3' SECOND, bidder = bidder + 1, channel = 'Apple'",
    "side_input": "value = concat(value, '.')",
}
_ARROW = {"bigint": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC")}


def make_tables(spark: SparkSession, folder: Path, first_auction: int = PUBLISHED.first_auction) -> None:
    """Empty ones with change feeds; but the small table that bids are joined with has all of its rows."""
    for name, table in TABLES.items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns)
        at = table_at(str(folder / name))
        spark.sql(f"CREATE TABLE {at} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    keys = range(first_auction, first_auction + SIDE_ROWS)
    _append(spark, folder, "side_input", [(key % SIDE_ROWS, f"side {key % 97}") for key in keys])


def register(engine: Engine, folder: Path) -> None:
    """By their names. Events come in the order of their keys."""
    for name, table in TABLES.items():
        engine.register(name, location=folder / name, key=table.key, walk=table.key)


def append(spark: SparkSession, folder: Path, made: Events) -> None:
    """One commit for each table that gets rows; bids come last."""
    for name, rows in (("person", made.people), ("auction", made.auctions), ("bid", made.bids)):
        if rows:
            _append(spark, folder, name, rows)


def load(spark: SparkSession, folder: Path, seed: int, numbers: range, shape: Shape = PUBLISHED) -> None:
    """These events of the stream, in batches."""
    for batch in _batches(numbers):
        append(spark, folder, events(seed, batch, shape))


def change(spark: SparkSession, folder: Path, name: str, chance: random.Random, rows: int) -> None:
    """So many rows of a table change, and as many go: two commits."""
    at, (key,) = table_at(str(folder / name)), TABLES[name].key
    (keys,) = spark.sql(f"SELECT sort_array(collect_list({key})) FROM {at}").collect()[0]
    chosen = chance.sample(keys, min(2 * rows, len(keys) // 4))
    changed, gone = chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]
    if gone:
        spark.sql(f"UPDATE {at} SET {CHANGES[name]} WHERE {key} IN ({_listed(changed)})")
        spark.sql(f"DELETE FROM {at} WHERE {key} IN ({_listed(gone)})")


def _batches(numbers: range) -> Iterator[range]:
    for first in range(0, len(numbers), BATCH_EVENTS):
        yield numbers[first : first + BATCH_EVENTS]


def _listed(keys: Sequence[int]) -> str:
    return ", ".join(map(str, keys)) or "NULL"


def _append(spark: SparkSession, folder: Path, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    fields = [(column, _ARROW[kind]) for column, kind in TABLES[name].columns]
    columns = [list(values) for values in zip(*rows, strict=True)]
    frame = spark.createDataFrame(pa.table(columns, schema=pa.schema(fields)))
    frame.coalesce(1).write.format("delta").mode("append").save(str(folder / name))
