"""Whether the jobs that read a view can go on when it gets another query.

A definition is fixed when its job is created: which columns of an input it reads, of which types, and by which key it
follows the input's rows. So all of that has to stay. What a reader does not read may come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    Names,
    Part,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.row import name_key


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view shows to its readers: its columns, those of its key with them, each with its type, and its key, which
    is empty if the view has none."""

    columns: Mapping[str, str]
    key: Names

    def type_of(self, column: str) -> str | None:
        """The type; None if there is no such column. Names do not differ by case."""
        return {name_key(name): kind for name, kind in self.columns.items()}.get(name_key(column))


def missed(reader: JobDefinition, name: str, before: Shown, after: Shown) -> str:
    """What the reader would miss if the view of that name showed `after` in place of `before`; empty if it would miss
    nothing."""
    read = _columns_read(reader, name)
    for column in before.columns if read is None else read:
        kind = after.type_of(column)
        if kind is None:
            return f"the column {column}"
        if kind != before.type_of(column):
            return f"the column {column} as {before.type_of(column)}: it becomes {kind}"
    follows = not isinstance(reader, FullViewDefinition)
    if follows and tuple(map(name_key, before.key)) != tuple(map(name_key, after.key)):
        return f"the key ({', '.join(before.key)}): it becomes ({', '.join(after.key)})" if after.key else "a key"
    return ""


def _columns_read(reader: JobDefinition, name: str) -> Names | None:
    """The columns of the input of that name that the job reads; None for all of them."""
    match reader:
        case ReplicaDefinition():
            return None
        case RowViewDefinition():
            return (*reader.input_key, *reader.walk, *reader.reads) if reader.reads else None
        case PlannedViewDefinition() | FullViewDefinition():
            return tuple(column for part in reader.parts for column in _of_part(part, name))
        case ServerReplicaDefinition() | TopicReplicaDefinition() | IndexDefinition() | IndexesDefinition():
            return ()
        case never:
            assert_never(never)


def _of_part(part: Part, name: str) -> Iterator[str]:
    if name_key(part.table) == name_key(name):
        yield from part.key
        yield from part.walk
        yield from (column for column, _ in part.columns)
