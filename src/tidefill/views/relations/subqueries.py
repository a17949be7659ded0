"""Subqueries in WHERE, SELECT and HAVING, as joins with what is around them.

IN and EXISTS become matches. A subquery that stands for a value must be one aggregate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations import keys
from tidefill.views.relations.expressions import expression_of, items_of
from tidefill.views.relations.folding import Folded, counts, has_aggregates
from tidefill.views.relations.keys import conjuncts, reads_only
from tidefill.views.relations.lowered import Body, Env, Lowered
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refuse_others, refused
from tidefill.views.relations.relations import Aggregate, Filter, InnerJoin, LeftJoin, Matched, Relation
from tidefill.views.relations.scope import Scope
from tidefill.views.relations.texts import HIDDEN, Expr, Item, both, coalesce, col, number


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Lowers the subqueries of one query. `body` lowers FROM and WHERE of a subquery whose conditions may look at the
    scope around it; `closed` lowers a subquery that is more than that, and so cannot look outside."""

    names: Names
    body: Callable[[exp.Select, Scope, Env], Body]
    closed: Callable[[exp.Expr, Scope, Env], Lowered]

    def matched(self, left: Relation, scope: Scope, condition: Expr, negated: bool, env: Env) -> Relation:
        match condition:
            case exp.Exists():
                right, on = self._exists(condition.this, scope, env)
            case exp.In():
                right, on = self._in(condition, scope, negated, env)
            case _:
                raise AssertionError(condition)
        if not reads_only(both(on), (*left.columns, *right.columns)):
            raise refused(condition, "a subquery refers to a query two levels around it", "Write it as a join.")
        return Matched(left, right, both(on), negated)

    def _exists(self, tree: exp.Expr, scope: Scope, env: Env) -> tuple[Relation, Sequence[Expr]]:
        tree = _inside(tree)
        if not _is_plain(tree):
            return self.closed(tree, scope, env).relation, ()
        body = self.body(tree, scope, env)
        return body.relation, body.open

    def _in(self, tree: exp.In, scope: Scope, negated: bool, env: Env) -> tuple[Relation, Sequence[Expr]]:
        """`x NOT IN (...)` holds only if nothing there could be x: an equality that is NULL counts as one."""
        query = _inside(tree.args["query"])
        values = tree.this.expressions if isinstance(tree.this, exp.Tuple) else [tree.this]
        if _is_plain(query):
            body = self.body(query, scope, env)
            found = [expression for _, expression in items_of(query.expressions, body.scope)]
            relation, open_conditions = body.relation, body.open
        else:
            lowered = self.closed(query, scope, env)
            relation, found, open_conditions = lowered.relation, [col(inner) for _, inner in lowered.shown], ()
        if len(found) != len(values):
            raise BadSql("both sides of IN have not the same number of columns")
        pairs = zip(values, found, strict=True)
        equal = both(exp.EQ(this=expression_of(value, scope), expression=other) for value, other in pairs)
        return relation, (*open_conditions, coalesce(exp.paren(equal), exp.true()) if negated else equal)

    def with_values(
        self, relation: Relation, scope: Scope, tree: Expr, values: dict[str, Expr], env: Env
    ) -> tuple[Relation, Expr]:
        """The relation joined with the subqueries in the expression, and the expression with names in their place,
        under which `values` has what they stand for."""
        replaced, queries = apart(tree, len(values))
        for name, query in queries.items():
            relation, values[name] = self.value(relation, scope, query, env)
        return relation, replaced

    def with_condition(self, relation: Relation, scope: Scope, tree: Expr, env: Env) -> Filter:
        """The rows for which a condition with such subqueries holds."""
        values: dict[str, Expr] = {}
        relation, replaced = self.with_values(relation, scope, tree, values, env)
        resolved = expression_of(replaced, scope)
        if not reads_only(resolved, relation.columns):
            raise refused(tree, "a condition refers to the query around it and has a subquery", "Write it as a join.")
        return Filter(relation, filled(resolved, values))

    def value(
        self, left: Relation, scope: Scope, tree: exp.Expr, env: Env, meant: Callable[[Expr], Expr] = lambda tree: tree
    ) -> tuple[Relation, Expr]:
        """An aggregate without groups is one row, whatever it reads. Where equalities tie it to the row around it, it
        is one row for each group of what they equate; where there is none, an aggregate of nothing. `meant`: what
        columns of FROM around it are called in that row, if it is one of groups."""
        clauses = ("group", "having", "distinct")
        if not isinstance(tree, exp.Select) or any(map(tree.args.get, clauses)) or len(tree.expressions) != 1:
            raise refused(tree, "a subquery for a value is more than one aggregate", "Write it as a join.")
        body = self.body(tree, scope, env)
        ((_, value),) = items_of(tree.expressions, body.scope)
        windows = value.find(exp.Window) is not None
        if windows or not has_aggregates(value) or not reads_only(value, body.relation.columns):
            raise refused(tree, "a subquery for a value is not an aggregate", "Write it as a join.")
        pairs = [self._correlated(meant(condition), body.relation, left, tree) for condition in body.open]
        groups: list[Item] = [(self.names.like(inner.name), inner) for inner, _ in pairs]
        folded = Folded([], self.names.fresh)
        value = folded(value)
        if not groups:
            one = (self.names.fresh("one"), number(0))
            aggregate = Aggregate(body.relation, (), (one, *folded.aggregates))
            inputs = (*left.inputs, aggregate) if isinstance(left, InnerJoin) else (left, aggregate)
            return InnerJoin(inputs, left.conditions if isinstance(left, InnerJoin) else (), left.key), value
        aggregate = Aggregate(body.relation, tuple(groups), tuple(folded.aggregates))
        on = both(
            exp.EQ(this=outer, expression=col(group)) for (_, outer), (group, _) in zip(pairs, groups, strict=True)
        )
        zeros = {column for column, call in folded.aggregates if counts(call)}
        value = value.transform(
            lambda node: (
                coalesce(node.copy(), number(0)) if isinstance(node, exp.Column) and node.name in zeros else node
            )
        )
        return LeftJoin(left, aggregate, on, left.key), value

    def _correlated(
        self, condition: Expr, inner: Relation, outer: Relation, tree: exp.Expr
    ) -> tuple[exp.Column, exp.Column]:
        """The column inside and the one outside that it equates."""
        for sides in itertools.permutations(keys.equated(condition) or ()):
            match sides:
                case (exp.Column() as one, exp.Column() as other) if (
                    one.name in inner.columns
                    and other.name in outer.columns
                    and keys.one_to_one(self.names.types, one.name, other.name)
                ):
                    return one, other
        hint = "Equate columns of the same type, or write it as a join."
        raise refused(tree, "a subquery for a value refers to the query around it by more than equalities", hint)


