"""What Nexmark's queries cost as views: to build each against CREATE TABLE AS SELECT of the same text, and how fresh
some of them are while events come.

    make bench-nexmark                                    # 1,000,000 events, then 100, 400 and 1,600 a second
    QUERIES=4,7 make bench-nexmark                        # these alone, and the freshness of what is made of them
    EVENTS=20000 RATES=50 RATE_S=10 make bench-nexmark    # smaller

The page is written only by a run that measures all of it at the size that it is meant for; others are shown.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.merge import timed
from benchmarks.nexmark.queries import CHAINS, QUERIES, SHARED, reads
from benchmarks.nexmark.tables import load, make_tables, register
from benchmarks.views import CHOSEN, anew, machine, step
from tests.views.incremental.commits import finished_commits, identity
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.spark.names import table_at
from tidefill.spark.start import local_session

EVENTS_ON_THE_PAGE, RATES_ON_THE_PAGE, RATE_S_ON_THE_PAGE = 1_000_000, "100,400,1600", 60
EVENTS = int(os.environ.get("EVENTS", EVENTS_ON_THE_PAGE))
RATES = os.environ.get("RATES", RATES_ON_THE_PAGE)
RATE_S = int(os.environ.get("RATE_S", RATE_S_ON_THE_PAGE))
SEED = 1
COMMIT_EVERY_S = 1.0
RESULTS = Path(__file__).parents[1] / "RESULTS-nexmark.md"
FRESH: Mapping[str, int] = {"q4": 4, "q5": 5, "q7": 7, "q4_of_winning_bids": 4}
"""The views whose freshness is measured, each with the query that it is."""
VIEWS: Mapping[str, str] = {
    **{f"q{number}": query.sql for number, query in QUERIES.items()},
    **{name: shared.sql for name, shared in SHARED.items()},
    **{name: chain.sql for name, chain in CHAINS.items()},
}


@dataclass(frozen=True, slots=True)
class Built:
    """Seconds to make a table of the query, and to build the view; and how many rows it has."""

    name: str
    rows: int
    ctas_s: float
    view_s: float


@dataclass(frozen=True, slots=True)
class Fresh:
    """`delays_s`: of each commit of bids, until the view had it, in order of length. `late_s`: from the last one until
    the view had all of them; None if it had not even after as long again as they came."""

    name: str
    rate: int
    delays_s: list[float]
    steps: int
    late_s: float | None

    def at(self, share: float) -> float:
        """The delay that this share of the commits does not exceed."""
        return self.delays_s[min(len(self.delays_s) - 1, int(len(self.delays_s) * share))]


@dataclass(slots=True)
class House:
    """Tables that events come to."""

    spark: SparkSession
    folder: Path
    events: int = 0

    def go_on(self, spark: SparkSession, count: int) -> None:
        """Further events."""
        first, self.events = self.events, self.events + count
        load(spark, self.folder, SEED, range(first, self.events))

    @contextmanager
    def engine(self, name: str) -> Iterator[Engine]:
        """One of its own for each view: no two compete."""
        with connect(self.spark, self.folder / f"lake-{name}", self.folder / f"store-{name}") as made:
            register(made, self.folder)
            yield made

    def build(self, number: int) -> Built:
        """A query as a table, and as a view."""
        name, path = f"q{number}", str(self.folder / f"ctas-{number}")
        with self.engine(name) as engine:
            ctas_s = timed(lambda: anew(engine, VIEWS[name], path))
            view_s = timed(lambda: _build(engine, [name]))
            rows = engine.table(name).count()
        for left in (path, self.folder / f"lake-{name}"):
            shutil.rmtree(left)
        return Built(name, rows, ctas_s, view_s)

    def measure(self, name: str, rates: Sequence[int]) -> Iterator[Fresh]:
        """A view that is live while events come, first few and then more, until it does not catch up."""
        with self.engine(f"fresh-{name}") as engine:
            _build(engine, [*(read for read in reads(VIEWS[name]) if read in SHARED), name])
            stop = threading.Event()
            running = threading.Thread(target=engine.run, args=(stop,))
            running.start()
            try:
                for rate in rates:
                    found = self._at(engine, name, rate)
                    yield found
                    if found.late_s is None:
                        break
            finally:
                stop.set()
                running.join()

    def _at(self, engine: Engine, name: str, rate: int) -> Fresh:
        spark, bids, seen = self.spark.newSession(), str(self.folder / "bid"), engine._inputs.live(name).location
        before = engine._lake.tables.head(bids)
        for number in range(RATE_S):
            due_s = time.monotonic() + COMMIT_EVERY_S
            self.go_on(spark, round(rate * COMMIT_EVERY_S))
            if number < RATE_S - 1:
                time.sleep(max(0.0, due_s - time.monotonic()))
        ended_s, head, table = time.monotonic(), engine._lake.tables.head(bids), identity(spark, bids)
        late_s: float | None = None
        while late_s is None and time.monotonic() - ended_s < RATE_S:
            time.sleep(COMMIT_EVERY_S / 4)
            if _has(spark, seen, table, head):
                late_s = time.monotonic() - ended_s
        came = {
            int(row["version"]): row["timestamp"]
            for row in spark.sql(f"DESCRIBE HISTORY {table_at(bids)}").collect()
            if before < row["version"] <= head
        }
        taken = [(one.bases[table], one.at) for one in reversed(finished_commits(spark, seen))]
        delays = sorted(delay for delay in (_delay(version, at, taken) for version, at in came.items()) if delay >= 0)
        return Fresh(name, rate, delays, sum(before < version <= head for version, _ in taken), late_s)


def _build(engine: Engine, names: Sequence[str]) -> None:
    """Views, the later ones over the earlier ones, until all are live."""
    service = engine.scheduler(hurry=True)
    for name in names:
        engine.create_view(name, VIEWS[name], verify=False)
        step(engine, service, name)


def _has(spark: SparkSession, location: str, table: str, version: int) -> bool:
    newest = finished_commits(spark, location)[0]
    return newest.bases[table] >= version


def _delay(version: int, at: datetime, taken: Sequence[tuple[int, datetime]]) -> float:
    """Until the first commit of the view that has the version; below 0 if none has. `taken` is in order of time."""
    return next((max(0.0, (then - at).total_seconds()) for base, then in taken if base >= version), -1.0)


def measure() -> tuple[list[Built], list[Fresh]]:
    """Every query, or the chosen ones."""
    chosen = sorted(CHOSEN) or list(QUERIES)
    spark = local_session()
    with tempfile.TemporaryDirectory(prefix="tidefill-bench-") as name:
        house = House(spark, Path(name))
        make_tables(spark, house.folder)
        house.go_on(spark, EVENTS)
        print(f"warm-up: {house.build(chosen[0])}", flush=True)
        built, fresh = [], []
        for number in chosen:
            built.append(house.build(number))
            print(built[-1], flush=True)
        for view, number in FRESH.items():
            if number in chosen:
                for found in house.measure(view, [int(rate) for rate in RATES.split(",")]):
                    fresh.append(found)
                    print(_line(found), flush=True)
    spark.stop()
    return built, fresh


def _line(one: Fresh) -> str:
    late = "not within the time" if one.late_s is None else f"{one.late_s:.1f} s"
    delays = f"{one.at(0.5):.1f} s | {one.at(0.99):.1f} s" if one.delays_s else "none | none"
    return f"| {one.name} | {one.rate:,} | {delays} | {one.steps} | {late} |"


def report(built: Sequence[Built], fresh: Sequence[Fresh]) -> str:
    """A page."""
    ratios = [one.view_s / one.ctas_s for one in built]
    return "\n".join([
        "# Measured by `make bench-nexmark`",
        "",
        f"{machine()}; {EVENTS:,} events of Nexmark: {EVENTS * 46 // 50:,} bids. [The queries](../docs/nexmark.md).",
        "",
        "## To build a view",
        "",
        "From CREATE until all rows are in, without the verification; beside it CREATE TABLE AS SELECT of the same "
        "text, just before it in the same session. One round after a warm-up.",
        "",
        "| query | rows | CTAS | view | ratio |",
        "|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.rows:,} | {one.ctas_s:.1f} s | {one.view_s:.1f} s | {one.view_s / one.ctas_s:.2f} |"
            for one in built
        ),
        "",
        f"The median of the ratios is {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}).",
        "",
        "## How fresh a view is",
        "",
        f"Events come for {RATE_S} s at each rate, in a commit a second for each table. A delay is the time from a "
        "commit of bids to the first commit of the view that has it, as Delta has both times. The last column is how "
        f"long the view took to have all bids when no more came. If it did not within {RATE_S} s, delays are those of "
        "the commits that it had, and greater rates were not tried. `q4_of_winning_bids` is a view over another view, "
        "and both are kept.",
        "",
        "| view | events/s | half of the delays are at most | 99 % | steps | caught up after |",
        "|---|---|---|---|---|---|",
        *map(_line, fresh),
    ]) + "\n"  # fmt: skip


def main() -> int:
    """Measure, print, write the page."""
    page = report(*measure())
    print(page)
    if not CHOSEN and (EVENTS, RATES, RATE_S) == (EVENTS_ON_THE_PAGE, RATES_ON_THE_PAGE, RATE_S_ON_THE_PAGE):
        RESULTS.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
