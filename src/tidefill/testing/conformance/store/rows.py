"""What the tests of stores share: the jobs and tables that they write, and the names that jobs are said to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import NamesRead, Registered
from tidefill.jobs.row import Job
from tidefill.ports.store import Store

MakeStore: TypeAlias = Callable[[], Store]
StoreTest: TypeAlias = Callable[[MakeStore], None]

ODD_NAMES = (
    "orders",
    "naïve Straße",
    "注文",
    "🌊 tide",
    "o'brien",
    'the "best"',
    "back`tick",
    "per%cent_under",
    "semi;colon -- DROP TABLE jobs",
    "back\\slash",
    " outer spaces ",
    "line\nbreak",
)


def new_job(job_id: str, name: str = "") -> Job:
    return Job(job_id, name or f"name of {job_id}", '{"query": "SELECT 1"}')


def new_table(name: str) -> Registered:
    return Registered(name, '{"location": "lake/t", "key": ["id"]}')


def reads_nothing(job: Job) -> list[str]:
    return []


def reading(**names: list[str]) -> NamesRead:
    return lambda job: names.get(job.name, [])


def with_life(life: Life) -> Callable[[Job], Job]:
    return lambda job: replace(job, life=life)
