"""The answer of EXPLAIN, made from an `Explained`: facts for a person, a JSON document for a program.

The fields of `Explanation`, and of what it has in it, are the fields of the JSON document: they are added to, not
renamed. Nothing here reads a table, so what is not known without reading one is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from tidefill.jobs.amounts import size_text
from tidefill.jobs.definitions import (
    FullViewDefinition,
    Kind,
    LakeDefinition,
    LakeIndexDefinition,
    OverOne,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.row import Settings
from tidefill.jobs.sql_names import HIDDEN, quoted

if TYPE_CHECKING:
    from tidefill.delta.explain_result import Explained
    from tidefill.views.plan.plan_text import Node

UNIQUE = "unique: no write is refused, and keys of several rows are a condition of the index"
AT_ONCE = "at once, by one query over all rows"
RECOMPUTED = "in place of a step, where that took less time before (refresh = auto)"
KIND_NAMES = {Kind.VIEW.value: "materialized view", Kind.REPLICA.value: "replica", Kind.INDEX.value: "index"}

_ELSEWHERE = (ServerReplicaDefinition, TopicReplicaDefinition)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the user sees."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Read:
    """A table or a job that is read, and about how large it is; None: not known. `live`: whether it can be read now."""

    name: str
    rows: int | None
    bytes: int | None
    live: bool


@dataclass(frozen=True, slots=True)
class Walked:
    """What is filled by chunks, in which order, and why. `input`: the name that the table has in the query."""

    input: str
    table: str
    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`incremental`, `strategy`, `how`, `reason`: how changes get in, and why not in a better way. `recomputes`: all of
    it is computed in place of a step, where that took less time before. `rows`: how many are walked, about; `chunks`:
    how many that is, at most where `chunk_rows` is only the size of the first. `at_once`: the first commit has all
    rows, by the query over all of them, so there is nothing to append or to merge. `appends`: each chunk is appended,
    and not merged. `starts_empty`: before the first chunk the view has no rows. `whole_groups`: no chunk cuts a group.
    `slots_left`: replication slots of the server, if it takes one. `waits_for`: what has to be live before it can
    begin. `sql`: if it was asked for. `laid_out_by`, `unique`: of an index, the columns of its key."""

    name: str
    kind: str
    reads: tuple[Read, ...]
    waits_for: tuple[str, ...]
    slots_left: int | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    hidden_columns: tuple[str, ...]
    incremental: bool
    strategy: str
    how: str
    reason: str
    recomputes: bool
    nodes: tuple[Node, ...]
    at_once: bool
    appends: bool
    starts_empty: bool
    whole_groups: bool
    walks: tuple[Walked, ...]
    taken_whole: tuple[str, ...]
    rows: int | None
    chunk_rows: int
    chunk_rows_fixed: bool
    chunks: int | None
    notices: tuple[str, ...]
    sql: str | None
    laid_out_by: tuple[str, ...] = ()
    unique: bool = False


def explanation(name: str, explained: Explained, settings: Settings, *, with_sql: bool) -> Explanation:
    """`settings`: what was asked for."""
    from tidefill.views.plan.plan import Strategy
    from tidefill.views.plan.plan_text import nodes

    definition, plan, drivers = explained.definition, explained.plan, explained.drivers
    strategy, full = Strategy.CHANGES if plan is None else plan.strategy, isinstance(definition, FullViewDefinition)
    reads = tuple(Read(one.name, one.rows, one.size_bytes, one.live) for one in explained.inputs)
    walks = tuple(_walks(definition))
    cut = _cut(explained, settings.chunk_rows, known=_is_known(definition, reads, walks))
    return Explanation(
        name=name,
        kind=KIND_NAMES[definition.kind.value],
        reads=reads,
        waits_for=tuple(one.name for one in reads if not one.live),
        slots_left=explained.slots_left,
        columns=tuple(Column(field.name, field.dataType.simpleString()) for field in explained.schema),
        key=definition.key,
        hidden_columns=tuple(column for column in _output_columns(definition) if column.startswith(HIDDEN)),
        incremental=not full,
        strategy="anew" if full else strategy.name.lower(),
        how=_taken_in(definition) or strategy.value,
        reason="" if plan is None else plan.reason,
        recomputes=not (full or settings.steps_only or isinstance(definition, _ELSEWHERE)),
        nodes=tuple(_row_by_row(definition) if plan is None else nodes(plan)),
        at_once=cut.fits and settings.rate_limit is None and not isinstance(definition, ServerReplicaDefinition),
        appends=not full and (drivers is None or drivers.appends),
        starts_empty=not full and (drivers is None or drivers.starts_empty),
        whole_groups=drivers is not None and drivers.group_columns > 0,
        walks=walks,
        taken_whole=_taken_whole(definition),
        rows=cut.rows,
        chunk_rows=cut.chunk_rows,
        chunk_rows_fixed=cut.fixed,
        chunks=cut.chunks,
        notices=explained.notices,
        sql=_generated(explained) if with_sql else None,
        **_of_index(definition),
    )


