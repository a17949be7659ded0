"""Jobs of an engine that are indexes: on a server, which need no Spark, and on Delta tables, which are views."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from tidefill.engine.tables import names_of
from tidefill.errors import BadInput, InvalidSetting, UnknownJob, WrongState
from tidefill.extras import with_extra
from tidefill.jobs import graph
from tidefill.jobs.condition import condition_of_commit
from tidefill.jobs.definitions import (
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    LakeIndexDefinition,
    OnServer,
    job_from_text,
    job_to_text,
)
from tidefill.jobs.graph import definition_of
from tidefill.jobs.namespace import ends
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Settings, name_key
from tidefill.jobs.settings import (
    BY_SPARK,
    changed_settings,
    check_several,
    check_use,
    check_use_of_index,
    sort_asked,
)
from tidefill.jobs.wishes import IndexesWish, IndexWish
from tidefill.ports.clock import Clock
from tidefill.ports.machine import Machine, Retiring
from tidefill.postgres.connections import Databases
from tidefill.store.sql_store import SqlStore

if TYPE_CHECKING:
    from tidefill.delta.explain_result import Explained
    from tidefill.engine.inputs import Inputs
    from tidefill.engine.lakes import Lake
    from tidefill.postgres.index.explain import ExplainedIndex, ExplainedIndexes
    from tidefill.postgres.index.jobs import Indexes

BULK = "bulk"
SERVER = "server"
TASKS = 4
"""How many chunks are read, and ranges loaded, at a time through Spark, if nobody says: more than a small server likes
to serve beside its writers would not be faster."""

SESSIONS = 2
"""How many chunks the server fills at a time, if nobody says: as many as it uses to build a key by its own default."""

WORDS = ("columns", "unique", "include", "where", "nulls_not_distinct")
IndexWords: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Of several indexes, by their names, what a user says of each: `WORDS`."""


