"""What of a large table can be left unread, because it cannot be tied to the few rows that changed.

A statement asks for the least and the greatest value that the changed rows have in a column, and says them, as
constants, of the column that has to equal it. By constants Delta knows which files it need not open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from sqlglot import exp

from tidefill.views.relations.keys import equated, one_to_one
from tidefill.views.relations.relations import Aggregate, Project, Relation, Scan, Union, every
from tidefill.views.relations.texts import HIDDEN, Expr, Item, both, col, is_null, select, table

Ends: TypeAlias = tuple[str, str]
"""By which names a later statement knows the least and the greatest value of a column."""

_NO_ORDER = frozenset({"boolean", "binary"})


@dataclass(frozen=True, slots=True)
class Tie:
    """A column that has to equal one of a step. `like`: a column of the query whose values those are."""

    column: str
    of_step: str
    like: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of the inputs: the types of their columns, and which of these belong to tables too large to be read
    without need. `origin`: of a column that only passes another one on, that one. `small_target`: the view's own rows
    are few and at hand."""

    types: Mapping[str, str] = field(default_factory=dict)
    large: Collection[str] = frozenset()
    origin: Mapping[str, str] = field(default_factory=dict)
    small_target: bool = False

    def helpful(self, ties: Iterable[Tie]) -> list[Tie]:
        """Those by which something of a large table is left unread."""
        return [tie for tie in ties if self._first(tie.column) in self.large and self.comparable(tie.column, tie.like)]

    def comparable(self, left: str, right: str) -> bool:
        """Whether the values of both have one order."""
        left, right = self._first(left), self._first(right)
        return one_to_one(self.types, left, right) and self.types[left] not in _NO_ORDER

    def _first(self, column: str) -> str:
        while column in self.origin:
            column = self.origin[column]
        return column


NOTHING_KNOWN = Reading()


def origins(root: Relation) -> dict[str, str]:
    """Of each column that only passes another one on, that one. The columns of a union are those of several. A name
    that is given twice (the outputs have names of the user's choice) tells nothing."""
    found: dict[str, list[Expr]] = {}
    for part in every(root):
        for name, value in _named(part):
            if value != col(name):
                found.setdefault(name, []).append(value)
    only = {name: values[0] for name, values in found.items() if len(values) == 1}
    return {name: value.name for name, value in only.items() if isinstance(value, exp.Column)}


def _named(part: Relation) -> Sequence[Item]:
    """The columns that come to their names here."""
    match part:
        case Project():
            return part.items
        case Aggregate():
            return (*part.groups, *part.aggregates)
        case Scan() | Union():
            return [(column, exp.null()) for column in part.columns]
    return ()


def ties_of(conditions: Iterable[Expr], mine: Collection[str], theirs: Collection[str]) -> Iterator[Tie]:
    """By equalities, also by several in a row."""
    classes: list[set[str]] = []
    for condition in conditions:
        match equated(condition):
            case (exp.Column() as left, exp.Column() as right):
                touched = [one for one in classes if not one.isdisjoint((left.name, right.name))]
                classes = [one for one in classes if one not in touched]
                classes.append({left.name, right.name}.union(*touched))
    for one in classes:
        yield from (
            Tie(column, other, other) for column, other in product(sorted(one & set(mine)), sorted(one & set(theirs)))
        )


def asked(step: str, columns: Sequence[str]) -> exp.Select:
    """The least and the greatest values of these columns of a step, in one row."""
    items: list[Item] = []
    for index, column in enumerate(columns):
        items += [(f"{HIDDEN}lo{index}", exp.Min(this=col(column))), (f"{HIDDEN}hi{index}", exp.Max(this=col(column)))]
    return select(items, table(step))


def rows_asked(query: exp.Query) -> tuple[exp.Query, int]:
    """Of a query that `asked` made, the same without its aggregates, and how many columns it has. Spark computes such a
    query over a few rows that are at hand while it plans it; for an aggregate it starts a job. The number is 0 for a
    query that asks if there are rows: it then gives one, or none."""
    bare = query.copy()
    assert isinstance(bare, exp.Select), "limits are asked by one SELECT"
    columns = [item.this.this for item in bare.expressions if isinstance(item.this, exp.Min)]
    if not columns:
        return bare.select(exp.true().as_("__tf_any"), append=False, copy=False).limit(1, copy=False), 0
    items = [column.as_(f"{HIDDEN}lo{index}") for index, column in enumerate(columns)]
    return bare.select(*items, append=False, copy=False), len(columns)


def constants(name: str, index: int) -> Ends:
    """Of the column of that number."""
    return f"{name}_lo{index}", f"{name}_hi{index}"


def within(value: Expr, ends: Ends) -> Expr:
    """Whether it may equal a value of that column. NULL is let through: what it is equal to is another's matter."""
    low, high = map(col, ends)
    at_least = exp.GTE(this=value.copy(), expression=low)
    at_most = exp.LTE(this=value.copy(), expression=high)
    return exp.paren(exp.or_(both([at_least, at_most]), is_null(value.copy())), copy=False)
