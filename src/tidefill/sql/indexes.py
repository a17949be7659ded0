"""Statements about indexes: what a person is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.jobs.definitions import IndexDefinition, IndexesDefinition, LakeIndexDefinition, OnServer
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import PartReport
from tidefill.jobs.status import Status, percent
from tidefill.sql.result import Result, Until, waits
from tidefill.sql.statements import CreateIndex, CreateIndexes, IndexPart

KINDS = (IndexDefinition, IndexesDefinition, LakeIndexDefinition)


def index_words(statement: CreateIndex) -> dict[str, Any]:
    """What `engine.create_index` takes."""
    table, columns = ".".join(statement.table), statement.columns
    more = {"unique": statement.unique, "include": statement.include, "where": statement.where}
    return {"on": table, "columns": columns, **more, "nulls_not_distinct": statement.nulls_not_distinct}


def indexes_words(statement: CreateIndexes) -> dict[str, Any]:
    """What `engine.create_indexes` takes."""
    indexes = {one.name: _part_words(one) for one in statement.indexes}
    return {"on": ".".join(statement.table), "indexes": indexes}


def _part_words(part: IndexPart) -> dict[str, Any]:
    more = {"unique": part.unique, "include": part.include, "where": part.where}
    return {"columns": part.columns, **more, "nulls_not_distinct": part.nulls_not_distinct}


def backfill_indexes(engine: Engine, table: str) -> Result:
    """Begin what was deferred."""
    job = engine.backfill_indexes(table)
    if job is None:
        return Result(message=f"no index of {table} is deferred; nothing to do")
    return Result(message=f"{job.name}: begun", jobs=(job,), until=Until.LIVE)


def defined(definition: OnServer | LakeIndexDefinition) -> Iterator[tuple[str, object]]:
    """What was created."""
    yield "on", definition.input
    if isinstance(definition, IndexesDefinition):
        for name, index in definition.by_name.items():
            yield f"index {name}", _key(index)
        yield "method", definition.indexes[0].method
        return
    yield "key", ", ".join(_indexed(definition))
    yield "unique", _unique(definition)
    yield "included columns", ", ".join(definition.include) or None
    if isinstance(definition, LakeIndexDefinition):
        yield "rows with", definition.rows_with or None
        return
    yield "rows with", definition.where or None
    yield "method", definition.method


def _indexed(definition: IndexDefinition | LakeIndexDefinition) -> tuple[str, ...]:
    """The columns of the key, as the user wrote them."""
    return definition.columns if isinstance(definition, IndexDefinition) else definition.indexed


def _unique(definition: IndexDefinition | LakeIndexDefinition) -> bool | str:
    """Whether it is, and by which rule for NULLs if that is not the usual one."""
    equal = isinstance(definition, IndexDefinition) and definition.nulls_not_distinct
    return "NULLS NOT DISTINCT" if equal else definition.unique


def _key(index: IndexDefinition) -> str:
    included = f", with {', '.join(index.include)}" if index.include else ""
    where = f", rows with {index.where}" if index.where else ""
    nulls = " with NULLS NOT DISTINCT" if index.nulls_not_distinct else ""
    return f"({', '.join(index.columns)}){', unique' * index.unique}{nulls}{included}{where}"


def part_rows(status: Status) -> Iterator[tuple[str, object]]:
    """How each of several indexes stands."""
    for part in status.parts:
        rows = f"{part.rows_done} of {part.rows_of} rows" if part.rows_of is not None else f"{part.rows_done} rows"
        yield f"part {part.name}", f"failed: {part.failure}" if part.failure else f"{part.phase}, {rows}"


def list_indexes(engine: Engine, table: str) -> Result:
    """All indexes, or those of a table, which may be named without its schema."""
    columns = ("index", "on", "key", "unique", "state", "phase", "percent", "waiting for", "condition")
    rows = [row for job in engine.jobs() for row in _rows_of(engine, job, table)]
    return Result(columns, tuple(rows), "" if rows else "no indexes")


def _rows_of(engine: Engine, job: Job, table: str) -> Iterator[tuple[object, ...]]:
    definition, status = job.definition_or_none(), job.status()
    if not isinstance(definition, KINDS) or not engine.is_of_table(definition, table):
        return
    if not isinstance(definition, IndexesDefinition):
        key = ", ".join(_indexed(definition))
        found = (job.name, definition.input, key, _unique(definition), status.state, status.phase, status.percent)
        yield (*found, waits(status), status.condition)
        return
    told = {part.name: part for part in status.parts}
    for name in job.part_names():
        index, part = definition.by_name[name], told.get(name, PartReport(name, ""))
        state = Life.FAILED.value if part.failure else status.state
        share = percent(part.rows_done / part.rows_of) if part.rows_of else 0
        shown = 100 if status.state == Life.LIVE.value and not part.failure else share
        found = (name, definition.input, ", ".join(index.columns), _unique(index), state, part.phase, shown)
        yield (*found, part.failure or waits(status), status.condition)


def violations(job: Job, name: str) -> Result:
    """The keys that several rows had."""
    found = job.violations(job.part_named(name))
    return Result(("key", "rows", "the first of them"), tuple(found), "" if found else "no violations")
