"""What a user created: a registered table, a replica, a view, an index; and the text that the store keeps of each.

A definition is fixed at creation: what `*` meant then, under which settings the query was written. It reads an input by
name; the store knows which table or job has the name, and where that lies.

`JobDefinition` is a union of classes. Code that differs by class matches on it and ends in `assert_never`, so a new
class is an error of the type checker wherever it has to be handled. A text that this release cannot read is a value
too, `UnreadableDefinition`: it stops its own job, and nothing else.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, assert_never

from tidefill.errors import StoreUnreadable
from tidefill.jobs.definition_text import FACT, HINT, parsed
from tidefill.jobs.upsert import Upsert, upsert_of

FORM = 7
"""The newest form: 2 has parts, 3 has groups that no chunk may cut, and `refresh = full`, 4 has indexes on a server, 5
has several of them in one job, NULLS NOT DISTINCT, and indexes on Delta tables, 6 has replicas of topics, 7 those that
keep the newest message of a key. What needs nothing of a form is written in an older one, which older releases read."""

PARSED_MAX = 4096
"""How many definitions are remembered as values: more than a store has jobs, and each is a few kilobytes."""

FULL = "anew"
"""The key that marks a `FullViewDefinition` in the text: the first release called it so."""

INPUT = "t"
"""By which name a job over one table knows it; one over several knows them by theirs."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Names: TypeAlias = tuple[str, ...]


class Kind(Enum):
    """What a job makes."""

    REPLICA = "replica"
    VIEW = "view"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A Delta table that somebody else writes. `walk`: the order in which it is filled, if the user gave one."""

    location: str
    key: Names
    walk: Names = ()


@dataclass(frozen=True, slots=True)
class ReplicaDefinition:
    """A copy of every column of a table or a job of ours. `input`: its name. `key` and `walk` name columns of both."""

    input: str
    key: Names
    walk: Names
    walk_reason: str
    semantics: Pairs = ()
    kind: ClassVar[Kind] = Kind.REPLICA

    @property
    def tables(self) -> Names:
        """The names of ours that it reads."""
        return (self.input,)


@dataclass(frozen=True, slots=True)
class ServerReplicaDefinition:
    """A copy of every column of a table in another database. `input`: `connection.schema.table`. It is walked along its
    key. `publication`, `slot`: those that somebody else made for it; empty if the job makes its own."""

    input: str
    key: Names
    walk_reason: str
    connection: str
    publication: str = ""
    slot: str = ""
    semantics: Pairs = ()
    kind: ClassVar[Kind] = Kind.REPLICA

    @property
    def walk(self) -> Names:
        """The order in which it is filled."""
        return self.key

    @property
    def tables(self) -> Names:
        """The names of ours that it reads: none, its table belongs to another database."""
        return ()


@dataclass(frozen=True, slots=True)
class TopicReplicaDefinition:
    """The messages of a Kafka topic, each a row. `input`: `connection.topic`. `format`, `columns`: how the value of a
    message becomes columns, and their names and types as the user wrote them. `include`: what else of a message becomes
    a column. `begin`: the first messages that count. `on_bad_message`: whether an unreadable one stops the job.
    `upsert`: if only the newest message of a key is a row."""

    input: str
    connection: str
    format: str
    columns: Pairs = ()
    include: Names = ()
    begin: str = "earliest"
    on_bad_message: str = "stop"
    semantics: Pairs = ()
    upsert: Upsert | None = None
    kind: ClassVar[Kind] = Kind.REPLICA
    tables: ClassVar[Names] = ()

    @property
    def key(self) -> Names:
        """What identifies a row."""
        return ("kafka_partition", "kafka_offset") if self.upsert is None else self.upsert.key

    @property
    def walk(self) -> Names:
        """The order in which it is filled."""
        return self.key if self.upsert is None else ("kafka_partition", *self.upsert.key)

    @property
    def walk_reason(self) -> str:
        """Why."""
        return "by partition and offset" if self.upsert is None else "by partition, and ranges of a hash of the key"

    @property
    def topic(self) -> str:
        """The name that the topic has there."""
        return self.input.partition(".")[2]


@dataclass(frozen=True, slots=True)
class RowViewDefinition:
    """A query over one input, row by row, as the user wrote it. `columns`: output name and expression of each, hidden
    ones too. `reads`: the input's columns that it needs; `known`: all that the input had at the creation. `key` names
    output columns; `walk` and `input_key` name the input's."""

    input: str
    sql: str
    input_key: Names
    key: Names
    walk: Names
    walk_reason: str
    alias: str = ""
    columns: Pairs = ()
    where: str = ""
    reads: Names = ()
    semantics: Pairs = ()
    known: Names = ()
    kind: ClassVar[Kind] = Kind.VIEW

    @property
    def tables(self) -> Names:
        """The names of ours that it reads."""
        return (self.input,)


