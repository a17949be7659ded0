"""A step of a view against what it takes without one: the query computed anew and the table overwritten, as the
pipelines of open-source Spark do it. Over TPC-H's lineitem and what it refers to.

    make bench-views              # SCALE=1 is 6 million items
    make bench-tpch               # the same for the queries of TPC-H, with one small change
    QUERIES=4,18 make bench-tpch  # for these alone: shown, but the page of all is left as it is
    SCALE=10 make bench-tpch      # with a page of its own, for the queries over the large tables

Steps are asked for (`refresh = incremental`): a job that may choose would often recompute.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.costs import ROUNDS, Cost, Reference, cost, middle, reference
from benchmarks.tpch import KEYS, make_tables, register
from tests.views.incremental.tpch import QUERIES
from tidefill import connect
from tidefill.core.reasons import Reason
from tidefill.delta.target import PROPERTIES
from tidefill.engine.engine import Engine
from tidefill.errors import UnsupportedQuery
from tidefill.run.scheduler import Scheduler
from tidefill.spark.names import table_at
from tidefill.spark.start import local_session

SCALE = float(os.environ.get("SCALE", "1"))
CHOSEN = frozenset(map(int, filter(None, os.environ.get("QUERIES", "").split(","))))
TABLES = ("lineitem", "orders", "customer", "nation")
RESULTS = Path(__file__).parent / "RESULTS-views.md"
RESULTS_TPCH = Path(__file__).parent / "RESULTS-tpch.md"
RESULTS_LARGE = Path(__file__).parent / f"RESULTS-tpch-{SCALE:g}.md"
OVER_LARGE = (1, 3, 5, 6, 7, 8, 9, 10, 18, 21)
GONE, LITTLE = "0.01% in one place", 0.2
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
class Measured:
    """A view: what it costs anew, and by change."""

    anew: Cost
    steps: dict[str, list[Cost]] = field(default_factory=dict)


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


def step(engine: Engine, service: Scheduler, name: str) -> None:
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


@dataclass(slots=True)
class Bench:
    """Views over these tables, built and kept beside each other."""

    spark: SparkSession
    folder: Path
    engine: Engine
    service: Scheduler
    views: dict[str, str]
    reference: Reference
    found: dict[str, Measured] = field(default_factory=dict)

    def build(self) -> None:
        """What each costs anew, and the views."""
        for title, sql in self.views.items():
            path = str(self.folder / f"anew-{_name(title)}")
            anew(self.engine, sql, path)
            self.found[title] = Measured(cost(self.spark, lambda: anew(self.engine, sql, path)))  # noqa: B023
            shutil.rmtree(path)
            self.engine.create_view(_name(title), sql, verify=False, refresh="incremental")
            built = cost(self.spark, lambda: self._step(title))  # noqa: B023
            print(f"{title}: anew {self.found[title].anew}; built: {built}", flush=True)

    def _step(self, title: str) -> None:
        step(self.engine, self.service, _name(title))

    def take_in(self, change: str = "") -> None:
        """What was written since, in each view; measured if the change has a name."""
        for title in self.views:
            took = cost(self.spark, lambda: self._step(title))  # noqa: B023
            if change:
                self.found[title].steps.setdefault(change, []).append(took)
                print(f"{title}, {change}: {took}", flush=True)


def _name(title: str) -> str:
    return re.sub(r"\W+", "_", f"v_{title}")


@contextmanager
def bench(tables: Sequence[str], views: dict[str, str]) -> Iterator[Bench]:
    """Tables that were just generated."""
    spark = local_session()
    with tempfile.TemporaryDirectory(prefix="tidefill-bench-") as name:
        folder = Path(name)
        make_tables(spark, folder, SCALE, tables)
        with connect(spark, folder / "lake", folder / "store") as engine:
            register(engine, folder, tables)
            compared = reference(spark, folder)
            print(compared, flush=True)
            yield Bench(spark, folder, engine, engine.scheduler(hurry=True), views, compared)


def measure() -> tuple[Bench, int]:
    """Every view; and how many items there are."""
    with bench(TABLES, VIEWS) as over:
        items = over.spark.read.format("delta").load(str(over.folder / "lineitem")).count()
        over.build()
        write(over.spark, over.folder, "l_orderkey < 100")
        over.take_in()
        for change, which in changes(items):
            write(over.spark, over.folder, which)
            over.take_in(change)
    return over, items


def measure_tpch() -> Bench:
    """Every query of TPC-H that is taken, or those of the chosen ones: a ten thousandth of the orders goes, with their
    items, or, for those that read neither, of what suppliers have of parts."""
    chosen = CHOSEN or (frozenset(OVER_LARGE) if SCALE > 1 else frozenset(QUERIES))
    queries = {f"Q{n}": sql for n, sql in QUERIES.items() if n in chosen}
    of_orders = {title: sql for title, sql in queries.items() if re.search(r"\b(lineitem|orders)\b", sql)}
    of_parts = {title: sql for title, sql in queries.items() if title not in of_orders}
    with bench(tuple(KEYS), {}) as over:
        taken = {title: sql for title, sql in (of_orders | of_parts).items() if _is_taken(over.engine, title, sql)}
        over.views = taken
        over.build()
        kinds = ((of_orders, ("lineitem", "orders")), (of_parts, ("partsupp",)))
        for _, tables in kinds:
            remove(over.spark, over.folder, tables, 0)
        over.take_in()
        for views, tables in kinds:
            over.views = {title: sql for title, sql in taken.items() if title in views}
            for number in range(ROUNDS if over.views else 0):
                remove(over.spark, over.folder, tables, 1 + number)
                over.take_in(GONE)
    return over


def _is_taken(engine: Engine, title: str, sql: str) -> bool:
    try:
        engine.explain_view(sql)
    except UnsupportedQuery as refused:
        print(f"{title}: {refused.fact}", flush=True)
        return False
    return True


def remove(spark: SparkSession, folder: Path, tables: Sequence[str], round_: int) -> None:
    """A ten thousandth of the first table's leading keys, from each of them."""
    key = KEYS[tables[0]][0]
    last = spark.read.format("delta").load(str(folder / tables[0])).agg({key: "max"}).collect()[0][0]
    first = last // 4 + round_ * last // 12
    for table in tables:
        where = f"{KEYS[table][0]} BETWEEN {first} AND {first + max(1, last // 10_000)}"
        spark.sql(f"DELETE FROM {table_at(str(folder / table))} WHERE {where}")


