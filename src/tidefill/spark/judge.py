"""The user's own query, run by Spark over the rows that a job covers: what VERIFY compares a view with.

Nothing that the compiler generated is in it. A name in the query means a temporary view of that name, in the job's own
session, where nobody else sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from tidefill.core.state import Table
from tidefill.spark.names import HIDDEN, quoted

COMPILED = "compared with the compiled query, not with the text of the user: "


@contextmanager
def by_text(session: SparkSession, sql: str, tables: Mapping[Table, DataFrame]) -> Iterator[DataFrame]:
    """What the query gives over these tables, without their hidden columns. The frame can be evaluated only inside of
    the context: Spark Connect looks at the names when it runs the query."""
    try:
        for name, frame in tables.items():
            shown = [quoted(column) for column in frame.columns if not column.startswith(HIDDEN)]
            frame.select(*shown).createOrReplaceTempView(quoted(name))
        yield session.sql(sql)
    finally:
        for name in tables:
            session.catalog.dropTempView(name)
