"""Somebody who writes to the table of the demo and knows nothing of Tidefill.

A MERGE of Delta costs seconds of work, however little it changes. So the writer rests longer than it works, to leave
the machine to others; and a commit makes up for the time since the last, so that the table changes at the same rate on
any machine.
"""

from __future__ import annotations

import threading
import time

from tidefill.cli.demo import orders

CHANGES_PER_S = 300
KINDS = 3  # inserts, updates and deletes, as many of each
COMMIT_S_MIN = 8.0
COMMIT_S_MAX = 30.0  # a machine that stands still is not made up for
REST = 3.0  # for each second of work
STRIDE = 0.618034  # of the table, from one commit's place to the next one's: any stretch gets its share


def write(url: str, location: str, rows: int, stop: threading.Event) -> None:
    """Write until told to stop."""
    from tidefill.spark.start import remote_session

    spark = remote_session(url, {})
    commit, end = 0, rows
    last_s = time.monotonic() - COMMIT_S_MIN
    while not stop.is_set():
        now_s = time.monotonic()
        count = changes(now_s - last_s) // KINDS
        spark.sql(orders.change(location, end, place(commit, rows), count)).collect()
        commit, end, last_s = commit + 1, end + count, now_s
        stop.wait(rest_s(time.monotonic() - now_s))


def rest_s(took_s: float) -> float:
    """How long to rest after a commit that took so long."""
    return max(COMMIT_S_MIN - took_s, REST * took_s)


def changes(seconds: float) -> int:
    """How many rows a commit changes after so long."""
    return int(CHANGES_PER_S * min(max(seconds, COMMIT_S_MIN), COMMIT_S_MAX))


def place(commit: int, rows: int) -> int:
    """Where in the table the commit with that number changes rows."""
    return int(commit * STRIDE * rows) % rows
