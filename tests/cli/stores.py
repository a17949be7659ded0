"""Stores with jobs in them, made without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidefill.engine.engine import STORE_FILE
from tidefill.jobs.definitions import (
    JobDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    TableDefinition,
    job_to_text,
    table_to_text,
)
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job
from tidefill.store.sql_store import SqlStore, open_store

VIEW = RowViewDefinition(
    "events", "SELECT v FROM events", ("id",), ("__tf_key_id",), ("id",), "the key",
    alias="events", columns=(("v", "v"), ("__tf_key_id", "`events`.`id`")), reads=("id", "v"),
)  # fmt: skip
REPLICA = ReplicaDefinition("events", ("id",), ("id",), "the key")


def row(name: str, number: int = 1, definition: JobDefinition = VIEW, **fields: Any) -> Job:
    """A job; each needs a number of its own."""
    return Job(f"{number:032x}", name, job_to_text(definition), **fields)


def made(folder: Path, *rows: Job) -> SqlStore:
    """The store of the project in that folder, with a table and these jobs."""
    store = open_store(folder / ".tidefill" / STORE_FILE)
    store.register(Registered("events", table_to_text(TableDefinition("/lake/events", ("id",), ("day",)))))
    for each in rows:
        store.create(each)
    return store
