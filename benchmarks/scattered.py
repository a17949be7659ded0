"""A live step of 1,000 keys, scattered over a large table or in one place, against a bare MERGE of the same rows.

`make bench-scattered`. SIZES is a setting of the environment: the rows of the tables, by default 5 and 20 million.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.costs import ROUNDS, Cost, Reference, cost, middle, reference
from benchmarks.merge import DELETED, bare_merge
from benchmarks.views import machine, step
from tidefill import connect
from tidefill.delta.target import PROPERTIES
from tidefill.engine.engine import Engine
from tidefill.spark.names import table_at
from tidefill.spark.start import local_session

SIZES = tuple(map(int, os.environ.get("SIZES", "5_000_000,20_000_000").split(",")))
RESULTS = Path(__file__).parent / "RESULTS-scattered.md"
KEYS = 1000
COLUMNS = ("id", "v", "price", "name")
SCATTERED, LOCAL = "scattered", "in one place"


@dataclass(slots=True)
class Measured:
    """Of one table: steps and bare MERGEs, by where the keys lie."""

    rows: int
    steps: dict[str, list[Cost]] = field(default_factory=lambda: {SCATTERED: [], LOCAL: []})
    merges: dict[str, list[Cost]] = field(default_factory=lambda: {SCATTERED: [], LOCAL: []})


def make(spark: SparkSession, path: str, rows: int) -> None:
    """Some 60 bytes a row, in a file for each 400,000 rows, in the order of the key."""
    frame = spark.range(0, rows, 1, max(2, rows // 400_000)).selectExpr(
        "id", "id % 1000 AS v", "CAST(id AS DOUBLE) / 7 AS price", "md5(CAST(id AS STRING)) AS name"
    )
    frame.write.format("delta").options(**PROPERTIES).save(path)


def changed(rows: int, where: str, number: int) -> str:
    """The condition of the keys that change in this round: other ones each time."""
    if where == SCATTERED:
        return f"id % {rows // KEYS} = {number}"
    first = rows // 3 + number * KEYS
    return f"id BETWEEN {first} AND {first + KEYS - 1}"


def measured(spark: SparkSession, engine: Engine, folder: Path, rows: int) -> Measured:
    """A view of all rows, kept by steps, and a copy of it that bare MERGEs keep."""
    name, path, copy = f"t{rows}", str(folder / f"t{rows}"), str(folder / f"copy{rows}")
    make(spark, path, rows)
    engine.register(name, location=path, key="id")
    engine.create_view(f"v{rows}", f"SELECT {', '.join(COLUMNS)} FROM {name}", verify=False, refresh="incremental")
    service, found = engine.scheduler(hurry=True), Measured(rows)
    step(engine, service, f"v{rows}")
    spark.read.format("delta").load(path).write.format("delta").options(**PROPERTIES).save(copy)
    for number in range(ROUNDS + 1):
        for where in (SCATTERED, LOCAL):
            condition = changed(rows, where, number)
            spark.sql(f"UPDATE {table_at(path)} SET v = v + 1, price = price + 1 WHERE {condition}")
            changes = spark.read.format("delta").load(path).where(condition).selectExpr(*COLUMNS, f"false AS {DELETED}")
            kept = spark.createDataFrame(changes.toArrow(), changes.schema)
            took = cost(spark, lambda: step(engine, service, f"v{rows}"))
            merged = cost(spark, lambda: bare_merge(kept, copy, COLUMNS))  # noqa: B023
            if number:  # the first round is a warm-up
                found.steps[where].append(took)
                found.merges[where].append(merged)
                print(f"{rows:,}, {where}: a step {took}; a bare MERGE {merged}", flush=True)
    for made in (path, copy):
        shutil.rmtree(made)
    return found


def report(found: list[Measured], compared: Reference) -> str:
    """A page."""
    lines = [
        "# Measured by `make bench-scattered`",
        "",
        f"{machine()}. {KEYS:,} rows of a table are updated by somebody else; a step of a view of all rows takes them "
        f"in, beside a bare MERGE of the same rows into a copy. Medians of {ROUNDS} after a warm-up. {compared}",
        "",
        "| rows | keys | a step | a bare MERGE | share of its seconds | of its bytes |",
        "|---|---|---|---|---|---|",
        *(line for one in found for line in _lines(one)),
        "",
        *_told(found),
    ]
    return "\n".join(lines) + "\n"


def _lines(one: Measured) -> Iterator[str]:
    for where in (SCATTERED, LOCAL):
        took, merged = middle(one.steps[where]), middle(one.merges[where])
        shares = f"{took.s / merged.s:.2f} | {took.read_bytes / max(1, merged.read_bytes):.2f}"
        yield f"| {one.rows:,} | {where} | {took} | {merged} | {shares} |"


def _told(found: list[Measured]) -> Iterator[str]:
    steps = [{where: middle(costs).s for where, costs in one.steps.items()} for one in found]
    for one, took in zip(found, steps, strict=True):
        yield f"{one.rows:,} rows: scattered takes {took[SCATTERED] / took[LOCAL]:.2f} times as long as in one place."
    for one, took in zip(found[1:], steps[1:], strict=True):
        ratio = took[SCATTERED] / steps[0][SCATTERED]
        yield f"Scattered into {one.rows:,} rows takes {ratio:.2f} times as long as into {found[0].rows:,}."


def main() -> int:
    """Measure, print and keep the page."""
    spark = local_session()
    with tempfile.TemporaryDirectory(prefix="tidefill-bench-") as name:
        folder = Path(name)
        compared = reference(spark, folder)
        print(compared, flush=True)
        with connect(spark, folder / "lake", folder / "store") as engine:
            page = report([measured(spark, engine, folder, rows) for rows in SIZES], compared)
    print(page)
    RESULTS.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
