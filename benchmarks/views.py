"""A step of a view against what it takes without one: the query computed anew and the table overwritten, as the
pipelines of open-source Spark do it. Over TPC-H's lineitem and what it refers to.

    make bench-views              # SCALE=1 is 6 million items
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.merge import timed
from benchmarks.processes import read_bytes
from benchmarks.tpch import make_tables, register
from tidefill import connect
from tidefill.core.step import Reason
from tidefill.engine import Engine
from tidefill.service import Service
from tidefill.spark.names import table_at
from tidefill.spark.session import local_session
from tidefill.targets.delta import PROPERTIES

SCALE = float(os.environ.get("SCALE", "1"))
TABLES = ("lineitem", "orders", "customer", "nation")
RESULTS = Path(__file__).parent / "RESULTS-views.md"
SHARES = (0.0001, 0.001, 0.01)
VIEWS = {
    "filter": "SELECT l_orderkey, l_linenumber, l_quantity, l_extendedprice FROM lineitem WHERE l_discount > 0.05",
    "1,000 groups": "SELECT l_suppkey % 1000 AS g, count(*) AS n, sum(l_extendedprice) AS t "
    "FROM lineitem GROUP BY l_suppkey % 1000",
    "a group an order": "SELECT l_orderkey, count(*) AS n, sum(l_extendedprice) AS t FROM lineitem GROUP BY l_orderkey",
    "min and max": "SELECT l_partkey % 1000 AS p, min(l_shipdate) AS lo, max(l_extendedprice) AS hi "
    "FROM lineitem GROUP BY l_partkey % 1000",
    "join of 2": "SELECT l_orderkey, l_linenumber, o_orderdate, l_extendedprice "
    "FROM lineitem JOIN orders ON o_orderkey = l_orderkey",
    "join of 4": "SELECT l_orderkey, l_linenumber, l_extendedprice, o_orderdate, c_name, n_name "
    "FROM lineitem JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey "
    "JOIN nation ON n_nationkey = c_nationkey",
}


@dataclass(slots=True)
class Cost:
    """Of one step, or of the query computed anew."""

    s: float
    read_bytes: int


@dataclass(slots=True)
class Measured:
    """A view: what it costs anew, and by change."""

    anew: Cost
    steps: dict[str, Cost] = field(default_factory=dict)


def cost(work: Callable[[], object]) -> Cost:
    """Of some work. (Spark itself does not count what it reads of a local disk.)"""
    before = read_bytes()
    return Cost(timed(work), read_bytes() - before)


def changes(items: int) -> Iterator[tuple[str, str]]:
    """Which items change, in one place and everywhere. An order has four of them."""
    for number, share in enumerate(SHARES):
        orders = max(1, int(items * share / 4))
        first = items // 3 + number * items // 8
        yield f"{share:.2%} in one place", f"l_orderkey BETWEEN {first} AND {first + 4 * orders}"
        yield f"{share:.2%} scattered", f"l_orderkey % {int(1 / share)} = {number} AND l_linenumber < 8"


def write(spark: SparkSession, folder: Path, which: str) -> None:
    """A transaction of somebody else."""
    lineitem = table_at(str(folder / "lineitem"))
    spark.sql(f"UPDATE {lineitem} SET l_extendedprice = l_extendedprice + 1 WHERE {which}")


def anew(engine: Engine, sql: str, path: str) -> None:
    """All of it, in place of what was there."""
    rows = engine.query(sql)
    rows.write.format("delta").options(**PROPERTIES).mode("overwrite").save(path)


def step(engine: Engine, service: Service, name: str) -> None:
    """Until it has taken in what there is."""
    while True:
        row = engine._store.find(name)
        assert row is not None
        assert row.failure is None, row.failure
        if not service.turn(row).worked:
            now = engine._store.find(name)
            assert now is not None
            if now.waiting == Reason.IDLE.value:
                return


def measure(spark: SparkSession, folder: Path) -> tuple[dict[str, Measured], int]:
    """Every view, built and kept beside the others; and how many items there are."""
    make_tables(spark, folder, SCALE, TABLES)
    items = spark.read.format("delta").load(str(folder / "lineitem")).count()
    found: dict[str, Measured] = {}
    with connect(spark, folder / "lake", folder / "store") as engine:
        register(engine, folder, TABLES)
        names = {title: f"v{number}" for number, title in enumerate(VIEWS)}
        for title, sql in VIEWS.items():
            engine.create_view(names[title], sql, verify=False)
        for title, sql in VIEWS.items():
            path = str(folder / f"anew-{names[title]}")
            anew(engine, sql, path)
            found[title] = Measured(cost(lambda: anew(engine, sql, path)))  # noqa: B023
            shutil.rmtree(path)
            print(f"{title}: anew {found[title].anew.s:.1f} s", flush=True)
        service = engine._service(hurry=True)
        for title in VIEWS:
            build_s = timed(lambda: step(engine, service, names[title]))  # noqa: B023
            print(f"{title}: built in {build_s:.1f} s", flush=True)
        write(spark, folder, "l_orderkey < 100")
        for title in VIEWS:
            step(engine, service, names[title])
        for change, which in changes(items):
            write(spark, folder, which)
            for title in VIEWS:
                took = cost(lambda: step(engine, service, names[title]))  # noqa: B023
                found[title].steps[change] = took
                print(f"{title}, {change}: {took.s:.1f} s, {took.read_bytes / 1e6:.1f} MB", flush=True)
    return found, items


def report(found: dict[str, Measured], items: int) -> str:
    """A page."""
    titles = list(found)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    anew = " | ".join(f"{one.anew.s:.1f} s, {one.anew.read_bytes / 1e6:,.0f} MB" for one in found.values())
    lines = [
        "# Measured by `make bench-views`",
        "",
        f"{machine}; TPC-H at scale {SCALE:g}, {items:,} items in the order of their key. Items are updated by "
        "somebody else; a step takes that in. Beside it the query computed anew and its table overwritten. Seconds, "
        "and megabytes that its Java read; in bold the step's shares of the whole. One round after a warm-up.",
        "",
        "| | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
        f"| anew | {anew} |",
    ]
    for change in next(iter(found.values())).steps:
        cells = []
        for one in found.values():
            took = one.steps[change]
            share = took.s / one.anew.s, took.read_bytes / max(1, one.anew.read_bytes)
            cells.append(f"{took.s:.1f} s, {took.read_bytes / 1e6:,.0f} MB: **{share[0]:.2f}**, **{share[1]:.2f}**")
        lines.append(f"| {change} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print, write the page."""
    spark = local_session()
    with tempfile.TemporaryDirectory(prefix="tidefill-bench-") as folder:
        found, items = measure(spark, Path(folder))
    page = report(found, items)
    print(page)
    RESULTS.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