def report_tpch(over: Bench) -> str:
    """A page."""
    unit_s = over.reference.merge.s
    lines = [
        "# Measured by `make bench-tpch`",
        "",
        f"{machine()}; TPC-H at scale {SCALE:g}. {GONE} goes: orders with their items, or what suppliers have of "
        "parts. A step takes that in; beside it the query computed anew and its table overwritten. Steps are medians "
        f"of {ROUNDS} after a warm-up. {over.reference}",
        "",
        "| query | anew | a step | share of the seconds | of the bytes | in bare MERGEs |",
        "|---|---|---|---|---|---|",
    ]
    read, faster = [], 0
    for title, one in sorted(over.found.items(), key=lambda pair: int(pair[0][1:])):
        took = middle(one.steps[GONE])
        read.append(took.read_bytes / max(1, one.anew.read_bytes))
        faster += took.s < one.anew.s
        lines.append(
            f"| {title} | {one.anew} | {took} | {took.s / one.anew.s:.2f} | {read[-1]:.2f} | {took.s / unit_s:.2f} |"
        )
    few = sum(share < LITTLE for share in read)
    told = f"{faster} of {len(read)} are faster by a step; {few} read less than {LITTLE:.0%} of the bytes."
    return "\n".join([*lines, "", told]) + "\n"


def machine() -> str:
    """In words."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def report(over: Bench, items: int) -> str:
    """A page."""
    found, titles = over.found, list(over.found)
    anew = " | ".join(str(one.anew) for one in found.values())
    lines = [
        "# Measured by `make bench-views`",
        "",
        f"{machine()}; TPC-H at scale {SCALE:g}, {items:,} items in the order of their key. Items are updated by "
        "somebody else; a step takes that in. Beside it the query computed anew and its table overwritten. Megabytes "
        "are what Java read; in bold the step's shares of the seconds and of the bytes. One round after a warm-up. "
        f"{over.reference}",
        "",
        "| | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
        f"| anew | {anew} |",
    ]
    for change in next(iter(found.values())).steps:
        cells = []
        for one in found.values():
            took = middle(one.steps[change])
            share = took.s / one.anew.s, took.read_bytes / max(1, one.anew.read_bytes)
            cells.append(f"{took}: **{share[0]:.2f}**, **{share[1]:.2f}**")
        lines.append(f"| {change} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(what: str) -> int:
    """Measure, print, write the page. (Of chosen queries there is none.)"""
    if what == "tpch":
        page, path = report_tpch(measure_tpch()), RESULTS_TPCH if SCALE == 1 else RESULTS_LARGE
    else:
        page, path = report(*measure()), RESULTS
    print(page)
    if not CHOSEN:
        path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or [""]))
