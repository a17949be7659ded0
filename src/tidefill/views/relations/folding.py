"""Groups and aggregates in expressions, as the columns that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tidefill.views.reading.functions import AGGREGATES
from tidefill.views.relations.texts import Expr, Item, col


class Folded:
    """Replaces groups and aggregates in expressions by columns, and gathers the aggregates. `grouping`: what a node
    stands for that is a call of grouping() or grouping_id(); None for others."""

    def __init__(
        self,
        groups: Sequence[Item],
        fresh: Callable[[str], str],
        grouping: Callable[[exp.Expr], Expr | None] = lambda node: None,
    ) -> None:
        self._groups = groups
        self._fresh = fresh
        self._grouping = grouping
        self.aggregates: list[Item] = []

    def __call__(self, tree: Expr) -> Expr:
        return tree.copy().transform(self._column)

    def _column(self, node: exp.Expr) -> exp.Expr:
        if is_of_window(node):
            return node
        if (meant := self._grouping(node)) is not None:
            return meant
        for column, value in (*self._groups, *self.aggregates):
            if node == value:
                return col(column)
        if not is_aggregate(node):
            return node
        self.aggregates.append((self._fresh("aggregate"), node.copy()))
        return col(self.aggregates[-1][0])


def is_aggregate(node: exp.Expr) -> bool:
    """Whether this very node is a function of many rows that gives one value for all of them."""
    if is_of_window(node):
        return False
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    if isinstance(node, exp.Anonymous):
        return AGGREGATES.fullmatch(node.name.lower()) is not None
    return isinstance(node, exp.AggFunc)


def is_of_window(node: exp.Expr) -> bool:
    """Whether it is the function before an OVER."""
    while isinstance(node.parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def has_aggregates(tree: Expr) -> bool:
    return any(is_aggregate(node) for node in tree.walk())


def counts(call: Expr) -> bool:
    """Whether the aggregate of nothing is 0."""
    inner = call.this if isinstance(call, exp.Filter) else call
    return isinstance(inner, exp.Count | exp.CountIf | exp.ApproxDistinct | exp.RegrCount)
