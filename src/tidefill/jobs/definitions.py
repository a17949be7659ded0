"""What a user created, as the text that the store keeps: a registered table, a replica, a view.

A definition is fixed at creation: what `*` meant then, under which settings the query was written. It reads an input by
name; the store knows which table or job has the name, and where that lies.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from tidefill.errors import StoreUnreadable

FORM = 3
"""The newest form: 2 has parts, 3 has groups that no chunk may cut, and `refresh = full`. What needs nothing of a
form is written in an older one, which older releases read."""

PARSED_MAX = 4096
"""How many definitions are remembered as values: more than a store has jobs, and each is a few kilobytes."""

FULL = "anew"
"""By which name the text knows `JobDefinition.full`: that of the first release."""

INPUT = "t"
"""By which name a job over one table knows it; one over several knows them by theirs."""


class Kind(Enum):
    """What a job makes."""

    REPLICA = "replica"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A Delta table that somebody else writes. `walk`: the order in which it is filled, if the user gave one."""

    location: str
    key: tuple[str, ...]
    walk: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One occurrence of a table in a query over several, or over groups: the columns that are read, with their types,
    the table's key, and, if it is walked, in which order and why. `group_columns`: how many of the first columns of the
    walk form groups that no chunk may cut, because chunks are appended."""

    occurrence: str
    table: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    walk: tuple[str, ...] = ()
    walk_reason: str = ""
    group_columns: int = 0


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A query over one input. `columns`: output name and expression of each, hidden ones too; none for a replica, which
    has whatever its input has. `reads`: the input's columns that it needs; `known`: all that it had at the creation.
    `key` names output columns; `walk` and `input_key` name the input's. `connection`: that of a table in another
    database, whose `publication` and `slot` somebody else may have made. `parts`: of a query over several tables, or
    over groups; then `input`, `walk` and so on are those of the first that is walked, and `columns` have types in place
    of expressions. `full`: it is computed from nothing at each refresh; its parts are the tables that it reads, none of
    them walked, and it has no key."""

    kind: Kind
    input: str
    sql: str
    input_key: tuple[str, ...]
    key: tuple[str, ...]
    walk: tuple[str, ...]
    walk_reason: str
    alias: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    where: str = ""
    reads: tuple[str, ...] = ()
    semantics: tuple[tuple[str, str], ...] = ()
    known: tuple[str, ...] = ()
    connection: str = ""
    publication: str = ""
    slot: str = ""
    parts: tuple[Part, ...] = ()
    full: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        """All that it reads, each once."""
        return tuple(dict.fromkeys(part.table for part in self.parts)) or (self.input,)

    def same_wish(self, other: JobDefinition) -> bool:
        """Whether a user who asked for the one has asked for the other; what was worked out from it may differ."""
        mine, theirs = ((one.kind, one.input.casefold(), one.sql, one.full) for one in (self, other))
        return mine == theirs


def table_to_text(table: TableDefinition) -> str:
    """The text for the store."""
    return json.dumps({"form": 1, **asdict(table)}, sort_keys=True)


@lru_cache(PARSED_MAX)
def table_from_text(text: str) -> TableDefinition:
    """The inverse of `table_to_text`. Each text is parsed once."""
    data = _parsed(text)
    try:
        return TableDefinition(str(data["location"]), tuple(data["key"]), tuple(data["walk"]))
    except (KeyError, TypeError) as error:
        raise _unreadable(repr(error)) from error


def job_to_text(job: JobDefinition) -> str:
    """The text for the store."""
    form = _form(job)
    data = {"form": form, **asdict(job), "kind": job.kind.value}
    data[FULL] = data.pop("full")
    for part in data["parts"] if form < 3 else ():
        del part["group_columns"]
    newer = ("parts", FULL)
    return json.dumps({name: value for name, value in data.items() if name not in newer or value}, sort_keys=True)


def _form(job: JobDefinition) -> int:
    """The oldest that has all of it. A release that does not know of groups would cut them."""
    if job.full or any(part.group_columns for part in job.parts):
        return 3
    return 2 if job.parts else 1


@lru_cache(PARSED_MAX)
def job_from_text(text: str) -> JobDefinition:
    """The inverse of `job_to_text`. Each text is parsed once."""
    data = _parsed(text)
    try:
        pairs = {name: tuple((str(a), str(b)) for a, b in data[name]) for name in ("columns", "semantics")}
        names = {name: tuple(map(str, data[name])) for name in ("input_key", "key", "walk", "reads")}
        names["known"] = tuple(map(str, data.get("known", ())))
        texts = {name: str(data[name]) for name in ("input", "sql", "walk_reason", "alias", "where")}
        texts |= {name: str(data.get(name, "")) for name in ("connection", "publication", "slot")}
        parts = tuple(map(_part, data.get("parts", ())))
        full = bool(data.get(FULL, False))
        return JobDefinition(kind=Kind(data["kind"]), parts=parts, full=full, **texts, **names, **pairs)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(repr(error)) from error


def tables_in(text: str) -> tuple[str, ...]:
    """The names of ours that a job reads, by its definition; a table of another database has none. Of a definition that
    this release cannot read, those that can be told: nobody shall take away what a newer release still reads."""
    with suppress(StoreUnreadable):
        job = job_from_text(text)
        return () if job.connection else job.tables
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        data = json.loads(text)
        names = [part["table"] for part in data.get("parts", ())] or [data["input"]]
        return () if data.get("connection") else tuple(name for name in names if isinstance(name, str))
    return ()


def _part(data: dict[str, Any]) -> Part:
    columns = tuple((str(name), str(kind)) for name, kind in data["columns"])
    key, walk = (tuple(map(str, data[name])) for name in ("key", "walk"))
    reason, group_columns = str(data["walk_reason"]), int(data.get("group_columns", 0))
    return Part(str(data["occurrence"]), str(data["table"]), columns, key, walk, reason, group_columns)


def _parsed(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _unreadable(str(error)) from error
    if not isinstance(data, dict) or not isinstance(data.get("form"), int):
        raise _unreadable(text[:200])
    if data["form"] > FORM:
        raise StoreUnreadable(
            f"a definition in the store has form {data['form']}, this release knows {FORM}",
            hint="A newer release of Tidefill wrote it: use that release.",
        )
    return data


def _unreadable(detail: str) -> StoreUnreadable:
    hint = "Restore the store from a backup, or drop what was defined and define it again."
    return StoreUnreadable("a definition in the store cannot be read", detail=detail, hint=hint)
