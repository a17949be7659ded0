"""The tables of TPC-H as Delta tables, by the generator `tpchgen-cli`, in the order of their keys."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tidefill.engine import Engine
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
FILE_ROWS = 250_000


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
    """Some orders come, with their items; some change; some go."""
    at = {table: table_at(str(folder / table)) for table in ("orders", "lineitem")}
    (keys,) = spark.sql(f"SELECT sort_array(collect_list(o_orderkey)) FROM {at['orders']}").collect()[0]
    first = number * 7919 % max(1, len(keys) - 4 * orders)
    changed, gone, copied = (keys[first + start * orders : first + (start + 1) * orders] for start in range(3))
    new = max(keys) + 1 - copied[0]
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        copies = spark.sql(f"SELECT * FROM {at[table]} WHERE {key} BETWEEN {copied[0]} AND {copied[-1]}")
        rows = copies.withColumn(key, f.col(key) + new).coalesce(1)
        rows.write.format("delta").mode("append").save(str(folder / table))
        spark.sql(f"DELETE FROM {at[table]} WHERE {key} BETWEEN {gone[0]} AND {gone[-1]}")
    where = f"BETWEEN {changed[0]} AND {changed[-1]}"
    spark.sql(f"UPDATE {at['orders']} SET o_totalprice = o_totalprice + 1 WHERE o_orderkey {where}")
    spark.sql(
        f"UPDATE {at['lineitem']} SET l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + l_tax "
        f"WHERE l_orderkey {where}"
    )
