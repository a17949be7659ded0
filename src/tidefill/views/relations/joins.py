"""The joins of FROM, with the conditions of WHERE where they can first be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidefill.views.relations import keys
from tidefill.views.relations.copies import Copy
from tidefill.views.relations.keys import reads_only
from tidefill.views.relations.naming import Names
from tidefill.views.relations.relations import (
    Filter,
    FullJoin,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Union,
    scans,
)
from tidefill.views.relations.texts import Expr, Item, both, col, number, plain

_COPIED_MAX = 4  # occurrences that a FULL JOIN reads twice, so that its chunks are appended; of more, each is read once


@dataclass(frozen=True, slots=True)
class Joined:
    """`items`: what is computed from the rows of the join."""

    kind: str
    relation: Relation
    conditions: tuple[Expr, ...]
    items: tuple[Item, ...] = ()

    def columns(self, left: Relation) -> tuple[str, ...]:
        own = () if self.kind in ("semi", "anti") else self.relation.columns
        return (*left.columns, *own, *(column for column, _ in self.items))


def joined(relation: Relation, joins: Sequence[Joined], conditions: Sequence[Expr], names: Names) -> Relation:
    """Each condition where all of its columns are there for the first time, unless a later join would add rows for
    which it was never asked."""
    waiting = list(conditions)
    relation = _filtered(relation, () if _adds_rows(joins) else _taken(waiting, relation.columns))
    for index, join in enumerate(joins):
        now = [] if _adds_rows(joins[index + 1 :]) else _taken(waiting, join.columns(relation))
        if join.kind == "inner":
            relation = _inner(relation, join.relation, (*join.conditions, *now), names)
        else:
            relation = _filtered(_outer(relation, join, names), now)
    assert not waiting, "a condition reads columns that are not there"
    return relation


def _filtered(relation: Relation, conditions: Sequence[Expr]) -> Relation:
    return Filter(relation, both(conditions)) if conditions else relation


def _inner(left: Relation, right: Relation, conditions: Sequence[Expr], names: Names) -> Relation:
    """One join of many relations, so that a change of any of them can begin with itself."""
    right_own = [condition for condition in conditions if reads_only(condition, right.columns)]
    rest = tuple(condition for condition in conditions if condition not in right_own)
    right = _filtered(right, right_own)
    inputs: tuple[Relation, ...] = (left, right)
    if isinstance(left, InnerJoin):
        inputs, rest = (*left.inputs, right), (*left.conditions, *rest)
    return InnerJoin(inputs, rest, keys.key_of_join(inputs, rest, names.types))


def _outer(left: Relation, join: Joined, names: Names) -> Relation:
    right, on = join.relation, both(join.conditions)
    match join.kind:
        case "semi" | "anti":
            return Matched(left, right, on, negated=join.kind == "anti")
        case "left":
            return _left(left, right, on, names)
        case "right":
            return _left(right, left, on, names)
        case "full":
            full = _full(left, right, on, names) if _are_few(left, right) else _full_once(left, right, on, names)
            return Project(full, (*plain(full.columns), *join.items), full.key) if join.items else full
    raise AssertionError(join.kind)


def _left(left: Relation, right: Relation, on: Expr, names: Names) -> LeftJoin:
    own = () if keys.determines(left, right, on, names.types) else right.key
    return LeftJoin(left, right, on, (*left.key, *own))


def _are_few(left: Relation, right: Relation) -> bool:
    return len([*scans(left), *scans(right)]) <= _COPIED_MAX


def _full_once(left: Relation, right: Relation, on: Expr, names: Names) -> FullJoin:
    """With each of the two once: copies within copies would double with every FULL JOIN of a query."""
    nulls: list[Item] = [(column, names.null(column)) for column in left.columns]
    return FullJoin(left, right, on, names.fresh("part"), tuple(nulls))


def _full(left: Relation, right: Relation, on: Expr, names: Names) -> Relation:
    """The left join, and those of the right one that match nothing: each of the two walks its own table."""
    matched = _left(left, right, on, names)
    copied = Copy(names.like)
    right_again, left_again = copied.relation(right), copied.relation(left)
    alone = Matched(right_again, left_again, copied.expression(on), negated=True)
    tag = names.fresh("part")
    first: list[Item] = [(tag, number(0)), *((column, col(column)) for column in matched.columns)]
    second: list[Item] = [(tag, number(1)), *((column, names.null(column)) for column in left.columns)]
    second += [(column, col(copied.names[column])) for column in right.columns]
    key = (tag, *left.key, *right.key)
    return Union((Project(matched, tuple(first), key), Project(alone, tuple(second), key)), key)


def _adds_rows(joins: Sequence[Joined]) -> bool:
    return any(join.kind in ("right", "full") for join in joins)


def _taken(waiting: list[Expr], columns: Sequence[str]) -> list[Expr]:
    """Those of the waiting conditions that can be asked now; they wait no longer."""
    now = [condition for condition in waiting if reads_only(condition, columns)]
    waiting[:] = [condition for condition in waiting if condition not in now]
    return now
