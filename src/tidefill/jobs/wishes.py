"""What a user asked for when a job was created, and whether two who ask mean the same job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    LakeIndexDefinition,
    Names,
    Pairs,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
    UnreadableDefinition,
)
from tidefill.jobs.row import name_key
from tidefill.jobs.upsert import Upsert


@dataclass(frozen=True, slots=True)
class ReplicaWish:
    """A replica of what has that name, as names are compared."""

    input_key: str


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A replica of the topic of that name, which differs by case, whose messages are read like this."""

    input: str
    format: str
    columns: Pairs
    include: Names
    begin: str
    on_bad_message: str
    upsert: Upsert | None


@dataclass(frozen=True, slots=True)
class ViewWish:
    """A view of that query, refreshed in that way."""

    sql: str
    full: bool


@dataclass(frozen=True, slots=True)
class IndexWish:
    """An index of what has that name, as names are compared, over these columns. `method`: how one on a server is
    filled; empty for one on a Delta table."""

    input_key: str
    columns: Names
    include: Names
    where: str
    unique: bool
    method: str
    nulls_not_distinct: bool = False


@dataclass(frozen=True, slots=True)
class IndexesWish:
    """Several indexes, each with its name."""

    indexes: tuple[tuple[str, IndexWish], ...]


Wish: TypeAlias = ReplicaWish | TopicWish | ViewWish | IndexWish | IndexesWish
"""What a user asked for. What was worked out from it (columns, walks, parts) may differ from time to time."""


def wish_of(definition: JobDefinition | UnreadableDefinition) -> Wish | None:
    """What the user asked for; None if that cannot be read."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition():
            return wish_for_replica(definition.input)
        case TopicReplicaDefinition():
            return TopicWish(
                definition.input, definition.format, definition.columns, definition.include, definition.begin,
                definition.on_bad_message, definition.upsert,
            )  # fmt: skip
        case LakeIndexDefinition():
            wanted = definition.indexed, definition.include, definition.rows_with, definition.unique
            return IndexWish(name_key(definition.input), *wanted, method="")
        case RowViewDefinition() | PlannedViewDefinition():
            return ViewWish(definition.sql, full=False)
        case FullViewDefinition():
            return ViewWish(definition.sql, full=True)
        case IndexDefinition():
            return _wish_of_index(definition)
        case IndexesDefinition():
            each = definition.by_name.items()
            return IndexesWish(tuple((name, _wish_of_index(index)) for name, index in each))
        case UnreadableDefinition():
            return None
        case never:
            assert_never(never)


def _wish_of_index(index: IndexDefinition) -> IndexWish:
    return IndexWish(
        name_key(index.input), index.columns, index.include, index.where, index.unique, index.method,
        index.nulls_not_distinct,
    )  # fmt: skip


def wish_for_replica(source: str) -> ReplicaWish:
    """The wish for a replica of the table or the job of that name; names do not differ by case."""
    return ReplicaWish(name_key(source))


def same_wish(wish: Wish, definition: JobDefinition | UnreadableDefinition) -> bool:
    """Whether the user who made this wish gets this definition. Of one that cannot be read that is not known: no."""
    return wish_of(definition) == wish
