"""A global unique index over a partitioned table under writers, by both methods and all ways to sort, against what
PostgreSQL offers itself: CREATE UNIQUE INDEX CONCURRENTLY over a copy that is not partitioned; and against the way by
hand (a trigger, then INSERT ... SELECT). Spark is up before anything is measured. The page is written after
each round.

    make bench-index              # ROWS=2000000,10000000 WRITES_PER_S=300 ROUNDS=3 WAYS="sort = spark,initput"
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.latency import Latency
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.local.postgres import LocalPostgres, local_postgres

ROWS = [int(text) for text in os.environ.get("ROWS", "2000000,10000000").split(",")]
WRITES_PER_S = int(os.environ.get("WRITES_PER_S", "300"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
ONLY = [text for text in os.environ.get("WAYS", "").split(",") if text]
PARTITIONS = 8
BEFORE_S = AFTER_S = 5.0
LOOKUPS = 200
RESULTS = Path(__file__).parent / "RESULTS-index.md"
ROW = "n, mod(n, 8)::int, 'user' || md5(n::text), mod(n, 1000)"
HEAD = (
    "rows", "way", "seconds", "ratio", "fill and key / merge / validation", "CPU-s of the server", "ratio",
    "before validation", "ratio", "log, MB", "entries / indexes, MB", "writers before", "during", "after", "lookup, ms",
)  # fmt: skip
SAMPLE_S = 0.1
SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "maintenance_work_mem": "256MB"}


class Writer(threading.Thread):
    """So many transactions a second, each of one row anywhere in the table."""

    def __init__(self, url: str, table: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._connection = psycopg.connect(url, autocommit=True)
        self._table, self._rows = table, rows
        self._stopped = threading.Event()
        self._random = random.Random(1)
        self.latency = Latency()

    def run(self) -> None:
        """Until told to stop."""
        number, begin_s = 0, time.monotonic()
        while not self._stopped.wait(max(0.0, begin_s + number / WRITES_PER_S - time.monotonic())):
            number += 1
            row = self._random.randrange(self._rows)
            began_s = time.monotonic()
            self._connection.execute(
                f"UPDATE {self._table} SET email = 'user' || md5(%s) WHERE id = %s AND region = %s",
                (f"{row}-{number}", row, row % PARTITIONS),
            )
            self.latency.taken.append((time.monotonic() - began_s) * 1000)

    def stop(self) -> None:
        """And wait for the last one."""
        self._stopped.set()
        self.join()
        self._connection.close()

    def since_last(self) -> Latency:
        """What was taken since this was asked before."""
        taken, self.latency = self.latency, Latency()
        return taken


class Cpu(threading.Thread):
    """Notes all the time how many seconds of a core the server has taken."""

    def __init__(self, server: LocalPostgres) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopped = threading.Event()
        self._noted: list[tuple[float, float]] = []

    def run(self) -> None:
        """Until told to stop."""
        while True:
            self._noted.append((time.time(), server_cpu_s(self._server)))
            if self._stopped.wait(SAMPLE_S):
                return

    def stop(self) -> None:
        """After the last note."""
        self._stopped.set()
        self.join()
        self._noted.append((time.time(), server_cpu_s(self._server)))

    def upto(self, at_s: float) -> float:
        """Seconds of a core from the first note to that time."""
        first = self._noted[0][1]
        return max((cpu for noted_s, cpu in self._noted if noted_s <= at_s), default=first) - first


@dataclass(frozen=True, slots=True)
class Measured:
    """One way to an index. `parts`: seconds of fill and key, of merge, and of validation, if they are known.
    `server_s`: seconds of a core of the server; `built_s`: of them before the validation; `wal`: bytes of its log;
    `size`: bytes of the entries, and of their indexes; `before`, `during`, `after`: how long the writers' transactions
    took."""

    way: str
    rows: int
    s: float
    parts: tuple[float, ...]
    server_s: float
    built_s: float
    wal: int
    size: tuple[int, int]
    before: Latency
    during: Latency
    after: Latency
    lookup_ms: float = 0.0


def make_table(shop: psycopg.Connection[Any], rows: int, *, partitioned: bool) -> None:
    """Table `orders` with so many rows."""
    shop.execute("DROP TABLE IF EXISTS orders CASCADE")
    columns = "id bigint, region int, email text, total int, PRIMARY KEY (id, region)"
    shop.execute(f"CREATE TABLE orders ({columns}){' PARTITION BY LIST (region)' if partitioned else ''}")
    for part in range(PARTITIONS) if partitioned else ():
        shop.execute(f"CREATE TABLE orders_{part} PARTITION OF orders FOR VALUES IN ({part})")
    shop.execute(f"INSERT INTO orders SELECT {ROW} FROM generate_series(0, {rows - 1}) n")
    shop.execute("VACUUM ANALYZE orders")
    shop.execute("CHECKPOINT")


def server_cpu_s(server: LocalPostgres) -> float:
    """Seconds of a core that the server's processes have taken, those that ended too."""
    pid = int((server.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid or int(folder.name) == pid:
            total += sum(int(word) for word in words[11:15]) / ticks
    return total


def wal_position(shop: psycopg.Connection[Any]) -> int:
    """Bytes of log that the server has written."""
    row = shop.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def writing(server: LocalPostgres, rows: int) -> Iterator[Writer]:
    """Somebody writes meanwhile."""
    writer = Writer(server.url(), "orders", rows)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


Build = Callable[[LocalPostgres, psycopg.Connection[Any], Engine], str]
"""Makes the index, and returns the query of its size."""


@dataclass(frozen=True, slots=True)
class Way:
    """One of those that are measured."""

    name: str
    build: Build
    partitioned: bool = True


def measure(way: Way, server: LocalPostgres, engine: Engine, rows: int) -> Measured:
    """Make the table, have it written, build the index."""
    with psycopg.connect(server.url(), autocommit=True) as shop:
        make_table(shop, rows, partitioned=way.partitioned)
        with writing(server, rows) as writer:
            time.sleep(BEFORE_S)
            before = writer.since_last()
            cpu = Cpu(server)
            cpu.start()
            wal, began_s = wal_position(shop), time.time()
            size = way.build(server, shop, engine)
            ended_s, during = time.time(), writer.since_last()
            cpu.stop()
            wal = wal_position(shop) - wal
            time.sleep(AFTER_S)
            after = writer.since_last()
        heap, indexes = shop.execute(size).fetchone() or (0, 0)
        lookup_ms = lookup(shop, rows) if way.name.startswith("tidefill") else 0.0
        times = [began_s, *turned(engine), ended_s]
        parts = tuple(after_s - before_s for before_s, after_s in pairwise(times)) if len(times) == 4 else ()
        built_s = cpu.upto(times[-2] if parts else ended_s)
        for job in engine.jobs():
            job.drop()
        engine.run_once()
        return Measured(
            way.name, rows, ended_s - began_s, parts, cpu.upto(ended_s), built_s, wal, (int(heap), int(indexes)),
            before, during, after, lookup_ms,
        )  # fmt: skip


def turned(engine: Engine) -> list[float]:
    """When the job had filled all entries and built their key, and when it began to validate them: at once, if nothing
    was logged."""
    events = [event for job in engine.jobs() for event in job.events()]
    filled = [at_s for at_s, text in events if text.startswith("BACKFILLING -> ")]
    return [*filled[:1], *[at_s for at_s, text in events if text.endswith("-> VALIDATING")][:1]]


def lookup(shop: psycopg.Connection[Any], rows: int) -> float:
    """Median milliseconds of a look through the view."""
    taken = []
    for number in range(LOOKUPS):
        began_s = time.monotonic()
        shop.execute("SELECT id, region FROM by_email WHERE email = 'user' || md5(%s)", (str(number * 7),)).fetchall()
        taken.append((time.monotonic() - began_s) * 1000)
    return statistics.median(taken)


def by_tidefill(method: str, sort: str) -> Build:
    """A global index."""

    def build(server: LocalPostgres, shop: psycopg.Connection[Any], engine: Engine) -> str:
        engine.create_index("by_email", "shop.orders", "email", unique=True, method=method, sort=sort).wait(3600)
        return (
            "SELECT sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'tidefill' AND c.relkind = 'r' AND c.relname LIKE 'ix%'"
        )

    return build


def concurrently(server: LocalPostgres, shop: psycopg.Connection[Any], engine: Engine) -> str:
    """What PostgreSQL offers for a table that is not partitioned."""
    shop.execute("CREATE UNIQUE INDEX CONCURRENTLY by_email ON orders (email)")
    return "SELECT 0, pg_total_relation_size('by_email')"


def by_hand(server: LocalPostgres, shop: psycopg.Connection[Any], engine: Engine) -> str:
    """A trigger that keeps a table with a key, then INSERT ... SELECT of all rows. It is not exact: a row that is
    changed while it is copied may come twice or not at all."""
    shop.execute("DROP TABLE IF EXISTS by_hand; CREATE TABLE by_hand (email text PRIMARY KEY, id bigint, region int)")
    shop.execute(
        "CREATE OR REPLACE FUNCTION by_hand() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF TG_OP <> 'INSERT' THEN DELETE FROM by_hand WHERE email = OLD.email AND id = OLD.id; END IF; "
        "IF TG_OP <> 'DELETE' THEN INSERT INTO by_hand VALUES (NEW.email, NEW.id, NEW.region) "
        "ON CONFLICT DO NOTHING; END IF; RETURN NULL; END $$"
    )
    shop.execute(
        "CREATE TRIGGER by_hand AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION by_hand()"
    )
    shop.execute("INSERT INTO by_hand SELECT email, id, region FROM orders ON CONFLICT DO NOTHING")
    return "SELECT pg_table_size('by_hand'), pg_indexes_size('by_hand')"


BASE = "CREATE UNIQUE INDEX CONCURRENTLY, no partitions"
WAYS = (
    Way(BASE, concurrently, partitioned=False),
    Way("tidefill, bulk, sort = server", by_tidefill("bulk", "server")),
    Way("tidefill, bulk, sort = spark", by_tidefill("bulk", "spark")),
    Way("tidefill, bulk, sort = none", by_tidefill("bulk", "none")),
    Way("tidefill, initput, sorted batches", by_tidefill("initput", "server")),
    Way("tidefill, initput, sort = none", by_tidefill("initput", "none")),
    Way("by hand: trigger, INSERT ... SELECT", by_hand),
)


def page(found: list[Measured]) -> str:
    """The results so far as Markdown: medians of the rounds, and ratios to CONCURRENTLY of the same run."""
    lines = [
        "# A global unique index under writers", "",
        f"{PARTITIONS} partitions, {WRITES_PER_S} updates of one key per second, medians of {ROUNDS} rounds; "
        f"PostgreSQL on {os.cpu_count()} cores, {platform.machine()}. Writers: p50 / p99 / longest, in ms. Ratios are "
        f"to CONCURRENTLY of the same run. Made by `make bench-index`.", "",
        f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}",
    ]  # fmt: skip
    for rows in ROWS:
        base = [one for one in found if one.rows == rows and one.way == BASE]
        for way in WAYS:
            mine = [one for one in found if one.rows == rows and one.way == way.name]
            if mine:
                lines.append(line(mine, base))
    return "\n".join([*lines, ""])


def line(mine: list[Measured], base: list[Measured]) -> str:
    """One way, against CONCURRENTLY."""
    s, base_s = (statistics.median(one.s for one in group) for group in (mine, base))
    cpu, base_cpu = (statistics.median(one.server_s for one in group) for group in (mine, base))
    built = statistics.median(one.built_s for one in mine)
    middle = sorted(mine, key=lambda one: one.s)[len(mine) // 2]
    parts = " / ".join(f"{part:.1f}" for part in middle.parts)
    look = f"{middle.lookup_ms:.2f}" if middle.lookup_ms else ""
    size = " / ".join(f"{part / 1e6:,.0f}" for part in middle.size)
    return (
        f"| {middle.rows:,} | {middle.way} | {s:.1f} | {s / base_s:.1f} | {parts} | "
        f"{cpu:.1f} | {cpu / max(base_cpu, 0.01):.1f} | {built:.1f} | {built / max(base_cpu, 0.01):.1f} | "
        f"{middle.wal / 1e6:,.0f} | {size} | {middle.before} | {middle.during} | {middle.after} | {look} |"
    )


def warm_up(server: LocalPostgres, engine: Engine) -> None:
    """Start Spark and its workers, and have Java read its classes."""
    with psycopg.connect(server.url(), autocommit=True) as shop:
        make_table(shop, 10_000, partitioned=True)
        by_tidefill("bulk", "spark")(server, shop, engine)
    for job in engine.jobs():
        job.drop()
    engine.run_once()


def main() -> None:
    """Measure all ways in turn, in each round, and write the page."""
    found: list[Measured] = []
    with (
        local_postgres(SETTINGS) as server,
        tempfile.TemporaryDirectory() as folder,
        connect(None, f"{folder}/lake", f"{folder}/store", {"shop": server.url()}) as engine,
    ):
        warm_up(server, engine)
        for rows in ROWS:
            for number in range(ROUNDS):
                for way in WAYS:
                    if ONLY and way.name != BASE and not any(word in way.name for word in ONLY):
                        continue
                    found.append(measure(way, server, engine, rows))
                    print(f"round {number + 1}: {way.name}, {rows:,} rows: {found[-1].s:.1f} s", flush=True)
                RESULTS.write_text(page(found), encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    main()