def _of_index(definition: LakeDefinition) -> dict[str, Any]:
    if not isinstance(definition, LakeIndexDefinition):
        return {}
    return {"laid_out_by": definition.order, "unique": definition.unique}


@dataclass(frozen=True, slots=True)
class _Cut:
    """How the rows are cut into chunks. `rows`: how many are walked; None: not known. `fixed`: whether the user or the
    job said how large a chunk is. `fits`: whether one chunk is known to have room for all rows."""

    rows: int | None
    chunk_rows: int
    fixed: bool
    fits: bool

    @property
    def chunks(self) -> int | None:
        return None if self.rows is None else -(-self.rows // self.chunk_rows)


def _cut(explained: Explained, chunk_rows: int | None, *, known: bool) -> _Cut:
    """`known`: whether it is known how many rows are walked."""
    fixed = chunk_rows or explained.chunk_rows
    fits = known and explained.rows <= (fixed or explained.whole_rows)
    size = fixed or (explained.whole_rows if fits else explained.first_rows)
    return _Cut(explained.rows if known else None, size, fixed is not None, fits)


def _is_known(definition: LakeDefinition, reads: Sequence[Read], walks: Sequence[Walked]) -> bool:
    """Whether it is known how many rows are walked: that is, of each table that is walked."""
    driving = {walk.table for walk in walks}
    full = isinstance(definition, FullViewDefinition)
    return not full and all(one.rows is not None for one in reads if one.name in driving)


def _taken_in(definition: LakeDefinition) -> str:
    """How a replica gets what changed, or a view that knows nothing of changes; empty for any other."""
    match definition:
        case ReplicaDefinition():
            return "changed rows are copied"
        case ServerReplicaDefinition():
            return "the log tells which rows changed, and those are read"
        case TopicReplicaDefinition(upsert=None):
            return "new messages are appended"
        case TopicReplicaDefinition():
            return "the newest message of a key is its row, and a tombstone deletes it"
        case RowViewDefinition() | PlannedViewDefinition():
            return ""
        case FullViewDefinition():
            return "computed from nothing when its inputs have changed, at most as often as target_lag says"
        case never:
            assert_never(never)


def _output_columns(definition: LakeDefinition) -> list[str]:
    """The names of the output's columns, hidden ones too; none of a replica, which has those of its input."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            return []
        case RowViewDefinition() | PlannedViewDefinition() | FullViewDefinition():
            return [name for name, _ in definition.columns]
        case never:
            assert_never(never)


def _row_by_row(definition: LakeDefinition) -> Iterator[Node]:
    """The plan of a query that was not compiled, and of a replica."""
    from tidefill.views.plan.plan_text import FILTER, Node

    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            yield Node(0, f"{definition.input} as {definition.input}", "every column")
        case RowViewDefinition():
            if definition.where:
                yield Node(0, *FILTER)
            name = f"{definition.input} as {definition.alias or definition.input}"
            yield Node(1 if definition.where else 0, name, ", ".join(definition.reads) or "every column")
        case PlannedViewDefinition() | FullViewDefinition():
            return
        case never:
            assert_never(never)


def _walks(definition: LakeDefinition) -> Iterator[Walked]:
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            yield Walked(definition.input, definition.input, definition.walk, definition.walk_reason)
        case RowViewDefinition():
            name = definition.alias or definition.input
            yield Walked(name, definition.input, definition.walk, definition.walk_reason)
        case PlannedViewDefinition():
            for part in definition.walked:
                yield Walked(part.occurrence, part.table, part.walk, part.walk_reason)
        case FullViewDefinition():
            return
        case never:
            assert_never(never)


def _taken_whole(definition: LakeDefinition) -> tuple[str, ...]:
    """The occurrences of tables that are read whole, by the names that they have in the query."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition() | RowViewDefinition():
            return ()
        case PlannedViewDefinition() | FullViewDefinition():
            return tuple(part.occurrence for part in definition.parts if not part.walk)
        case never:
            assert_never(never)


def _generated(explained: Explained) -> str:
    from tidefill.views.plan import plan_text

    definition = explained.definition
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition() | RowViewDefinition():
            return generated_sql(definition)
        case PlannedViewDefinition():
            assert explained.plan is not None, "a compiled query has a plan"
            return plan_text.sql(explained.plan)
        case FullViewDefinition():
            return definition.sql
        case never:
            assert_never(never)


def generated_sql(definition: OverOne) -> str:
    """The query that is computed for rows and for changes of the input. Hidden columns are of our own making."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            columns, alias, where = ["*"], definition.input, ""
        case RowViewDefinition():
            columns = [text if not name.startswith(HIDDEN) else f"{text} AS {quoted(name)}"
                       for name, text in definition.columns]  # fmt: skip
            alias = definition.alias or definition.input
            where = f"\nWHERE {definition.where}" if definition.where else ""
        case never:
            assert_never(never)
    shown = ",\n".join(f"  {column}" for column in columns)
    return f"SELECT\n{shown}\nFROM {quoted(definition.input)} AS {quoted(alias)}{where}"


# For a person.


def facts_of(explained: Explained) -> list[tuple[str, object]]:
    """The same, of a job whose name and settings are not known."""
    made = KIND_NAMES[explained.definition.kind.value]
    told = explanation("", explained, Settings(), with_sql=False)
    return [("makes", f"a {made}"), *(fact for fact in facts(told, explained.definition) if fact[0] != "makes")]


def facts(told: Explanation, definition: LakeDefinition) -> Iterator[tuple[str, object]]:
    """What a person reads: labels and values."""
    from tidefill.views.plan.plan_text import filled, kept_fresh

    yield "makes", f"{told.kind} {told.name}"
    yield "reads", "\n".join(map(_read, told.reads))
    if told.waits_for:
        yield "waits for", f"{', '.join(told.waits_for)}: not live yet"
    if told.slots_left is not None:
        yield "replication slots", f"it takes one; the server has {told.slots_left} left"
    yield "columns", ", ".join(f"{column.name} {column.type}" for column in told.columns)
    yield "key", key_text(definition)
    if told.laid_out_by:
        yield "laid out by", ", ".join(told.laid_out_by) + (f" ({UNIQUE})" if told.unique else "")
    if told.hidden_columns:
        yield "hidden columns", ", ".join(told.hidden_columns)
    yield "kept fresh", kept_fresh(told.how, told.reason) if told.incremental else told.how
    if told.recomputes:
        yield "recomputed", RECOMPUTED
    if told.incremental:
        if len(told.nodes) > 1:
            yield "plan", "\n".join(map(str, told.nodes))
        yield "filled", AT_ONCE if told.at_once else filled(told.appends, told.starts_empty, told.whole_groups)
        yield from walk_facts(definition)
        yield from _estimates(told)
    for notice in told.notices:
        yield "notice", notice
    if told.sql is not None:
        yield "generated SQL", told.sql


def _read(one: Read) -> str:
    sizes = [f"about {one.rows:,} rows"] if one.rows is not None else []
    sizes += [size_text(one.bytes)] if one.bytes is not None else []
    return ": ".join(part for part in (one.name, ", ".join(sizes)) if part)


def _estimates(told: Explanation) -> Iterator[tuple[str, object]]:
    yield "estimated rows", "not known yet" if told.rows is None else told.rows
    yield "rows in a chunk", _in_a_chunk(told)
    if told.chunks is not None:
        yield "chunks", told.chunks if told.chunk_rows_fixed else f"at most about {told.chunks}"


def _in_a_chunk(told: Explanation) -> str:
    if told.at_once:
        return "all of them, by one query"
    if told.chunk_rows_fixed:
        return f"{told.chunk_rows:,}"
    return f"{told.chunk_rows:,} at first, then by the time that one takes"


def walk_facts(definition: LakeDefinition) -> Iterator[tuple[str, object]]:
    """In which order, by chunks; and what is taken whole."""
    for walk in _walks(definition):
        name = f"{walk.input}: " if isinstance(definition, PlannedViewDefinition) else ""
        yield "walk", f"{name}{', '.join(walk.columns)}: {walk.reason}"
    whole = _taken_whole(definition)
    if whole:
        yield "taken whole", ", ".join(whole)


def key_text(definition: LakeDefinition) -> str:
    """What identifies a row, in the names that the user knows."""
    hidden = any(name.startswith(HIDDEN) for name in definition.key)
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            return ", ".join(definition.key) + (" (kept in hidden columns)" if hidden else "")
        case RowViewDefinition():
            return ", ".join(definition.input_key) + (" (kept in hidden columns)" if hidden else "")
        case PlannedViewDefinition():
            shown = ", ".join(name for name in definition.key if not name.startswith(HIDDEN))
            return " and ".join(part for part in (shown, "hidden columns" if hidden else "") if part)
        case FullViewDefinition():
            return ", ".join(definition.key) or "not known: nobody can follow the changes of its rows"
        case never:
            assert_never(never)
