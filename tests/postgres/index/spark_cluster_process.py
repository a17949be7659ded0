"""The driver of a real cluster: an index is filled while an executor is killed in the middle of a read, and another in
the middle of a load. Prints `equal`.

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
RANGES, STEPS = 5, 3
KEY = """
CREATE FUNCTION slow_key (text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
IF $1 IN ('u450', 'u650') THEN PERFORM pg_advisory_lock_shared(9); PERFORM pg_advisory_unlock_shared(9); END IF;
RETURN $1; END $$
"""
"""The key of a row in each chunk of the second step is computed only when nobody holds the lock."""


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
        shop.execute(KEY)
        by_spark: dict[str, Any] = {"sort": "spark", "parallelism": 2, "chunk_rows": 200}
        job = engine.create_index("ix", f"shop.{table}", "slow_key(email)", unique=True, **by_spark)
        while checkpoints(shop, "files") < 1:
            turns(engine, 1)
        read = noted(shop, "files")
        killed_in_a_turn(engine, shop, url, port, "SELECT pg_advisory_xact_lock(9)")
        while checkpoints(shop, "loaded") < 2:
            turns(engine, 1)
        assert noted(shop, "files")[:1] == read, "a step that was read was read again"
        assert checkpoints(shop, "files") == STEPS
        (entries,) = shop.execute("SELECT 'tidefill.' || id FROM tidefill.indexes").fetchone() or ("",)
        loaded = noted(shop, "loaded")
        killed_in_a_turn(engine, shop, url, port, f"LOCK TABLE {entries} IN SHARE MODE")
        job.wait(PATIENCE_S)
        assert noted(shop, "loaded")[:2] == loaded, "a range that was loaded was loaded again"
        assert checkpoints(shop, "loaded") == RANGES, noted(shop, "loaded")
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


def noted(shop: Any, kind: str) -> list[Any]:
    """The checkpoints of that kind, each with the transaction that wrote it."""
    query = "SELECT chunk, upto, rows, xmin::text FROM tidefill.index_chunks WHERE id LIKE %s ORDER BY 1"
    return list(shop.execute(query, (f"%/{kind}",)).fetchall())


def killed_in_a_turn(engine: Any, shop: Any, url: str, port: str, lock: str) -> None:
    """Take a turn whose tasks wait for that lock, and kill an executor as soon as both do."""
    import psycopg

    from tidefill.testing.turns import turns

    until(lambda: len(executors(port)) == 2)
    with psycopg.connect(url) as holder:
        holder.execute(lock.encode())
        thread = threading.Thread(target=lambda: turns(engine, 1))
        thread.start()
        until(lambda: waiting(shop, holder.info.backend_pid) == 2)
        os.kill(executors(port)[0], signal.SIGKILL)
    thread.join()


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