class IndexJobs:
    """The indexes of a store. `lake` starts Spark if it has to."""

    def __init__(
        self,
        store: SqlStore,
        databases: Databases,
        clock: Clock,
        inputs: Inputs,
        lake: Callable[[], Lake],
        warehouse: str,
    ) -> None:
        self._store = store
        self._databases = databases
        self._clock = clock
        self._inputs = inputs
        self._lake = lake
        self._warehouse = warehouse

    @cached_property
    def _indexes(self) -> Indexes:
        with with_extra("postgres"):
            from tidefill.postgres.index.jobs import Indexes
        return Indexes(self._databases, self._clock, lambda: self._lake().spark, self._warehouse)

    def wish(
        self,
        on: str,
        columns: Sequence[str],
        include: Sequence[str],
        where: str,
        method: str,
        *,
        unique: bool,
        nulls_not_distinct: bool = False,
    ) -> IndexWish:
        """What a user asks for: on a table of a connection, or else on a Delta table."""
        source = self._databases.source(on)
        if source is None and method != BULK:
            hint = "Leave it out, or name a table of a server: connection.schema.table."
            raise InvalidSetting(f"method is for indexes on a server, and {on} is not of a connection", hint=hint)
        if source is None and nulls_not_distinct:
            hint = "Leave it out: no two NULLs of a Delta table are equal."
            raise InvalidSetting("NULLS NOT DISTINCT is for indexes on a server", hint=hint)
        table, method = (on, "") if source is None else (source.name, method)
        return IndexWish(
            name_key(table), tuple(columns), tuple(include), where, unique, method, nulls_not_distinct
        )  # fmt: skip

    def explain_lake(self, on: str, wish: IndexWish, settings: Mapping[str, Any]) -> Explained:
        """What CREATE would make on a Delta table. Raises the first reason why it cannot be made."""
        changed_settings(Settings(), settings)
        self._inputs.refuse_unknown_connection(on)
        explained = self._lake().definer.explain_index(self._inputs.keyed((on,)), wish)
        check_use(explained.definition, settings)
        return explained

    def explain(self, name: str, on: str, wish: IndexWish, settings: Mapping[str, Any]) -> ExplainedIndex:
        """What CREATE would make on a server. Raises the first reason why it cannot be made."""
        _check_settings(settings)
        return self._indexes.explain(name, on, wish, sort_asked(settings))

    def wish_of_several(self, on: str, indexes: IndexWords, method: str) -> IndexesWish:
        """What a user asks for. Raises BadInput if the table is not of a connection, or a word is none of an index."""
        found = list[tuple[str, IndexWish]]()
        for name, words in indexes.items():
            unknown = sorted(set(words) - set(WORDS))
            if unknown or "columns" not in words:
                fact = f"{unknown[0]} says nothing of the index" if unknown else "no columns are named of the index"
                raise BadInput(f"{fact} {name}", hint=f"There is: {', '.join(WORDS)}.")
            columns, include = names_of(words["columns"]), names_of(words.get("include", ()))
            where, unique = str(words.get("where", "")), bool(words.get("unique", False))
            nulls = bool(words.get("nulls_not_distinct", False))
            wish = self.wish(on, columns, include, where, method, unique=unique, nulls_not_distinct=nulls)
            found.append((name, wish))
        if not found:
            raise BadInput("no index is named", hint="Name one or more, each with its columns.")
        return IndexesWish(tuple(found))

    def explain_several(self, name: str, on: str, wish: IndexesWish, settings: Mapping[str, Any]) -> ExplainedIndexes:
        """What CREATE would make. Raises the first reason why one of them cannot be made."""
        _check_settings(settings)
        check_several(settings)
        return self._indexes.explain_several(name, on, wish.indexes, sort_asked(settings))

    def begin_deferred(self, on: str) -> Job | None:
        """The job that makes all indexes of the table that were deferred; None if there are none. Several of them go
        into a job of their own, because they share one scan."""
        source = self._indexes.source(on)
        rows = [row for row in self._store.jobs() if _is_deferred(row, source.name)]
        if len(rows) < 2:
            return self._store.change(rows[0].id, _begun) if rows else None
        definitions = [definition_of(row) for row in rows]
        names = tuple(name for row in rows for name in (row.part_names or (row.name,)))
        indexes = tuple(one for definition in definitions for one in _each(definition))
        definition = IndexesDefinition(source.name, source.connection, names, indexes)
        settings = replace(rows[0].settings, deferred=False, sort=SERVER, parallelism=1)
        job = Job(uuid.uuid4().hex, self._free_name(source.table), job_to_text(definition), settings=settings)
        explained = {"name": job.name, "kind": "indexes", "on": source.name, "indexes": list(names)}
        return self._store.join(replace(job, part_names=names), [row.id for row in rows], json.dumps(explained))

    def _free_name(self, table: str) -> str:
        names = (f"{table}_indexes{f'_{number}' if number else ''}" for number in count())
        return next(name for name in names if self._store.find(name) is None and self._store.table(name) is None)

    def is_of_table(self, definition: OnServer | LakeIndexDefinition, table: str) -> bool:
        """Whether the index is on that table; an empty name means any."""
        source = self._databases.source(table)
        if source is not None:
            return source.name == definition.input
        return not table or name_key(table) == name_key(definition.input)

    def create(self, explained: ExplainedIndex | ExplainedIndexes, settings: Mapping[str, Any]) -> tuple[Job, bool]:
        """The job's row, and whether it is a new one."""
        sort, definition = explained.sorting.sort.value, explained.definition
        parts = definition.names if isinstance(definition, IndexesDefinition) else ()
        usual = Settings(parallelism=1 if parts else TASKS if sort in BY_SPARK else SESSIONS)
        asked = replace(changed_settings(usual, settings), sort=sort)
        row = Job(uuid.uuid4().hex, explained.name, job_to_text(definition), settings=asked, part_names=parts)
        made = self._store.create(row, (), json.dumps(explained.document(), sort_keys=True))
        return made, made.id == row.id

    def build(self, row: Job, definition: OnServer) -> Machine[Any]:
        """The machine of the generation of an index."""
        return self._indexes.build(row, definition)

    def violations(self, row: Job, part: str) -> list[tuple[str, int, str]]:
        """The keys that several rows have: key, how many rows, and the first of them. Of an index on a server: had when
        the build failed. Of several indexes: of this part, or of all."""
        definition = job_from_text(row.definition)
        if isinstance(definition, LakeIndexDefinition):
            return self._lake_violations(row, definition)
        if not graph.is_index(row):
            raise UnknownJob(f"{row.name} is no index", hint="SHOW JOBS says what there is.")
        parts = (part,) if part or not row.part_names else row.part_names
        return [found for one in parts for found in self._indexes.violations(row, one)]

    def _lake_violations(self, row: Job, definition: LakeIndexDefinition) -> list[tuple[str, int, str]]:
        """By the index as it is now. No Spark is started if the condition says that there are none."""
        condition = condition_of_commit(row.condition)
        if not definition.unique or (condition is not None and not condition.violated):
            return []
        location = self._inputs.live(row.name).location
        from tidefill.delta.uniqueness import violations

        return violations(self._lake().tables.frame(location), definition.order, definition.key)

    def retiring(self, row: Job) -> Retiring | None:
        """What has to happen before a dropped index is gone; None if the job is none."""
        return self._indexes.retiring(row) if graph.is_index(row) else None

    def remove(self, row: Job, resource: Resource) -> None:
        """Remove what the job made on a server."""
        self._indexes.remove(row, resource)


def _check_settings(settings: Mapping[str, Any]) -> None:
    """InvalidSetting if an index on a server cannot have these settings."""
    changed_settings(Settings(), settings)
    check_use_of_index(settings)


def is_built_by_server(row: Job) -> bool:
    """Whether it is an index on a server that needs no Spark, or none any more."""
    return graph.is_index(row) and (row.settings.sort not in BY_SPARK or row.published == row.generation)


def _is_deferred(row: Job, table: str) -> bool:
    definition = job_from_text(row.definition)
    known = isinstance(definition, OnServer) and definition.input == table
    return known and row.settings.deferred and not ends(row)


def _each(definition: JobDefinition) -> tuple[IndexDefinition, ...]:
    match definition:
        case IndexDefinition():
            return (definition,)
        case IndexesDefinition(indexes=indexes):
            return indexes
        case _:
            return ()


def _begun(row: Job) -> Job:
    if ends(row):
        raise WrongState(f"{row.name} is being dropped")
    return replace(row, settings=replace(row.settings, deferred=False), wish_number=row.wish_number + 1)
