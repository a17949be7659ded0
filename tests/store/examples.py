"""A job, a table, and a look into the file of a store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job

REPO = Path(__file__).parents[2]
JOB = Job("1", "orders", '{"query": "SELECT 1"}')
EVENTS = Registered("Events", '{"location": "lake/events", "key": ["id"]}')


def run_sql(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()
