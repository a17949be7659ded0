"""A store with jobs of every kind and state, made without Spark, for the pages to show."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.cli.stores import REPLICA, VIEW, row
from tidefill.core.confirm import Anchor, anchor_to_json
from tidefill.core.keys import Key, key_to_json
from tidefill.core.progress import Progress
from tidefill.core.state import JobState
from tidefill.core.version import Number, Version
from tidefill.core.walk import DONE, NOT_STARTED, Coverage, Position, Split, Upto
from tidefill.engine.engine import STORE_FILE
from tidefill.jobs.definitions import IndexDefinition, Part, PlannedViewDefinition, TableDefinition, table_to_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Doing, Failure, Job, Lease, Pause, Settings
from tidefill.jobs.steps import DoneStep
from tidefill.run.owner_process import new_owner
from tidefill.store.sql_store import SqlStore, open_store

ODD = '<script>document.title = "broken"</script><img src=x onerror=alert(1)>'
SPLITS, SPLIT_KEYS = 8, 1000
JOIN = PlannedViewDefinition(
    "SELECT country, sum(amount) AS total\nFROM order_lines JOIN customers USING (customer)\nGROUP BY country",
    ("country",),
    (("country", "string"), ("total", "bigint")),
    (Part("order_lines", "order_lines", (("id", "bigint"),), ("id",), ("id",), "the key"),
     Part("customers", "customers", (("customer", "bigint"),), ("customer",))),
)  # fmt: skip
INDEX = IndexDefinition("shop.public.orders", "shop", ("lower(email)",), ("status",), unique=True)
NODES = [
    {"depth": 0, "what": "sum by country", "how": "counts and sums"},
    {"depth": 1, "what": "inner join on customer", "how": "changes of each side meet the other side"},
    {"depth": 2, "what": "order_lines as order_lines", "how": "id, customer, amount"},
    {"depth": 2, "what": "customers as customers", "how": "customer, country"},
]
EXPLAINED = json.dumps({"name": "x", "nodes": NODES, "strategy": "sums", "rows": 8000, "incremental": True})


def key(number: int) -> Key:
    return Key((number,))


def coverage(positions: Sequence[Position]) -> Coverage:
    """Splits of SPLIT_KEYS keys each, and the range above all of them."""
    bounds = [key(number * SPLIT_KEYS) for number in range(len(positions) + 1)]
    inner = [Split(None if not at else bounds[at], bounds[at + 1], position) for at, position in enumerate(positions)]
    return (*inner, Split(bounds[-1], None, DONE))


def anchor(positions: Sequence[Position], version: int = 7, *, table: str = "t", checked: int = 12) -> str:
    state = JobState(1, 5, {table: Version("base", Number(version))}, {table: coverage(positions)}, 1234)
    return json.dumps(anchor_to_json(Anchor(state, "u", checked)))


def filled_upto(share: float) -> list[Position]:
    """Two thirds of the way is in the sixth of eight splits."""
    at = share * SPLITS
    return [
        DONE if number + 1 <= at else Upto(key(int(at * SPLIT_KEYS))) if number < at else NOT_STARTED
        for number in range(SPLITS)
    ]


def filling(name: str, number: int, share: float, now_s: float) -> Job:
    """A job that is being filled by a runner in this process."""
    at = int(share * SPLITS)
    chunk = [key_to_json(key(at * SPLIT_KEYS)), key_to_json(key(at * SPLIT_KEYS + 500))]
    return row(
        name, number, life=Life.BACKFILLING, lease=Lease(new_owner(), 1, now_s + 3600), generation_uuid="u",
        anchor=anchor(filled_upto(share)), doing=Doing("fill", now_s - 3, 1, 500, json.dumps([chunk]), 60.0),
        progress=Progress(1, share, int(share * 8000), 512.0, (1 - share) * 8000 / 512, 2, 4.0, now_s - 3),
    )  # fmt: skip


def live(name: str, number: int, now_s: float, **fields: object) -> Job:
    done = {
        "life": Life.LIVE, "published": 1, "generation_uuid": "u", "anchor": anchor([DONE] * SPLITS, 9),
        "lease": Lease(new_owner(), 1, now_s + 3600), "waiting": "up to date", "waits_for": "IDLE",
        "progress": Progress(1, 1.0, 8000, 0.0, 0.0, 0, 0.0, now_s - 1),
    }  # fmt: skip
    return replace(row(name, number), **{**done, **fields})  # type: ignore[arg-type]


def steps(count: int, now_s: float) -> list[DoneStep]:
    """Fills and forwards by turns, and an error among them."""
    made = []
    for number in range(count):
        forward = number % 4 == 3
        took_s = 1.5 + (number * 37 % 20) / 10
        phases = {"look": 0.2, "changes": 0.3 if forward else 0.05, "commit": took_s - 0.8, "confirm": 0.15}
        at = number % SPLITS * SPLIT_KEYS
        chunk = "" if forward else json.dumps([[key_to_json(key(at)), key_to_json(key(at + 500))]])
        rows = 40 + number % 7 if forward else 500
        made.append(
            DoneStep(
                "forward" if forward else "fill", now_s - (count - number) * 5, took_s, 1, phases, rows, rows,
                {"events": (number // 4, number // 4 + forward)}, int(not forward), chunk,
                number % 5, float(number * 13 % 40) / 2,
                "UNAVAILABLE" if number == count - 9 else "",
            )
        )  # fmt: skip
    return made


def make_world(folder: Path) -> SqlStore:
    """The store of the project in that folder."""
    store, now_s = open_store(folder / ".tidefill" / STORE_FILE), time.time()
    for table, place in {"events": "/lake/events", "customers": "/lake/customers"}.items():
        store.register(Registered(table, table_to_text(TableDefinition(place, ("id",)))))
    lost = Failure(
        "HISTORY_GONE", "the history of events is gone", "Version 7 was vacuumed on Tuesday; the newest is 912.",
        "RESYNC JOB clicks_per_day builds it anew.",
    )  # fmt: skip
    jobs = [
        filling("order_totals", 1, 0.4, now_s),
        live("order_lines", 2, now_s),
        live("totals_by_country", 3, now_s, definition=row("x", 9, JOIN).definition,
             anchor=anchor([DONE], 10, table="order_lines"), waiting="", waits_for="",
             progress=Progress(1, 1.0, 8000, 0.0, 0.0, 2, 95.0, now_s - 1)),
        replace(row("clicks_per_day", 4), life=Life.FAILED, failure=lost, anchor=anchor(filled_upto(0.7)),
                progress=Progress(1, 0.7, 5600, 0.0, None, 905, 86400.0, now_s - 4000)),
        replace(filling("sessions", 5, 0.66, now_s), life=Life.PAUSED, pause=Pause.ALL, doing=None,
                waiting="paused", waits_for="PAUSED"),
        row("orders_by_email", 6, INDEX, life=Life.BACKFILLING, lease=Lease(new_owner(), 1, now_s + 3600),
            anchor=json.dumps({"index": "i", "state": "MERGING", "rows": 91000}),
            progress=Progress(1, 0.99, 91000, 0.0, None, None, None, now_s - 1),
            waiting="transaction 4711 of ada, open for 40 s", waits_for="WAITING_FOR_TRANSACTIONS"),
        live("orders_copy", 7, now_s, definition=row("x", 9, REPLICA).definition),
        row("new_view", 8, VIEW, settings=Settings(rate_limit=1000)),
        live(ODD, 9, now_s),
    ]  # fmt: skip
    for job in jobs:
        store.create(job, explained=EXPLAINED if job.name in ("totals_by_country", "order_totals") else "")
        store.add_event(job.id, now_s - 400, "backfilling")
    store.add_event(jobs[8].id, now_s - 300, ODD)
    for number, count in ((0, 60), (1, 20), (2, 20), (3, 12)):
        for step in steps(count, now_s):
            store.change(jobs[number].id, lambda job: job, step)
    store.open_tick("base", None, 11)
    return store
