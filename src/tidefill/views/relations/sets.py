"""UNION, INTERSECT, EXCEPT and DISTINCT: rows of several queries in one, and equal rows as one.

INTERSECT and EXCEPT put the rows of both sides into one, with the number of the side, and group them, so that NULL is
equal to NULL. With ALL a group is there as often as the counts of both sides say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations.lowered import Lowered
from tidefill.views.relations.naming import Names
from tidefill.views.relations.relations import Aggregate, Filter, Generated, Project, Union
from tidefill.views.relations.texts import Expr, Item, called, case, cast, col, number


def union(tree: exp.Union, parts: Sequence[Lowered], names: Names) -> Lowered:
    """All rows of all parts, or each once."""
    every = _stacked(tree, parts, names)
    return distinct(every, names) if tree.args.get("distinct") else every


def compared(tree: exp.Intersect | exp.Except, parts: Sequence[Lowered], names: Names) -> Lowered:
    """The rows that both sides have, or only the first one."""
    stacked = _stacked(tree, parts, names)
    side = col(stacked.relation.key[0])
    if not tree.args.get("distinct"):
        return _counted(tree, stacked, side, names)
    first: Item = (names.fresh("first"), exp.Min(this=side))
    last: Item = (names.fresh("last"), exp.Max(this=side.copy()))
    groups = distinct(stacked, names, first, last)
    return replace(groups, relation=Filter(groups.relation, _kept(tree, col(first[0]), col(last[0]))))


def _counted(tree: exp.Intersect | exp.Except, stacked: Lowered, side: Expr, names: Names) -> Lowered:
    """With ALL."""
    counts: list[Item] = [(names.fresh("count"), _count_of(side, number(part))) for part in range(2)]
    groups = distinct(stacked, names, *counts)
    times = _times(tree, *(col(column) for column, _ in counts))
    kept = Filter(groups.relation, exp.GT(this=exp.paren(times.copy()), expression=number(0)))
    copy = names.fresh("copy")
    each = called("explode", called("sequence", cast(number(1), "bigint"), cast(times, "bigint")))
    return replace(groups, relation=Generated(kept, each, (copy,), (copy,)))


def _times(tree: exp.Intersect | exp.Except, left: Expr, right: Expr) -> Expr:
    """How often a row is in the result that is so often in the left and in the right side."""
    if isinstance(tree, exp.Intersect):
        return case((exp.LT(this=left, expression=right), left.copy()), default=right.copy())
    return exp.Sub(this=left, expression=right)


def _count_of(side: Expr, part: Expr) -> Expr:
    """How many rows of a group are of that side."""
    return exp.Count(this=case((exp.EQ(this=side.copy(), expression=part), number(1))))


def _stacked(tree: exp.SetOperation, parts: Sequence[Lowered], names: Names) -> Lowered:
    """All rows of all parts; the key is the number of the part, and the keys of all, of which it has its own."""
    if len({len(part.shown) for part in parts}) > 1:
        raise BadSql(f"the parts of {tree.key.upper()} have not the same number of columns")
    tag = names.fresh("part")
    outputs = [names.fresh(name or "column") for name, _ in parts[0].shown]
    own = [[names.fresh(f"key{index}") for _ in part.relation.key] for index, part in enumerate(parts)]
    children = []
    for index, part in enumerate(parts):
        items: list[Item] = [(tag, number(index))]
        items += [(output, col(inner)) for output, (_, inner) in zip(outputs, part.shown, strict=True)]
        for other, columns in enumerate(own):
            values = map(col if other == index else names.null, parts[other].relation.key)
            items += list(zip(columns, values, strict=True))
        key = (tag, *(name for columns in own for name in columns))
        children.append(Project(part.relation, tuple(items), key))
    shown = tuple((name, output) for (name, _), output in zip(parts[0].shown, outputs, strict=True))
    return Lowered(Union(tuple(children), children[0].key), shown)


def distinct(query: Lowered, names: Names, *aggregates: Item) -> Lowered:
    """Equal rows as one, with aggregates of them."""
    inner = list(dict.fromkeys(column for _, column in query.shown))
    groups = {column: names.like(column) for column in inner}
    items: tuple[Item, ...] = tuple((group, col(column)) for column, group in groups.items())
    return Lowered(
        Aggregate(query.relation, items, aggregates), tuple((name, groups[column]) for name, column in query.shown)
    )


def _kept(tree: exp.Intersect | exp.Except, first: Expr, last: Expr) -> Expr:
    """Whether a row that the sides from the first to the last one have is in the result."""
    if isinstance(tree, exp.Intersect):
        return exp.LT(this=first, expression=last)
    return exp.EQ(this=last, expression=number(0))


def flat(tree: exp.Union) -> Iterator[exp.Expr]:
    """The parts of a chain of the same UNION, as Spark reads it from left to right."""
    left = tree.this
    same_kind = isinstance(left, exp.Union) and bool(left.args.get("distinct")) == bool(tree.args.get("distinct"))
    bare = same_kind and {part for part, value in left.args.items() if value} <= {"this", "expression", "distinct"}
    yield from flat(left) if bare else (left,)
    yield tree.expression
