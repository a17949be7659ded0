"""A user's query over tables that have names here and lie somewhere, in a session where nobody else sees the names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from tidefill.errors import BadSql, QueryFailed
from tidefill.spark.faults import translated
from tidefill.spark.names import HIDDEN, quoted
from tidefill.spark.session import job_session
from tidefill.views.reading.names import without_end


def query(spark: SparkSession, sql: str, locations: Mapping[str, str]) -> DataFrame:
    """What the query gives, where the names are the Delta tables at these locations, without hidden columns.

    Spark executes a statement such as INSERT or DROP as soon as it is given the text. So it is first asked for the
    columns of the text in parentheses after FROM, where its grammar has room for a query only."""
    session = job_session(spark)
    with _as_input():
        for name, location in locations.items():
            table = session.read.format("delta").load(location)
            shown = [f.col(quoted(column)) for column in table.columns if not column.startswith(HIDDEN)]
            table.select(*shown).createOrReplaceTempView(quoted(name))
        assert session.sql(f"SELECT * FROM (\n{without_end(sql)}\n)").schema is not None
        frame = session.sql(sql)
        assert frame.schema is not None  # Spark Connect looks at the query only when it has to
    return frame


def first_rows(frame: DataFrame, count: int) -> list[tuple[object, ...]]:
    """At most so many rows. Timestamps are text, in the time zone of the session and not of this machine."""
    named = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))  # two columns may have one name
    columns = [
        f.col(field.name).cast("string") if isinstance(field.dataType, TimestampType) else f.col(field.name)
        for field in named.schema
    ]
    with _as_input():
        return [tuple(map(_plain, row)) for row in named.select(*columns).limit(count).collect()]


def _plain(value: object) -> object:
    """Structs with the names of their parts."""
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@contextmanager
def _as_input() -> Iterator[None]:
    """What Spark refuses in a query that is only read is a mistake in the query, or in the data that it names."""
    try:
        with translated():
            yield
    except QueryFailed as error:
        raise BadSql("Spark does not take the query", detail=error.detail, hint="Mend the query.") from error
