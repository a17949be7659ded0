"""A replica of a PostgreSQL table under writers, against what Spark can do at most: its own reader and an append that
follow no change. With PEERS=1 also against PostgreSQL's own logical replication, into a second server.

    make bench-replica            # ROWS=2000000,10000000 WRITES_PER_S=500
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from tidefill import connect
from tidefill.core.lifecycle import Life
from tidefill.engine import Engine, Job
from tidefill.local.postgres import LocalPostgres, local_postgres
from tidefill.runner import anchor_from_text
from tidefill.spark.session import local_session

ROWS = [int(text) for text in os.environ.get("ROWS", "2000000,10000000").split(",")]
WRITES_PER_S = int(os.environ.get("WRITES_PER_S", "500"))
PEERS = os.environ.get("PEERS") == "1"
BASELINE_S = 5.0
READERS = 4
RESULTS = Path(__file__).parent / "RESULTS-replica.md"
NEW_IDS = count(1 << 40)
COLUMNS = "id bigint PRIMARY KEY, customer int, amount numeric(10, 2), status text, note text, at timestamptz"
ROW = (
    "n, mod(n * 7919, 50000), mod(n, 100000) / 100.0, (ARRAY['new', 'paid', 'shipped'])[1 + mod(n, 3)], "
    "'order ' || md5(n::text), timestamptz '2024-01-01' + n * interval '1 second'"
)


@dataclass(slots=True)
class Latency:
    """Of single-row transactions, in milliseconds."""

    taken: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        if len(self.taken) < 2:
            return "none"
        ordered = sorted(self.taken)
        return f"{statistics.median(ordered):.1f} / {ordered[int(len(ordered) * 0.99)]:.1f} / {ordered[-1]:.0f}"


class Writer(threading.Thread):
    """So many transactions a second, each of one row anywhere in the table."""

    def __init__(self, url: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._url, self._rows = url, rows
        self.stop = threading.Event()
        self.latency = Latency()

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as session:
            number, begin_s = 0, time.monotonic()
            while not self.stop.is_set():
                number += 1
                place = number * 618_033_989 % self._rows
                match number % 5:
                    case 0:
                        sql = f"INSERT INTO orders SELECT {ROW} FROM (SELECT {next(NEW_IDS)}::bigint AS n)"
                    case 1:
                        sql = f"DELETE FROM orders WHERE id = {place}"
                    case _:
                        sql = f"UPDATE orders SET amount = amount + 1 WHERE id = {place}"
                at_s = time.monotonic()
                session.execute(sql.encode())
                self.latency.taken.append((time.monotonic() - at_s) * 1000)
                self.stop.wait(max(0.0, begin_s + number / WRITES_PER_S - time.monotonic()))


@contextmanager
def writing(url: str, rows: int) -> Iterator[Latency]:
    writer = Writer(url, rows)
    writer.start()
    try:
        yield writer.latency
    finally:
        writer.stop.set()
        writer.join()


class Held(threading.Thread):
    """The most log that slots kept."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.stop = threading.Event()
        self.most = 0

    def run(self) -> None:
        query = "SELECT coalesce(max(pg_current_wal_lsn() - restart_lsn), 0)::bigint FROM pg_replication_slots"
        with psycopg.connect(self._url, autocommit=True) as session:
            while not self.stop.wait(0.5):
                row = session.execute(query).fetchone()
                self.most = max(self.most, row[0] if row else 0)


def limit(spark: SparkSession, server: LocalPostgres, rows: int, path: str) -> float:
    """Seconds of Spark's reader with a few ranges, and one append."""
    step = rows // READERS + 1
    ranges = [f"id >= {number * step} AND id < {(number + 1) * step}" for number in range(READERS)]
    address = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    known = psycopg.conninfo.conninfo_to_dict(server.url())
    properties = {
        "user": str(known["user"]),
        "password": str(known["password"]),
        "fetchsize": "10000",
        "driver": "org.postgresql.Driver",
    }
    began_s = time.monotonic()
    frame = spark.read.jdbc(address, "orders", predicates=ranges, properties=properties)
    frame.write.format("delta").save(path)
    return time.monotonic() - began_s


