"""Somebody who writes to the table of the demo and knows nothing of Tidefill.

Inserts, updates, more inserts, deletes: a commit each, as an UPDATE or DELETE of Delta costs seconds of work whatever
it changes. So the writer rests longer than it works, to leave the machine to others; and a commit makes up for the time
since the last, so that the table changes at the same rate on any machine.
"""

from __future__ import annotations

import threading
import time

from tidefill.cli import demo_orders

CHANGES_PER_S = 250
COMMIT_S_MIN = 3.0
COMMIT_S_MAX = 30.0  # a machine that stands still is not made up for
REST = 2.0  # for each second of work
STRIDE = 0.618034  # of the table, from one commit's place to the next one's: any stretch gets its share


def write(url: str, location: str, rows: int, stop: threading.Event) -> None:
    """Write until told to stop; the last commit is an insert."""
    from tidefill.spark.session import remote_session

    spark = remote_session(url, {})
    commit, end = 0, rows
    before_s = last_s = time.monotonic() - COMMIT_S_MIN
    while not stop.is_set():
        now_s = time.monotonic()
        count = changes((now_s - before_s) / 2)  # a slow kind of commit and a quick one take turns
        spark.sql(statement(commit, location, rows, end, count)).collect()
        commit, end = commit + 1, end + count * (commit % 2 == 0)
        before_s, last_s = last_s, now_s
        stop.wait(rest_s(time.monotonic() - now_s))
    spark.sql(demo_orders.insert(location, end, changes(COMMIT_S_MIN))).collect()


def rest_s(took_s: float) -> float:
    """How long to rest after a commit that took so long."""
    return max(COMMIT_S_MIN - took_s, REST * took_s)


def changes(seconds: float) -> int:
    """How many rows a commit changes after so long."""
    return int(CHANGES_PER_S * min(max(seconds, COMMIT_S_MIN), COMMIT_S_MAX))


def statement(commit: int, location: str, rows: int, end: int, count: int) -> str:
    """The statement of the commit with that number. New ids go on from `end`."""
    place = int(commit * STRIDE * rows) % rows
    match commit % 4:
        case 1:
            return demo_orders.update(location, place, count)
        case 3:
            return demo_orders.delete(location, place, count)
        case _:
            return demo_orders.insert(location, end, count)
