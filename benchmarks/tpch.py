"""The tables of TPC-H as Delta tables, by the generator `tpchgen-cli`, in the order of their keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tidefill.engine.engine import Engine
from tidefill.spark.names import table_at

GENERATOR = Path(sys.executable).parent / "tpchgen-cli"
KEYS: Mapping[str, Sequence[str]] = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "part": ["p_partkey"],
    "supplier": ["s_suppkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "customer": ["c_custkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
CHANGES: Mapping[str, str] = {
    "region": "r_comment = concat(r_comment, '.')",
    "nation": "n_regionkey = (n_regionkey + 1) % 5",
    "part": "p_size = p_size % 50 + 1",
    "supplier": "s_nationkey = (s_nationkey + 1) % 25, s_acctbal = s_acctbal + 1",
    "partsupp": "ps_availqty = ps_availqty + 1, ps_supplycost = ps_supplycost + 1",
    "customer": "c_nationkey = (c_nationkey + 1) % 25, c_acctbal = c_acctbal + 1",
}
FILE_ROWS = 250_000
STRIDE = 7919  # from one refresh's place to the next one's: a prime, so that any stretch gets its share


def make_tables(spark: SparkSession, folder: Path, scale: float, tables: Sequence[str] = tuple(KEYS)) -> None:
    """Generate them, and write them as Delta tables with change feeds."""
    made = folder / "generated"
    command = [GENERATOR, "parquet", "-s", str(scale), "--tables", ",".join(tables), "--output-dir", made]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    for table in tables:
        rows = spark.read.parquet(str(made / f"{table}.parquet"))
        parts = max(1, rows.count() // FILE_ROWS)
        placed = rows.repartitionByRange(parts, *KEYS[table]).sortWithinPartitions(*KEYS[table])
        placed.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(folder / table))
        (made / f"{table}.parquet").unlink()


def register(engine: Engine, folder: Path, tables: Sequence[str] = tuple(KEYS)) -> None:
    """By their names."""
    for table in tables:
        engine.register(table, location=folder / table, key=KEYS[table], walk=KEYS[table])


def refresh(spark: SparkSession, folder: Path, number: int, orders: int) -> None:
    """In each table some rows come, some change, some go: so many orders with their items, and of the others a few,
    which come back with the next refresh."""
    _refresh_orders(spark, folder, number, orders)
    for table in CHANGES:
        _refresh_others(spark, folder, table, number, orders)


def _refresh_orders(spark: SparkSession, folder: Path, number: int, orders: int) -> None:
    at = {table: table_at(str(folder / table)) for table in ("orders", "lineitem")}
    (keys,) = spark.sql(f"SELECT sort_array(collect_list(o_orderkey)) FROM {at['orders']}").collect()[0]
    first = number * STRIDE % max(1, len(keys) - 4 * orders)
    changed, gone, copied = (keys[first + start * orders : first + (start + 1) * orders] for start in range(3))
    new = max(keys) + 1 - copied[0]
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        copies = spark.sql(f"SELECT * FROM {at[table]} WHERE {key} BETWEEN {copied[0]} AND {copied[-1]}")
        rows = copies.withColumn(key, f.col(key) + new).coalesce(1)
        rows.write.format("delta").mode("append").save(str(folder / table))
        spark.sql(f"DELETE FROM {at[table]} WHERE {key} BETWEEN {gone[0]} AND {gone[-1]}")
    where = f"BETWEEN {changed[0]} AND {changed[-1]}"
    spark.sql(
        f"UPDATE {at['orders']} SET o_totalprice = o_totalprice + 1, o_custkey = o_custkey + 1 WHERE o_orderkey {where}"
    )
    spark.sql(
        f"UPDATE {at['lineitem']} SET l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + l_tax "
        f"WHERE l_orderkey {where}"
    )


def _refresh_others(spark: SparkSession, folder: Path, table: str, number: int, rows_max: int) -> None:
    """By the first column of the key: never more than a twentieth of a table, so that its views show something."""
    at, key = table_at(str(folder / table)), KEYS[table][0]
    was = f"{at} VERSION AS OF 0"
    (keys,) = spark.sql(f"SELECT sort_array(collect_set({key})) FROM {was}").collect()[0]
    few = max(1, min(rows_max, len(keys) // 20))
    first = number * STRIDE % (len(keys) - 2 * few)
    gone, changed = (keys[first + start * few : first + (start + 1) * few] for start in range(2))
    spark.sql(f"INSERT INTO {at} SELECT was.* FROM {was} AS was ANTI JOIN {at} AS now USING ({', '.join(KEYS[table])})")
    spark.sql(f"DELETE FROM {at} WHERE {key} BETWEEN {gone[0]} AND {gone[-1]}")
    spark.sql(f"UPDATE {at} SET {CHANGES[table]} WHERE {key} BETWEEN {changed[0]} AND {changed[-1]}")
