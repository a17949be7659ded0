"""Texts of TPC-DS as views, through real commits: created, filled, kept fresh through changes of every table, and equal
to the text over the tables."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.tpcds.queries import QUERIES, reads
from benchmarks.tpcds.tables import TABLES
from tests.views.incremental.meanwhile import compiled_session, rounded
from tests.views.incremental.tables import Row
from tests.views.incremental.test_tpcds import REFUSED
from tests.views.incremental.tpcds import beginning, beginnings, connected_to_tpcds
from tests.views.incremental.tpcds_page import UNNAMED
from tests.views.incremental.world import key_of
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.errors import TidefillError
from tidefill.spark.names import table_at
from tidefill.views.relations.lowered import TableColumns

FEW = ("9", "41", "44", "97")
"""Of the forms that TPC-DS alone has: values of queries of many kinds, LIMIT over one row, conditions in all parts of
an OR."""
TAKEN = [name for name in QUERIES if name not in (*REFUSED, *UNNAMED)]
TOGETHER = 10
ROUNDS, CHANGED_ROWS = 2, 4
SEEDS_MAX, CHUNK_ROWS = 400, 10
_ARROW = {"int": pa.int32(), "string": pa.string(), "date": pa.date32()}

Data = Mapping[str, Mapping[Row, Row]]


class Warehouse:
    """Tables with the rows that some texts begin with, and more of the same kind."""

    def __init__(self, spark: SparkSession, folder: Path, names: Sequence[str]) -> None:
        self.spark, self.folder, self.chance = spark, folder, random.Random(names[0])
        self.tables = sorted({table for name in names for table in reads(QUERIES[name])})
        with connected_to_tpcds() as connection:
            seeds = {name: list(itertools.islice(beginnings(name, connection, range(SEEDS_MAX)), 2)) for name in names}
        first, self.more = ([beginning(name, of[at]).data for name, of in seeds.items()] for at in (0, -1))
        for table in self.tables:
            columns = ", ".join(f"{column} {kind}" for column, kind in TABLES[table].columns)
            feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            self.spark.sql(f"CREATE TABLE {self._at(table)} ({columns}) USING delta {feed}")
            self._append(table, self._of(first, table))

    def write(self) -> None:
        """Some rows of each table take the place of others."""
        for table in self.tables:
            rows = list(self._of(self.more, table).values())
            rows = self.chance.sample(rows, min(CHANGED_ROWS, len(rows)))
            if rows:
                self.spark.sql(f"DELETE FROM {self._at(table)} WHERE {_named(TABLES[table], rows)}")
                self._append(table, {key_of(TABLES[table], row): row for row in rows[1:]})

    def _at(self, table: str) -> str:
        return table_at(str(self.folder / table))

    def _of(self, parts: Sequence[Data], table: str) -> dict[Row, Row]:
        return {key: row for data in parts for key, row in data.get(table, {}).items()}

    def _append(self, table: str, rows: Mapping[Row, Row]) -> None:
        kinds = [kind for _, kind in TABLES[table].columns]
        fields = [pa.field(name, _arrow(kind)) for name, kind in TABLES[table].columns]
        columns = [[_value(kind, row[at]) for row in rows.values()] if rows else [] for at, kind in enumerate(kinds)]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
        frame = self.spark.createDataFrame(pa.table(arrays, schema=pa.schema(fields)))
        frame.coalesce(1).write.format("delta").mode("append").save(str(self.folder / table))


def _arrow(kind: str) -> Any:
    if kind.startswith("decimal"):
        digits, places = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(digits), int(places))
    return _ARROW[kind]


def _value(kind: str, value: Any) -> Any:
    return date.fromisoformat(value) if kind == "date" and value is not None else value


def _named(table: TableColumns, rows: Sequence[Row]) -> str:
    """These rows, by their keys."""
    pairs = (zip(table.key, key_of(table, row), strict=True) for row in rows)
    return " OR ".join(f"({' AND '.join(f'{name} = {value}' for name, value in key)})" for key in pairs)


def over(spark: SparkSession, folder: Path, names: Sequence[str]) -> Iterator[tuple[Engine, Warehouse]]:
    session = compiled_session(spark)
    warehouse = Warehouse(session, folder, names)
    with connect(session, folder / "lake", folder / "store") as engine:
        for table in warehouse.tables:
            engine.register(table, location=folder / table, key=TABLES[table].key)
        yield engine, warehouse


def keep_fresh(spark: SparkSession, folder: Path, names: Sequence[str]) -> None:
    """Views of these texts, through some rounds of changes of every table."""
    for engine, warehouse in over(spark, folder, names):
        views = {f"q{name}": QUERIES[name] for name in names}
        for view, sql in views.items():
            engine.create_view(view, sql, verify=False, refresh="incremental", chunk_rows=CHUNK_ROWS)
        wrong = dict[str, str]()
        had_rows = set[str]()
        for done in range(ROUNDS + 1):
            if done:
                warehouse.write()
            engine.run_once()
            for view, sql in views.items():
                if (told := difference(engine, view, sql)) is not None:
                    wrong[f"{view} in round {done}"] = told
            had_rows |= {view for view in views if not engine.table(view).isEmpty()}
        assert wrong == {}
        assert had_rows == views.keys()
        assert {view: engine.job(view).verify().differences for view in views} == dict.fromkeys(views, ())


def difference(engine: Engine, view: str, sql: str) -> str | None:
    """In what the view is not its text. Of fewer rows than LIMIT takes, no choice is left open."""
    found, wanted = engine.table(view), engine.query(sql)
    if found.dtypes != wanted.dtypes:
        return f"{found.dtypes} should be {wanted.dtypes}"
    here, there = (sorted(map(rounded, frame.collect()), key=str) for frame in (found, wanted))
    return None if here == there else f"{here[:3]} should be {there[:3]}: {engine.job(view).status().failure or ''}"


@pytest.mark.full
def test_a_few_stay_fresh(spark: SparkSession, tmp_path: Path) -> None:
    keep_fresh(spark, tmp_path, FEW)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, len(TAKEN), TOGETHER))
def test_every_query_stays_fresh(first: int, spark: SparkSession, tmp_path: Path) -> None:
    keep_fresh(spark, tmp_path, TAKEN[first : first + TOGETHER])


@pytest.mark.soak
def test_spark_takes_and_refuses_the_same(spark: SparkSession, tmp_path: Path) -> None:
    refused = dict[str, str]()
    for engine, _ in over(spark, tmp_path, list(QUERIES)):
        for name, sql in QUERIES.items():
            try:
                engine.explain_view(sql)
            except TidefillError as error:
                refused[name] = f"{error.fact} {error.detail}"
    assert sorted(refused) == sorted((*REFUSED, *UNNAMED)), refused
