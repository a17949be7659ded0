"""The driver of a real cluster: an index is filled while an executor is killed in the middle of a load. Prints `equal`.

Arguments: the master's URL, a folder, a port of its own, the URL of a server, a table there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
RANGES = 5


def executors(port: str) -> list[int]:
    """The processes on this machine that run tasks of this application."""
    mine = f"CoarseGrainedScheduler@127.0.0.1:{port}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mine in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def main(master: str, place: str, port: str, url: str, table: str) -> None:
    """Build it."""
    import psycopg

    from tidefill import connect
    from tidefill.indexes import sorting
    from tidefill.spark.start import local_session
    from tidefill.testing.turns import turns

    sorting.RANGE_ROWS = 200
    settings = {
        "spark.master": master, "spark.driver.port": port, "spark.executor.memory": "512m", "spark.executor.cores": "1",
    }  # fmt: skip
    spark, folder = local_session(extra_conf=settings), Path(place)
    with (
        psycopg.connect(url, autocommit=True) as shop,
        connect(spark, folder / "lake", folder / "store", {"shop": url}) as engine,
    ):
        shop.execute(f"ANALYZE {table}")
        job = engine.create_index("ix", f"shop.{table}", "email", unique=True, sort="spark", parallelism=2)
        while checkpoints(shop, "loaded") < 2:
            turns(engine, 1)
        (entries,) = shop.execute("SELECT 'tidefill.' || id FROM tidefill.indexes").fetchone() or ("",)
        loaded = noted(shop)
        holder = psycopg.connect(url)
        holder.execute(f"LOCK TABLE {entries} IN SHARE MODE")
        thread = threading.Thread(target=lambda: turns(engine, 1))
        thread.start()
        until(lambda: waiting(shop, holder.info.backend_pid) == 2)
        workers = executors(port)
        assert len(workers) == 2, workers
        os.kill(workers[0], signal.SIGKILL)
        holder.commit()
        thread.join()
        job.wait(PATIENCE_S)
        assert noted(shop)[:2] == loaded, "a range that was loaded was loaded again"
        assert checkpoints(shop, "loaded") == RANGES, noted(shop)
        assert (job.verify().rows, job.verify().differences) == (1000, ())
        job.drop()
        engine.run_once()
        print("equal")


def checkpoints(shop: Any, kind: str) -> int:
    """How many there are of that kind."""
    if shop.execute("SELECT to_regclass('tidefill.index_chunks')").fetchone() == (None,):
        return 0
    query = "SELECT count(*) FROM tidefill.index_chunks WHERE id LIKE %s"
    return int(shop.execute(query, (f"%/{kind}",)).fetchone()[0])


def noted(shop: Any) -> list[Any]:
    """The ranges that are loaded, each with the transaction that did it."""
    query = "SELECT chunk, rows, xmin::text FROM tidefill.index_chunks WHERE id LIKE '%/loaded' ORDER BY 1"
    return list(shop.execute(query).fetchall())


def waiting(shop: Any, pid: int) -> int:
    """How many sessions wait for a lock of that one."""
    return len(shop.execute("SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", (pid,)).fetchall())


def until(holds: Any) -> None:
    """Look until that holds."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s, "it did not come about"
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
