"""A relation once more, as other occurrences, under other names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

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
from tidefill.views.relations.texts import Expr, Item, col


class Copy:
    """`names`: the new name of each column."""

    def __init__(self, like: Callable[[str], str]) -> None:
        self._like = like
        self.names: dict[str, str] = {}

    def relation(self, relation: Relation) -> Relation:
        match relation:
            case Scan():
                occurrence = self._like(relation.occurrence)
                return replace(
                    relation, occurrence=occurrence, columns=self._new(relation.columns), key=self._key(relation)
                )
            case Constant():
                return replace(relation, columns=self._new(relation.columns))
            case Generated():
                child, call = self.relation(relation.child), self.expression(relation.call)
                return Generated(child, call, self._new(relation.outputs), self._new(relation.own))
            case Filter():
                return Filter(self.relation(relation.child), self.expression(relation.condition))
            case Project():
                return Project(self.relation(relation.child), self._items(relation.items), self._key(relation))
            case InnerJoin():
                inputs = tuple(map(self.relation, relation.inputs))
                return InnerJoin(inputs, self._each(relation.conditions), self._key(relation))
            case LeftJoin():
                left, right = self.relation(relation.left), self.relation(relation.right)
                return LeftJoin(left, right, self.expression(relation.on), self._key(relation))
            case FullJoin():
                left, right = self.relation(relation.left), self.relation(relation.right)
                (tag,), nulls = self._new([relation.tag]), self._items(relation.nulls)
                return FullJoin(left, right, self.expression(relation.on), tag, nulls)
            case Matched():
                left, right = self.relation(relation.left), self.relation(relation.right)
                return Matched(left, right, self.expression(relation.on), relation.negated)
            case Aggregate():
                child = self.relation(relation.child)
                return Aggregate(child, self._items(relation.groups), self._items(relation.aggregates))
            case Windowed():
                child = self.relation(relation.child)
                return Windowed(child, self._each(relation.partition), self._items(relation.items))
            case Top():
                child = self.relation(relation.child)
                return Top(child, self._each(relation.order), relation.rows, relation.skipped)
            case Union():
                return Union(tuple(map(self.relation, relation.children)), self._key(relation))

    def _new(self, columns: Sequence[str]) -> tuple[str, ...]:
        for column in columns:
            if column not in self.names:
                self.names[column] = self._like(column)
        return tuple(self.names[column] for column in columns)

    def _key(self, relation: Relation) -> tuple[str, ...]:
        return tuple(self.names[column] for column in relation.key)

    def _items(self, items: Sequence[Item]) -> tuple[Item, ...]:
        values = [self.expression(value) for _, value in items]
        return tuple(zip(self._new([column for column, _ in items]), values, strict=True))

    def _each(self, trees: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(map(self.expression, trees))

    def expression(self, tree: Expr) -> Expr:
        return tree.copy().transform(lambda node: col(self.names[node.name]) if isinstance(node, exp.Column) else node)

    def over(self, tree: Expr) -> Expr:
        """The expression with the new names of those of its columns that have one."""
        return tree.copy().transform(
            lambda node: (
                col(self.names[node.name]) if isinstance(node, exp.Column) and node.name in self.names else node
            )
        )
