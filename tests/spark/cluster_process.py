"""The driver of a real cluster: a view is filled while one of the executors is killed. Prints `equal` at the end.

Arguments: the master's URL, a folder, a port of its own.
"""

import os
import signal
import sys
from pathlib import Path

from tidefill import connect
from tidefill.spark.start import local_session

ROWS = 200_000
CHUNKS = 4


def executors() -> list[int]:
    """The processes on this machine that run tasks of this application."""
    mine = f"CoarseGrainedScheduler@127.0.0.1:{DRIVER_PORT}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mine in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


DRIVER_PORT = int(sys.argv[3])
settings = {
    "spark.master": sys.argv[1],
    "spark.driver.port": str(DRIVER_PORT),
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}
folder = Path(sys.argv[2])
spark = local_session(extra_conf=settings)
source = str(folder / "source")
rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 AS v", "md5(CAST(id AS STRING)) AS note")
rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
with connect(spark, folder / "lake", folder / "store") as engine:
    engine.register("events", location=source, key="id")
    job = engine.create_view("view", "SELECT id, v * 2 AS w, note FROM events", chunk_rows=ROWS // CHUNKS)
    service = engine.scheduler()
    with service.alive():
        service.turn(job._row())
    workers = executors()
    assert len(workers) == 2, workers
    os.kill(workers[0], signal.SIGKILL)
    job.wait(300)
    assert job.verify().rows == ROWS
    assert job.verify().differences == ()
    print("equal")
