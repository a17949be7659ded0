"""Jobs of an engine that are indexes on a server. None of them needs Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidefill.errors import UnknownJob
from tidefill.extras import with_extra
from tidefill.jobs import graph
from tidefill.jobs.definitions import IndexDefinition, IndexWish, job_from_text, job_to_text
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Settings, name_key
from tidefill.jobs.settings import changed_settings, check_use_of_index
from tidefill.ports.clock import Clock
from tidefill.ports.machine import Machine, Retiring
from tidefill.postgres.connections import Databases
from tidefill.store.sql_store import SqlStore

if TYPE_CHECKING:
    from tidefill.postgres.index.explain import ExplainedIndex
    from tidefill.postgres.index.jobs import Indexes

BULK = "bulk"


class IndexJobs:
    """The indexes of a store."""

    def __init__(self, store: SqlStore, databases: Databases, clock: Clock) -> None:
        self._store = store
        self._databases = databases
        self._clock = clock

    @cached_property
    def _indexes(self) -> Indexes:
        with with_extra("postgres"):
            from tidefill.postgres.index.jobs import Indexes
        return Indexes(self._databases, self._clock)

    def wish(
        self, on: str, columns: Sequence[str], include: Sequence[str], where: str, method: str, *, unique: bool
    ) -> IndexWish:
        """What a user asks for. Raises BadInput if the table is not of a connection."""
        source = self._indexes.source(on)
        return IndexWish(name_key(source.name), tuple(columns), tuple(include), where, unique, method)

    def explain(self, name: str, on: str, wish: IndexWish, settings: Mapping[str, Any]) -> ExplainedIndex:
        """What CREATE would make. Raises the first reason why it cannot be made."""
        changed_settings(Settings(), settings)
        check_use_of_index(settings)
        return self._indexes.explain(
            name, on, wish.columns, wish.include, wish.where, wish.method, unique=wish.unique
        )  # fmt: skip

    def create(self, explained: ExplainedIndex, settings: Mapping[str, Any]) -> tuple[Job, bool]:
        """The job's row, and whether it is a new one."""
        asked = changed_settings(Settings(), settings)
        row = Job(uuid.uuid4().hex, explained.name, job_to_text(explained.definition), settings=asked)
        made = self._store.create(row, (), json.dumps(explained.document(), sort_keys=True))
        return made, made.id == row.id

    def build(self, row: Job, definition: IndexDefinition) -> Machine[Any]:
        """The machine of the generation of an index."""
        return self._indexes.build(row, definition)

    def violations(self, row: Job) -> list[tuple[str, int, str]]:
        """The keys that several rows had when the build failed: key, how many rows, and the first of them."""
        definition = job_from_text(row.definition)
        if not isinstance(definition, IndexDefinition):
            raise UnknownJob(f"{row.name} is no index", hint="SHOW JOBS says what there is.")
        return self._indexes.violations(row, definition)

    def retiring(self, row: Job) -> Retiring | None:
        """What has to happen before a dropped index is gone; None if the job is none."""
        return self._indexes.retiring(row) if graph.is_index(row) else None

    def remove(self, row: Job, resource: Resource) -> None:
        """Remove what the job made on a server."""
        self._indexes.remove(row, resource)
