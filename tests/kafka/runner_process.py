"""A runner in a process of its own, to be killed. Its arguments: URL of Spark, warehouse, store, servers of Kafka."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tidefill import connect


def main(url: str, warehouse: str, store: str, servers: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    connect(spark, warehouse, store, connections={"events": {"bootstrap.servers": servers}}).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