def parted(where: exp.Expr | None) -> tuple[list[Expr], list[tuple[Expr, bool]], list[Expr]]:
    """Conditions on the row alone; those that are a match, with NOT before them or not; and those with other
    subqueries."""
    plain: list[Expr] = []
    scalars: list[Expr] = []
    matches: list[tuple[Expr, bool]] = []
    for condition in conjuncts(where) if where is not None else ():
        inner, negated = condition, False
        while isinstance(inner, exp.Not):
            inner, negated = inner.this.unnest(), not negated
        if isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None):
            matches.append((inner, negated))
        elif condition.find(exp.Subquery) is not None and condition.find(exp.Exists) is None:
            scalars.append(condition)
        else:
            plain.append(condition)
    return plain, matches, scalars


def apart(tree: Expr, taken: int) -> tuple[Expr, dict[str, exp.Expr]]:
    """The expression with names in place of the subqueries that stand for a value, and these by name, of which so many
    are taken. No column has such a name: it begins like hidden ones."""
    queries: dict[str, exp.Expr] = {}

    def name(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Subquery):
            return node
        queries[f"{HIDDEN}subquery{taken + len(queries)}"] = _inside(node)
        return exp.Placeholder(this=list(queries)[-1])

    return tree.copy().transform(name), queries


def filled(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """With what the names in place of subqueries stand for."""
    return tree.transform(lambda node: exp.paren(values[node.this]) if isinstance(node, exp.Placeholder) else node)


def _inside(tree: exp.Expr) -> exp.Expr:
    """What stands in parentheses, which must have nothing of their own."""
    while isinstance(tree, exp.Subquery):
        refuse_others(tree, {"this"})
        tree = tree.this
    return tree


def _is_plain(tree: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether a subquery is nothing but FROM and WHERE, so that its conditions may look outside."""
    if not isinstance(tree, exp.Select):
        return False
    clauses = ("group", "having", "distinct")
    over_many = any(has_aggregates(item) or item.find(exp.Window) is not None for item in tree.expressions)
    return not over_many and not any(tree.args.get(clause) for clause in clauses)
