"""What a query is lowered to, and what its parts are lowered to on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidefill.views.relations.relations import Relation
from tidefill.views.relations.scope import Scope
from tidefill.views.relations.texts import Expr


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table that the query names: by which name we know it, its columns with their types, and its key."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]


Shown: TypeAlias = tuple[tuple[str, str], ...]
"""Columns of a relation under the names that a query shows them by: (name, column)."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A query: its relation, and which of the columns it shows under which names."""

    relation: Relation
    shown: Shown


@dataclass(frozen=True, slots=True)
class Body:
    """FROM and WHERE. `open`: conditions on columns of a query around this one."""

    relation: Relation
    scope: Scope
    open: tuple[Expr, ...]


# The queries of WITH, by their names in small letters.
Env: TypeAlias = Mapping[str, Callable[[], Lowered]]
