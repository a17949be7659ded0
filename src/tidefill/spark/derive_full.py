"""A query that is computed from nothing at each refresh, by Spark as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from tidefill.core.state import Occurrence, Table
from tidefill.core.step import Shape
from tidefill.ports.frames import Changes, Judged
from tidefill.spark.compiling import parsed
from tidefill.spark.derive_view import statement
from tidefill.spark.judge import by_text
from tidefill.views.reading.full import over
from tidefill.views.reading.lexer import read


class FullQuery:
    """`sql`: the query as the user wrote it. `empty`: the tables that it reads, without rows."""

    def __init__(self, session: SparkSession, sql: str, empty: Mapping[Table, DataFrame]) -> None:
        tree = parsed(read(sql).text)
        assert isinstance(tree, exp.Query), "it was one when it was created"
        self._session = session
        self._sql = sql
        self._names = {table: f"__tf_new_{number}" for number, table in enumerate(empty)}
        self._query = over(tree, {table.casefold(): name for table, name in self._names.items()})
        self._empty = dict(empty)
        self.shape = Shape(tables={table: table for table in empty}, walked=(), starts_empty=False, full=True)

    def whole(self, rows: Mapping[Occurrence, DataFrame]) -> DataFrame:
        """The query."""
        return statement(self._session, self._query, {self._names[table]: rows[table] for table in self._names})

    @contextmanager
    def judged(self, rows: Mapping[Occurrence, DataFrame]) -> Iterator[Judged[DataFrame]]:
        """By the user's text."""
        with by_text(self._session, self._sql, rows) as found:
            yield Judged(found)

    def nothing(self) -> DataFrame:
        """Outputs without rows."""
        return self.whole(self._empty).where("false")

    def append(self, rows: Mapping[Occurrence, DataFrame], whole: Mapping[Occurrence, DataFrame]) -> NoReturn:
        """There are no chunks."""
        raise AssertionError("nothing is walked")

    def changes(
        self, changes: Mapping[Occurrence, Changes[DataFrame]], new: Mapping[Occurrence, DataFrame]
    ) -> NoReturn:
        """It knows nothing of changes."""
        raise AssertionError("what is computed anew is not merged")

    def with_chunk(self, changes: Changes[DataFrame] | None, chunk: DataFrame) -> NoReturn:
        """There are no chunks."""
        raise AssertionError("nothing is walked")
