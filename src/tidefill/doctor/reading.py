"""What the doctor reads from a store without changing it: its schema, its id and its rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from tidefill.doctor.case import Case
from tidefill.errors import TidefillError
from tidefill.jobs.row import Job
from tidefill.store.schema import SCHEMA_VERSION
from tidefill.store.sql_store import open_store, postgres_schema

BUSY_S = 2.0  # somebody waits for the answer


def read_sqlite_schema(file: Path) -> int | None:
    """The schema, asked for without `open_store`, which would migrate it; None if there are no tables yet."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)) as connection:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            return None
        row = connection.execute("SELECT schema_version FROM meta").fetchone()
    if row is None or not isinstance(row[0], int):
        raise sqlite3.DatabaseError("it does not tell its schema")
    return row[0]


def read_store_id(case: Case) -> str:
    """Empty if there is no store that can be opened."""
    if read_rows(case) is None:
        return ""
    with open_store(case.store, busy_s=BUSY_S) as store:
        return store.store_id()


def read_rows(case: Case) -> Sequence[Job] | None:
    """Every row; None if there is no store that can be opened without changing it. What is wrong with it then is found
    by `check_store`."""
    if case.config.is_store_elsewhere:
        with suppress(TidefillError):
            if postgres_schema(str(case.store), busy_s=BUSY_S) == SCHEMA_VERSION:
                return _rows_of(case)
        return None
    file = case.store_file
    with suppress(sqlite3.DatabaseError):
        if case.has_store and os.access(file, os.R_OK | os.W_OK) and read_sqlite_schema(file) == SCHEMA_VERSION:
            return _rows_of(case)
    return None


def _rows_of(case: Case) -> Sequence[Job]:
    with open_store(case.store, busy_s=BUSY_S) as store:
        return store.jobs()
