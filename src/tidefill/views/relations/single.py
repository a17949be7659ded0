"""Relations that have one row, and values of queries that may have several rows.

A subquery that stands for a value must give one row at most. Of most queries only their data tell. There Spark fails if
there are more, and so does the step: it counts them, and raises an error in place of the value.

While a table is walked, only a part of it is there. A query that could have more rows by that than it has over all of
the table would fail though Spark's does not, and is refused.
"""

from __future__ import annotations

from sqlglot import exp

from tidefill.views.relations.naming import Names
from tidefill.views.relations.relations import (
    Aggregate,
    Constant,
    Filter,
    FullJoin,
    Generated,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Scan,
    Top,
    Union,
    Windowed,
)
from tidefill.views.relations.texts import Expr, Item, called, case, col, number, text

SEVERAL = "a subquery that stands for a value gives more than one row"


def has_one_row(relation: Relation) -> bool:
    """Whether it always has exactly one."""
    match relation:
        case Aggregate():
            return not relation.groups
        case Constant():
            return len(relation.rows) == 1
        case Project() | Windowed():
            return has_one_row(relation.child)
        case InnerJoin():
            return not relation.conditions and all(map(has_one_row, relation.inputs))
        case LeftJoin():
            return has_one_row(relation.left) and has_one_row_at_most(relation.right)
        case Scan() | Filter() | Generated() | FullJoin() | Matched() | Top() | Union():
            return False


def has_one_row_at_most(relation: Relation) -> bool:
    """Whether it has one, or none, whatever the tables have."""
    match relation:
        case Aggregate():
            return not relation.groups
        case Constant():
            return len(relation.rows) <= 1
        case Top():
            return relation.rows <= 1 or has_one_row_at_most(relation.child)
        case Filter() | Project() | Windowed():
            return has_one_row_at_most(relation.child)
        case InnerJoin():
            return all(map(has_one_row_at_most, relation.inputs))
        case LeftJoin():
            return has_one_row_at_most(relation.left) and has_one_row_at_most(relation.right)
        case Matched():
            return has_one_row_at_most(relation.left)
        case Scan() | Generated() | FullJoin() | Union():
            return False


def only_grows(relation: Relation) -> bool:
    """Whether more rows of the tables never give fewer rows of it."""
    match relation:
        case Project() | Windowed():
            return only_grows(relation.child)
        case Aggregate():
            return _only_gains(relation.child)
        case _:
            return _only_gains(relation)


def _only_gains(relation: Relation) -> bool:
    """Whether more rows of the tables never change or take away a row of it."""
    match relation:
        case Scan() | Constant():
            return True
        case Filter() | Project() | Generated():
            return _only_gains(relation.child)
        case InnerJoin():
            return all(map(_only_gains, relation.inputs))
        case Union():
            return all(map(_only_gains, relation.children))
        case Matched():
            return not relation.negated and _only_gains(relation.left) and _only_gains(relation.right)
        case LeftJoin() | FullJoin() | Aggregate() | Windowed() | Top():
            return False


def only_value(relation: Relation, column: str, names: Names) -> tuple[Aggregate, Expr]:
    """One row that has what the only row of the relation has in this column, NULL if there is none; and the value in
    it, which is an error where there are several."""
    one, value, rows = names.fresh("one"), names.fresh("value"), names.fresh("rows")
    items: list[Item] = [(one, number(0)), (value, exp.Min(this=col(column)))]
    if has_one_row_at_most(relation):
        return Aggregate(relation, (), tuple(items)), col(value)
    items.append((rows, exp.Count(this=exp.Star())))
    several = exp.GT(this=col(rows), expression=number(1))
    checked = case((several, called("raise_error", text(SEVERAL))), default=col(value))
    return Aggregate(relation, (), tuple(items)), checked