@dataclass(frozen=True, slots=True)
class LakeIndexDefinition(RowViewDefinition):
    """An index on a Delta table. It is a view, row by row, of the index's key, the input's key and included columns.
    `order`: the output columns that form the index's key, by which the target is laid out. `indexed`, `include`,
    `rows_with`: columns, included columns and condition as the user wrote them."""

    order: Names = ()
    indexed: Names = ()
    include: Names = ()
    rows_with: str = ""
    unique: bool = False
    kind: ClassVar[Kind] = Kind.INDEX


@dataclass(frozen=True, slots=True)
class Part:
    """One occurrence of a table in a query over several, or over groups: the columns that are read, with their types,
    the table's key, and, if it is walked, in which order and why. `group_columns`: how many of the first columns of the
    walk form groups that no chunk may cut, because chunks are appended."""

    occurrence: str
    table: str
    columns: Pairs
    key: Names
    walk: Names = ()
    walk_reason: str = ""
    group_columns: int = 0


@dataclass(frozen=True, slots=True)
class PlannedViewDefinition:
    """A query over several tables, or over groups, which is compiled into a plan. `columns`: output name and type of
    each, hidden ones too. `parts`: every occurrence of a table; at least one of them is walked."""

    sql: str
    key: Names
    columns: Pairs
    parts: tuple[Part, ...]
    semantics: Pairs = ()
    kind: ClassVar[Kind] = Kind.VIEW

    @property
    def tables(self) -> Names:
        """The names of ours that it reads, each once."""
        return _tables_of(self.parts)

    @property
    def walked(self) -> tuple[Part, ...]:
        """The parts that are filled by chunks."""
        return tuple(part for part in self.parts if part.walk)


@dataclass(frozen=True, slots=True)
class FullViewDefinition:
    """A query that is computed from nothing at each refresh (`refresh = full`). `columns`: output name and type of
    each. `parts`: the tables that it reads, none of them walked. `key`: the output columns that identify a row, if
    that is certain; else nobody can follow its changes. It is empty in what releases before this one made."""

    sql: str
    columns: Pairs
    parts: tuple[Part, ...]
    semantics: Pairs = ()
    key: Names = ()
    kind: ClassVar[Kind] = Kind.VIEW

    @property
    def tables(self) -> Names:
        """The names of ours that it reads, each once."""
        return _tables_of(self.parts)


OverOne: TypeAlias = ReplicaDefinition | ServerReplicaDefinition | TopicReplicaDefinition | RowViewDefinition
"""A job over one input, row by row."""

LakeDefinition: TypeAlias = OverOne | PlannedViewDefinition | FullViewDefinition
"""A job that makes a Delta table."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A global index over a table in another database, made there. `input`: `connection.schema.table`. `columns`,
    `include`, `where`: SQL of that database, as the user wrote it. `method`: how it is filled. `shape`: a JSON text
    that belongs to `indexes.shape`: how that database itself read the wish. `nulls_not_distinct`: two NULLs are equal.
    """

    input: str
    connection: str
    columns: Names
    include: Names = ()
    where: str = ""
    unique: bool = False
    method: str = "bulk"
    shape: str = ""
    nulls_not_distinct: bool = False
    kind: ClassVar[Kind] = Kind.INDEX

    @property
    def key(self) -> Names:
        """What it is ordered by."""
        return self.columns

    @property
    def tables(self) -> Names:
        """The names of ours that it reads: none, its table belongs to another database."""
        return ()


@dataclass(frozen=True, slots=True)
class IndexesDefinition:
    """Several indexes over one table, filled by one scan of it. `names`: of the indexes, in their order."""

    input: str
    connection: str
    names: Names
    indexes: tuple[IndexDefinition, ...]
    kind: ClassVar[Kind] = Kind.INDEX

    @property
    def tables(self) -> Names:
        """None, as of one index."""
        return ()

    @property
    def by_name(self) -> dict[str, IndexDefinition]:
        """The indexes by their names."""
        return dict(zip(self.names, self.indexes, strict=True))


