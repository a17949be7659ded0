"""What a query is made of. Every relation is a set of rows with a key; NULL in a key is a value like others.

The names of columns are our own and each is used once in a whole query, so that an expression means the same wherever
it stands. An expression is a tree over them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidefill.core.state import Occurrence, Table
from tidefill.views.relations.texts import Expr, Item, columns_in


@dataclass(frozen=True, eq=False, slots=True)
class Scan:
    """One occurrence of a table; `sources` are its own names for the columns."""

    occurrence: Occurrence
    table: Table
    columns: tuple[str, ...]
    sources: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Filter:
    """The rows for which the condition is true."""

    child: Relation
    condition: Expr

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.child.key


@dataclass(frozen=True, eq=False, slots=True)
class Project:
    """Expressions of one row; the key is among them."""

    child: Relation
    items: tuple[Item, ...]
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.items)


@dataclass(frozen=True, eq=False, slots=True)
class InnerJoin:
    """Of any number of relations, under conditions that all hold."""

    inputs: tuple[Relation, ...]
    conditions: tuple[Expr, ...]
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for relation in self.inputs for column in relation.columns)


@dataclass(frozen=True, eq=False, slots=True)
class LeftJoin:
    """Each row of the left one with those of the right one, or with NULL."""

    left: Relation
    right: Relation
    on: Expr
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, *self.right.columns)


@dataclass(frozen=True, eq=False, slots=True)
class FullJoin:
    """Each row of either one with those of the other one, or with NULL. `tag` is 0 for rows that have a left one, and 1
    for right rows that match nothing. `nulls`: what such a row has in place of the columns of the left one."""

    left: Relation
    right: Relation
    on: Expr
    tag: str
    nulls: tuple[Item, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.tag, *self.left.columns, *self.right.columns)

    @property
    def key(self) -> tuple[str, ...]:
        return (self.tag, *self.left.key, *self.right.key)


@dataclass(frozen=True, eq=False, slots=True)
class Matched:
    """The rows of the left one for which the right one has a row, or, if `negated`, has none."""

    left: Relation
    right: Relation
    on: Expr
    negated: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.left.key


@dataclass(frozen=True, eq=False, slots=True)
class Aggregate:
    """One row for each group; without groups one row always, whose key is a constant among the aggregates."""

    child: Relation
    groups: tuple[Item, ...]
    aggregates: tuple[Item, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in (*self.groups, *self.aggregates))

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.groups or self.aggregates[:1])


@dataclass(frozen=True, eq=False, slots=True)
class Windowed:
    """Each row with what window functions say of it among the rows of its partition. `types`: of the items, if there is
    no partition and these can be computed by the rows from the first changed one on; else none."""

    child: Relation
    partition: tuple[Expr, ...]
    items: tuple[Item, ...]
    types: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, *(column for column, _ in self.items))

    @property
    def key(self) -> tuple[str, ...]:
        return self.child.key


@dataclass(frozen=True, eq=False, slots=True)
class Top:
    """So many of the first rows in an order that tells all rows apart, without those that are skipped. `order`: columns
    of the child, each with its direction."""

    child: Relation
    order: tuple[Expr, ...]
    rows: int
    skipped: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns

    @property
    def key(self) -> tuple[str, ...]:
        return self.child.key


@dataclass(frozen=True, eq=False, slots=True)
class Generated:
    """Each row with what a function makes of it, as often as it makes something. `outputs`: the columns that it makes;
    `own`: those of them that tell rows apart that are made of one row."""

    child: Relation
    call: Expr
    outputs: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, *self.outputs)

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.child.key, *self.own)


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """Rows that the query itself has, and that never change. The first column is their number."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]

    @property
    def key(self) -> tuple[str, ...]:
        return self.columns[:1]


@dataclass(frozen=True, eq=False, slots=True)
class Union:
    """All rows of all of them, which have the same columns; the key tells which one a row is from."""

    children: tuple[Relation, ...]
    key: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.children[0].columns


Relation: TypeAlias = (
    Scan
    | Constant
    | Filter
    | Project
    | Generated
    | InnerJoin
    | LeftJoin
    | FullJoin
    | Matched
    | Aggregate
    | Windowed
    | Top
    | Union
)


def below(relation: Relation) -> tuple[Relation, ...]:
    """What it is made from."""
    match relation:
        case Scan() | Constant():
            return ()
        case Filter() | Project() | Generated() | Aggregate() | Windowed() | Top():
            return (relation.child,)
        case InnerJoin():
            return relation.inputs
        case LeftJoin() | FullJoin() | Matched():
            return (relation.left, relation.right)
        case Union():
            return relation.children


def every(relation: Relation) -> Iterator[Relation]:
    """It, and all that it is made from, from left to right."""
    yield relation
    for part in below(relation):
        yield from every(part)


def scans(relation: Relation) -> Iterator[Scan]:
    """Every occurrence of a table, from left to right."""
    return (part for part in every(relation) if isinstance(part, Scan))


def occurrences(relation: Relation) -> frozenset[Occurrence]:
    """The names of all occurrences below."""
    return frozenset(scan.occurrence for scan in scans(relation))


def narrowed(relation: Relation) -> Relation:
    """The same, reading no more columns than anything in it names."""
    return _reading(relation, frozenset(_named(relation)))


def _named(relation: Relation) -> Iterator[str]:
    yield from relation.key
    for tree in _expressions(relation):
        yield from columns_in(tree)
    for part in below(relation):
        yield from _named(part)


def _expressions(relation: Relation) -> Iterator[Expr]:
    match relation:
        case Scan() | Constant() | Union():
            return
        case Generated():
            yield relation.call
        case Filter():
            yield relation.condition
        case Project():
            yield from (value for _, value in relation.items)
        case InnerJoin():
            yield from relation.conditions
        case LeftJoin() | FullJoin() | Matched():
            yield relation.on
        case Aggregate():
            yield from (value for _, value in (*relation.groups, *relation.aggregates))
        case Windowed():
            yield from (*relation.partition, *(value for _, value in relation.items))
        case Top():
            yield from relation.order


def _reading(relation: Relation, columns: Collection[str]) -> Relation:
    match relation:
        case Scan():
            kept = [pair for pair in zip(relation.columns, relation.sources, strict=True) if pair[0] in columns]
            return replace(
                relation, columns=tuple(column for column, _ in kept), sources=tuple(source for _, source in kept)
            )
        case _:
            return over_others(relation, lambda part: _reading(part, columns))


def over_others(relation: Relation, other: Callable[[Relation], Relation]) -> Relation:
    """The same, made from other relations."""
    match relation:
        case Scan() | Constant():
            return relation
        case Filter() | Project() | Generated() | Aggregate() | Windowed() | Top():
            return replace(relation, child=other(relation.child))
        case InnerJoin():
            return replace(relation, inputs=tuple(map(other, relation.inputs)))
        case LeftJoin() | FullJoin() | Matched():
            return replace(relation, left=other(relation.left), right=other(relation.right))
        case Union():
            return replace(relation, children=tuple(map(other, relation.children)))