def replicate(engine: Engine, job: Job) -> tuple[float, float, float, int]:
    """Seconds in fills, of the whole until it is filled and has caught up, of the verification; steps without fills."""
    service = engine._service()
    fill_s = whole_s = verify_s = 0.0
    forwards, covered = 0, None
    caught_up = False
    while not caught_up or job.status().state != Life.LIVE.value:
        row = engine._store.job(job.id)
        assert row is not None
        assert row.failure is None, row.failure
        began_s = time.monotonic()
        service.turn(row)
        took_s = time.monotonic() - began_s
        after = engine._store.job(job.id)
        anchor = None if after is None else anchor_from_text(after.anchor)
        now = None if anchor is None else anchor.state.coverage
        if row.life is Life.VERIFYING:
            verify_s += took_s
        elif now != covered:
            fill_s, whole_s, covered = fill_s + took_s, whole_s + took_s, now
        elif not caught_up:
            whole_s += took_s
            forwards += 1
        caught_up = caught_up or (row.life is not Life.VERIFYING and anchor is not None and anchor.state.finished())
    began_s = time.monotonic()
    engine.run_once()
    return fill_s, whole_s + time.monotonic() - began_s, verify_s, forwards


def logical_replication(server: LocalPostgres, rows: int) -> float:
    """Seconds until PostgreSQL's own subscriber has copied the table and caught up."""
    with local_postgres() as other, psycopg.connect(other.url(), autocommit=True) as there:
        there.execute(f"CREATE TABLE orders ({COLUMNS})".encode())
        address = psycopg.conninfo.make_conninfo(server.url())
        began_s = time.monotonic()
        there.execute(f"CREATE SUBSCRIPTION peer CONNECTION '{address}' PUBLICATION orders".encode())
        while not there.execute("SELECT FROM pg_subscription_rel WHERE srsubstate = 'r'").fetchall():
            time.sleep(0.05)
        took_s = time.monotonic() - began_s
        there.execute("DROP SUBSCRIPTION peer")
        return took_s


def measure(spark: SparkSession, rows: int) -> dict[str, Any]:
    """One size."""
    with tempfile.TemporaryDirectory(prefix="tidefill-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with local_postgres({"max_wal_size": "4GB"}) as server, psycopg.connect(server.url(), autocommit=True) as shop:
            shop.execute(f"CREATE TABLE orders ({COLUMNS})".encode())
            shop.execute(f"INSERT INTO orders SELECT {ROW} FROM generate_series(0::bigint, {rows - 1}) n".encode())
            shop.execute("VACUUM ANALYZE orders")
            shop.execute("CREATE PUBLICATION orders FOR TABLE orders")
            with writing(server.url(), rows) as before:
                time.sleep(BASELINE_S)
            with writing(server.url(), rows):
                limit_s = limit(spark, server, rows, str(folder / "limit"))
            engine = connect(spark, folder / "lake", folder / "store", connections={"shop": server.url()})
            job = engine.create_replica("orders", "shop.public.orders", publication="orders")
            held = Held(server.url())
            held.start()
            with writing(server.url(), rows) as during:
                fill_s, whole_s, verify_s, forwards = replicate(engine, job)
            held.stop.set()
            peer_s = None
            job.drop()
            job.wait(120, gone=True)
            engine.close()
            if PEERS:
                with writing(server.url(), rows):
                    peer_s = logical_replication(server, rows)
            return {
                "rows": f"{rows:,}",
                "limit rows/s": f"{rows / limit_s:,.0f}",
                "fill rows/s": f"{rows / fill_s:,.0f}",
                "of the limit": f"**{limit_s / fill_s:.2f}**",
                "whole rows/s": f"{rows / whole_s:,.0f}",
                "whole of the limit": f"**{limit_s / whole_s:.2f}**",
                "steps without a fill": forwards,
                "verify s": f"{verify_s:.1f}",
                "log kept MB": f"{held.most / 1e6:.0f}",
                "writers' ms p50 / p99 / max before": str(before),
                "during": str(during),
                "logical replication rows/s": "" if peer_s is None else f"{rows / peer_s:,.0f}",
            }


def main() -> int:
    """Measure, print, write."""
    spark = local_session()
    with suppress(KeyboardInterrupt):
        measure(spark, min([200_000, *ROWS]))
        found = [measure(spark, rows) for rows in ROWS]
        names = list(found[0])
        lines = [f"| {name} | {' | '.join(str(one[name]) for one in found)} |" for name in names[1:]]
        head = f"| {names[0]} | {' | '.join(str(one[names[0]]) for one in found)} |\n|{'---|' * (len(found) + 1)}"
        text = (
            "# Measured by `make bench-replica`\n\n"
            f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
            f"PostgreSQL and Spark on the same machine; {WRITES_PER_S} transactions of one row a second beside "
            "everything. The limit is Spark's reader and one append, which follow no change. The whole ends when the "
            "replica has all that was there when it was filled; its verification is apart.\n\n"
            f"{head}\n" + "\n".join(lines) + "\n"
        )
        print(text)
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