OnServer: TypeAlias = IndexDefinition | IndexesDefinition
"""What is made on a server of others, without Spark."""

JobDefinition: TypeAlias = LakeDefinition | OnServer


@dataclass(frozen=True, slots=True)
class UnreadableDefinition:
    """A definition that this release cannot read, and why. `tables`: the names of ours that it reads, as far as its
    text tells: nobody shall take away what a newer release still reads."""

    fact: str
    detail: str = ""
    hint: str = ""
    tables: Names = ()

    def error(self, name: str) -> StoreUnreadable:
        """What stops the job or the table of that name."""
        return StoreUnreadable(f"{name}: {self.fact}", detail=self.detail, hint=self.hint)


# Texts.


def table_to_text(table: TableDefinition) -> str:
    """The text for the store."""
    return json.dumps({"form": 1, **asdict(table)}, sort_keys=True)


@lru_cache(PARSED_MAX)
def table_from_text(text: str) -> TableDefinition | UnreadableDefinition:
    """The inverse of `table_to_text`. Each text is parsed once."""
    try:
        data = parsed(text, FORM)
        return TableDefinition(str(data["location"]), tuple(data["key"]), tuple(data["walk"]))
    except StoreUnreadable as error:
        return UnreadableDefinition(error.fact, error.detail, error.hint)
    except (KeyError, TypeError) as error:
        return _unreadable(repr(error))


_BLANK = {
    "alias": "", "columns": (), "connection": "", "input_key": (), "key": (), "known": (), "publication": "",
    "reads": (), "semantics": (), "slot": "", "walk": (), "walk_reason": "", "where": "",
}  # fmt: skip
"""The fields that every text has, whatever it defines: the first release had one class for all."""


def job_to_text(job: JobDefinition) -> str:
    """The text for the store, in the oldest form that has all of it."""
    form, more = _form_and_more(job)
    data = {**_BLANK, **asdict(job), **more, "form": form, "kind": job.kind.value}
    for part in data.get("parts", ()) if form < 3 else ():
        del part["group_columns"]
    if not data.get("nulls_not_distinct", True):
        del data["nulls_not_distinct"]  # the first release with indexes did not know it
    if data.get("upsert", True) is None:
        del data["upsert"]  # nor this the first one with topics
    return json.dumps(data, sort_keys=True)


def _form_and_more(job: JobDefinition) -> tuple[int, dict[str, Any]]:
    """The oldest form that has all of the definition, and what the text says beside its fields. Of a planned view
    that is the first part that is walked."""
    match job:
        case ReplicaDefinition() | ServerReplicaDefinition():
            return 1, {"sql": job.input, "input_key": job.key, "walk": job.walk}
        case TopicReplicaDefinition():
            form = 6 if job.upsert is None else 7
            return form, {"sql": job.input, "input_key": job.key, "key": job.key, "walk": job.walk}
        case LakeIndexDefinition():
            return 5, {}
        case RowViewDefinition():
            return 1, {}
        case PlannedViewDefinition():
            first = job.walked[0]
            more = {"input": first.table, "input_key": first.key, "walk": first.walk, "walk_reason": first.walk_reason}
            # A release that does not know of groups would cut them.
            return 3 if any(part.group_columns for part in job.parts) else 2, more
        case FullViewDefinition():
            return 3, {"input": job.parts[0].table, FULL: True}
        case IndexDefinition():
            return 5 if job.nulls_not_distinct else 4, {"sql": job.input}
        case IndexesDefinition():
            return 5, {"sql": job.input}
        case never:
            assert_never(never)


@lru_cache(PARSED_MAX)
def job_from_text(text: str) -> JobDefinition | UnreadableDefinition:
    """The inverse of `job_to_text`. Each text is parsed once."""
    try:
        return _job(parsed(text, FORM))
    except StoreUnreadable as error:
        return UnreadableDefinition(error.fact, error.detail, error.hint, _tables_told(text))
    except (KeyError, TypeError, ValueError) as error:
        return _unreadable(repr(error), _tables_told(text))


def _job(data: dict[str, Any]) -> JobDefinition:
    kind, semantics, key = Kind(data["kind"]), _pairs(data["semantics"]), _names(data["key"])
    match kind:
        case Kind.REPLICA:
            return _replica(data, key, semantics)
        case Kind.VIEW:
            return _view(data, key, semantics)
        case Kind.INDEX:
            if not data["connection"]:
                return _lake_index(data, key, semantics)
            return _indexes(data) if "indexes" in data else _index(data)
        case never:
            assert_never(never)


