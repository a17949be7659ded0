"""How the rows of a query in PostgreSQL become a frame: with Spark's own reader, in the exported snapshot of a head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, ShortType, StringType, StructField, StructType

from tidefill.core.keys import Key
from tidefill.errors import TidefillError, UpstreamUnfit
from tidefill.ports.frames import F
from tidefill.postgres.head import Head
from tidefill.postgres.server import PostgresServer
from tidefill.postgres.types import PgColumn, mapped
from tidefill.spark.faults import SNAPSHOT_GONE as SNAPSHOT_GONE
from tidefill.spark.faults import translated
from tidefill.spark.jars import jars_of_postgres
from tidefill.spark.local_rows import as_frame
from tidefill.spark.weights import weighted

_TYPES = {"SMALLINT": ShortType(), "INT": IntegerType(), "BIGINT": LongType(), "STRING": StringType()}
FETCH_ROWS = 10_000  # without a number the driver forgets the snapshot, and reads all rows at once


class Reader(Protocol[F]):
    """Makes frames."""

    def read(self, head: Head, columns: Sequence[PgColumn], query: str) -> F:
        """The rows of a query that sends these columns, named by their numbers, evaluated late."""

    def constants(self, columns: Sequence[PgColumn], rows: Sequence[Key]) -> F:
        """These rows of columns that are sent as they are logged."""

    def union(self, frames: Sequence[F]) -> F:
        """The rows of all of them."""

    def changes(self, keys: Sequence[F], rows: Sequence[F]) -> F:
        """All of them with their weights: keys went, rows came."""


def check_reader(spark: SparkSession, server: PostgresServer) -> None:
    """UpstreamUnfit if this Spark has no driver, or does not reach the server from where it runs."""
    options = {name: value for name, value in server.jdbc("tidefill", "").items() if name != "sessionInitStatement"}
    try:
        with translated():
            spark.read.format("jdbc").options(**options, dbtable="(SELECT 1 AS one) q").load().collect()
    except TidefillError as error:
        if "ClassNotFound" in error.detail or "No suitable driver" in error.detail:
            raise UpstreamUnfit(
                "Spark has no driver for PostgreSQL",
                hint=f"Start it with spark.jars.packages = {jars_of_postgres().coordinates}",
            ) from error
        raise UpstreamUnfit(
            f"Spark does not reach the server of {server.name}",
            detail=error.detail,
            hint="Its executors read from the server: the URL has to be good where they run.",
        ) from error


class SparkReader:
    """Each query is a partition with a session of its own."""

    def __init__(self, spark: SparkSession, server: PostgresServer, application: str) -> None:
        self._spark = spark
        self._server = server
        self._application = application

    def read(self, head: Head, columns: Sequence[PgColumn], query: str) -> DataFrame:
        """Through JDBC."""
        options = self._server.jdbc(self._application, head.exported)
        with translated():
            frame = (
                self._spark.read.format("jdbc")
                .options(**options, dbtable=f"({query}) q", fetchsize=FETCH_ROWS, pushDownPredicate=False)
                .load()
            )
            return frame.select(*map(_as_spark, columns))

    def constants(self, columns: Sequence[PgColumn], rows: Sequence[Key]) -> DataFrame:
        """No server is asked."""
        fields = [StructField(column.name, _TYPES[mapped(column).becomes]) for column in columns]
        values = [pa.array([row.values[place] for row in rows]) for place in range(len(fields))]
        return as_frame(self._spark, pa.table(values, [field.name for field in fields]), StructType(fields))

    def union(self, frames: Sequence[DataFrame]) -> DataFrame:
        """By position: they are of the same columns. Two and two, as there may be hundreds: Spark goes down a plan by
        recursion."""
        while len(frames) > 1:
            pairs = [frames[place : place + 2] for place in range(0, len(frames), 2)]
            frames = [reduce(DataFrame.unionAll, pair) for pair in pairs]
        return frames[0]

    def changes(self, keys: Sequence[DataFrame], rows: Sequence[DataFrame]) -> DataFrame:
        """What is no key column is NULL where a key went."""
        went, came = weighted(self.union(keys), -1), weighted(self.union(rows), 1)
        return came.unionByName(went, allowMissingColumns=True)


def _as_spark(column: PgColumn) -> Column:
    how = mapped(column)
    return f.expr(how.read.format(f"c{column.number}")).cast(how.becomes).alias(column.name)