def _replica(data: dict[str, Any], key: Names, semantics: Pairs) -> JobDefinition:
    source, reason = str(data["input"]), str(data["walk_reason"])
    connection, publication, slot = (str(data.get(name, "")) for name in ("connection", "publication", "slot"))
    if "format" in data:
        texts = {name: str(data[name]) for name in ("format", "begin", "on_bad_message")}
        columns, include, upsert = _pairs(data["columns"]), _names(data["include"]), upsert_of(data.get("upsert"))
        return TopicReplicaDefinition(
            source, connection, columns=columns, include=include, semantics=semantics, upsert=upsert, **texts
        )
    if connection:
        return ServerReplicaDefinition(source, key, reason, connection, publication, slot, semantics)
    return ReplicaDefinition(source, key, _names(data["walk"]), reason, semantics)


def _index(data: dict[str, Any]) -> IndexDefinition:
    texts = {name: str(data[name]) for name in ("input", "connection", "where", "method", "shape")}
    columns, include = _names(data["columns"]), _names(data["include"])
    unique, nulls = bool(data["unique"]), bool(data.get("nulls_not_distinct", False))
    return IndexDefinition(columns=columns, include=include, unique=unique, nulls_not_distinct=nulls, **texts)


def _indexes(data: dict[str, Any]) -> IndexesDefinition:
    indexes = tuple(map(_index, data["indexes"]))
    return IndexesDefinition(str(data["input"]), str(data["connection"]), _names(data["names"]), indexes)


def _lake_index(data: dict[str, Any], key: Names, semantics: Pairs) -> LakeIndexDefinition:
    order, indexed, include = (_names(data[name]) for name in ("order", "indexed", "include"))
    return LakeIndexDefinition(
        **_row_view(data, key, semantics), order=order, indexed=indexed, include=include,
        rows_with=str(data["rows_with"]), unique=bool(data["unique"]),
    )  # fmt: skip


def _view(data: dict[str, Any], key: Names, semantics: Pairs) -> JobDefinition:
    parts = tuple(map(_part, data.get("parts", ())))
    sql, columns = str(data["sql"]), _pairs(data["columns"])
    if data.get(FULL, False):
        if not parts:
            raise ValueError("it reads no table")
        return FullViewDefinition(sql, columns, parts, semantics, key)
    if parts:
        if not any(part.walk for part in parts):
            raise ValueError("no part is walked")
        return PlannedViewDefinition(sql, key, columns, parts, semantics)
    return RowViewDefinition(**_row_view(data, key, semantics))


def _row_view(data: dict[str, Any], key: Names, semantics: Pairs) -> dict[str, Any]:
    """The fields of a view, row by row."""
    names = {name: _names(data[name]) for name in ("input_key", "walk", "reads")}
    texts = {name: str(data[name]) for name in ("sql", "input", "walk_reason", "alias", "where")}
    more = {"columns": _pairs(data["columns"]), "known": _names(data.get("known", ()))}
    return {**names, **texts, **more, "key": key, "semantics": semantics}


def _part(data: dict[str, Any]) -> Part:
    columns, key, walk = _pairs(data["columns"]), _names(data["key"]), _names(data["walk"])
    reason, group_columns = str(data["walk_reason"]), int(data.get("group_columns", 0))
    return Part(str(data["occurrence"]), str(data["table"]), columns, key, walk, reason, group_columns)


def _pairs(data: Any) -> Pairs:
    return tuple((str(one), str(other)) for one, other in data)


def _names(data: Any) -> Names:
    return tuple(map(str, data))


def _tables_of(parts: tuple[Part, ...]) -> Names:
    return tuple(dict.fromkeys(part.table for part in parts))


def _tables_told(text: str) -> Names:
    """The names of ours that a text names which cannot be read; a table of another database has none."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        data = json.loads(text)
        names = [part["table"] for part in data.get("parts", ())] or [data["input"]]
        return () if data.get("connection") else tuple(name for name in names if isinstance(name, str))
    return ()


def _unreadable(detail: str, tables: Names = ()) -> UnreadableDefinition:
    return UnreadableDefinition(FACT, detail, HINT, tables)
