"""Subqueries in WHERE, SELECT and HAVING, as joins with what is around them.

IN and EXISTS that a row must fulfil become matches. A subquery that stands for a value is one aggregate, or a query by
itself with one row at most. Where IN and EXISTS are parts of an expression they are values too: EXISTS says whether the
count of the rows is above 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations import keys
from tidefill.views.relations.apart import apart, filled, inside, is_negated
from tidefill.views.relations.copies import Copy
from tidefill.views.relations.expressions import expression_of, items_of
from tidefill.views.relations.folding import Folded, counts, has_aggregates
from tidefill.views.relations.generators import makes_rows
from tidefill.views.relations.groups import grouped
from tidefill.views.relations.keys import apart_from_or, reads_only
from tidefill.views.relations.lowered import Body, Env, Lowered
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refused, shown_as
from tidefill.views.relations.relations import Aggregate, Filter, InnerJoin, LeftJoin, Matched, Relation
from tidefill.views.relations.scope import Scope
from tidefill.views.relations.single import has_one_row, has_one_row_at_most, only_grows, only_value
from tidefill.views.relations.texts import Expr, Item, both, case, coalesce, col, is_null, number

_T = TypeVar("_T")
_OVER_MANY = ("group", "having", "distinct", "qualify")
_FIRST_ROWS = ("limit", "offset")


@dataclass(frozen=True, slots=True)
class _Groups:
    """A subquery with groups: what it gives, and the conditions that tie it to the row around it."""

    relation: Relation
    open: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Lowers the subqueries of one query. `body` lowers FROM and WHERE of a subquery whose conditions may look at the
    scope around it; `closed` lowers a subquery that is more than that, and so cannot look outside. `settle` makes the
    choices that aggregates over a relation leave open. `tell` takes notices for the user."""

    names: Names
    body: Callable[[exp.Select, Scope, Env], Body]
    closed: Callable[[exp.Expr, Scope, Env], Lowered]
    settle: Callable[[Relation, Scope], Callable[[Expr], Expr]]
    tell: Callable[[str], None]

    def matched(self, left: Relation, scope: Scope, condition: Expr, negated: bool, env: Env) -> Relation:
        match condition:
            case exp.Exists():
                right, on = self._exists(condition.this, scope, env)
            case exp.In():
                right, ties, pairs = self._in(condition, scope, env)
                on = (*ties, _equal(pairs, or_unknown=negated))
            case _:
                raise AssertionError(condition)
        if not reads_only(both(on), (*left.columns, *right.columns)):
            raise refused(condition, "a subquery refers to a query two levels around it", "Write it as a join.")
        return Matched(left, right, both(on), negated)

    def _exists(self, tree: exp.Expr, scope: Scope, env: Env) -> tuple[Relation, Sequence[Expr]]:
        tree = without_groups(inside(tree))
        if _is_plain(tree):
            body = self.body(tree, scope, env)
            return body.relation, body.open
        if (groups := self._groups_within(tree, scope, env)) is not None:
            return groups.relation, groups.open
        return self.closed(tree, scope, env).relation, ()

    def _in(self, tree: exp.In, scope: Scope, env: Env) -> tuple[Relation, Sequence[Expr], list[tuple[Expr, Expr]]]:
        """What the subquery gives, the conditions that tie it to the row around it, and what has to be equal."""
        query = inside(tree.args["query"])
        values = tree.this.expressions if isinstance(tree.this, exp.Tuple) else [tree.this]
        if isinstance(query, exp.Select) and _is_distinct(query):
            query = _without(query, "distinct")
        if _is_plain(query):
            body = self.body(query, scope, env)
            found = [expression for _, expression in items_of(query.expressions, body.scope)]
            relation, ties = body.relation, body.open
        elif (groups := self._groups_within(query, scope, env)) is not None:
            relation, ties, found = groups.relation, groups.open, list(groups.values)
        else:
            lowered = self.closed(query, scope, env)
            relation, found, ties = lowered.relation, [col(inner) for _, inner in lowered.shown], ()
        if len(found) != len(values):
            raise BadSql("both sides of IN have not the same number of columns")
        pairs = zip(values, found, strict=True)
        return relation, ties, [(expression_of(value, scope), other) for value, other in pairs]

    def _groups_within(self, tree: exp.Expr, scope: Scope, env: Env) -> _Groups | None:
        """A subquery with groups whose rows equalities tie to the row around it: the groups by what they equate too, so
        that the equalities can be asked of the groups. None if it is not such a one."""
        if not _has_only_groups(tree):
            return None
        taken = self.names.taken()
        body = self.body(tree, scope, env)
        pairs = [self._tied(condition, body.relation) for condition in body.open]
        if not pairs or None in pairs:
            self.names.give_back(taken)
            return None
        within = Scope(body.scope.sources, None, scope)
        settle = self.settle(body.relation, within)
        items = [(name, settle(value)) for name, value in items_of(tree.expressions, within)]
        more = [inner for inner, _ in filter(None, pairs)]
        found = grouped(tree, body.relation, within, items, self.names, _no_join, settle, more)
        columns = {value.name: column for column, value in found.groups if isinstance(value, exp.Column)}
        ties = [exp.EQ(this=outer, expression=col(columns[inner.name])) for inner, outer in filter(None, pairs)]
        return _Groups(found.relation, tuple(ties), tuple(value for _, value in found.items))

    def _tied(self, condition: Expr, inner: Relation) -> tuple[exp.Column, exp.Column] | None:
        """The column inside and the one outside that it equates, if their equal values are the same."""
        for sides in itertools.permutations(keys.equated(condition) or ()):
            match sides:
                case (exp.Column() as one, exp.Column() as other) if (
                    one.name in inner.columns
                    and other.name not in inner.columns
                    and keys.one_to_one(self.names.types, one.name, other.name)
                ):
                    return one, other
        return None

    def with_values(
        self, relation: Relation, scope: Scope, tree: Expr, values: dict[str, Expr], env: Env
    ) -> tuple[Relation, Expr]:
        """The relation joined with the subqueries in the expression, and the expression with names in their place,
        under which `values` has what they stand for."""
        replaced, queries = apart(tree, len(values))
        for name, query in queries.items():
            if isinstance(query, exp.Exists | exp.In):
                relation, values[name] = self._mark(relation, scope, query, env)
            else:
                relation, values[name] = self.value(relation, scope, query, env)
        return relation, replaced

    def _mark(self, left: Relation, scope: Scope, tree: exp.Exists | exp.In, env: Env) -> tuple[Relation, Expr]:
        """Whether IN or EXISTS holds for a row. `x IN (...)` is unknown if nothing equals x, and something is NULL.
        Spark takes that for false, but under NOT for true, so that `x NOT IN (...)` is false too."""
        some = exp.Count(this=exp.Star())
        if isinstance(tree, exp.Exists):
            inner, ties = self._exists(tree.this, scope, env)
            left, count = self._joined(left, inner, ties, some, tree)
            return left, _above_zero(count)
        inner, ties, pairs = self._in(tree, scope, env)
        equal = [exp.EQ(this=one, expression=other) for one, other in pairs]
        marked, count = self._joined(left, inner, (*ties, *equal), some, tree)
        if not is_negated(tree):
            return marked, _above_zero(count)
        if len(pairs) > 1:
            raise refused(tree, "NOT IN of several columns stands in an expression", "Write EXISTS, with equalities.")
        ((value, found),) = pairs
        copied = Copy(self.names.like)
        again = copied.relation(inner)
        left, nulls = self._joined(marked, again, list(map(copied.over, ties)), _nulls(copied.over(found)), tree)
        return left, _in_mark(count, nulls, value)

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
        is one row for each group of what they equate; where there is none, an aggregate of nothing. Any other query
        that does not look outside is joined by its only row. `meant`: what columns of FROM around it are called in
        that row, if it is one of groups."""
        if not isinstance(tree, exp.Select) or any(map(tree.args.get, (*_OVER_MANY, *_FIRST_ROWS))):
            return self._only(left, self.closed(tree, scope, env), tree)
        taken = self.names.taken()
        body = self.body(tree, scope, env)
        value = _one_column(items_of(tree.expressions, body.scope), tree)
        if not has_aggregates(value) and not body.open:
            self.names.give_back(taken)
            return self._only(left, self.closed(tree, scope, env), tree)
        windows = value.find(exp.Window) is not None
        if windows or not has_aggregates(value) or not reads_only(value, body.relation.columns):
            raise refused(tree, "a subquery for a value is not an aggregate", "Write it as a join.")
        settled = self.settle(body.relation, body.scope)(value)
        return self._joined(left, body.relation, [meant(condition) for condition in body.open], settled, tree)

    def _only(self, left: Relation, query: Lowered, tree: exp.Expr) -> tuple[Relation, Expr]:
        """The rows of the left one with the value of the only row that a query gives."""
        relation, column = query.relation, _one_column(query.shown, tree)
        if has_one_row(relation):
            return _beside(left, relation), col(column)
        if not has_one_row_at_most(relation):
            if not only_grows(relation):
                hint = "Write an aggregate that gives one row: (SELECT max(x) FROM ...)."
                raise refused(tree, "a subquery for a value may give several rows while tables are walked", hint)
            self.tell(
                f"{shown_as(tree)} has to give one row or none: where it gives more, the job fails, as the query."
            )
        one, value = only_value(relation, column, self.names)
        return _beside(left, one), value

    def _joined(
        self, left: Relation, inner: Relation, ties: Sequence[Expr], value: Expr, tree: exp.Expr
    ) -> tuple[Relation, Expr]:
        """The rows of the left one with a value made of aggregates of those rows of the inner one to which equalities
        tie them; and the value."""
        pairs = [self._correlated(tie, inner, left, tree) for tie in ties]
        groups: list[Item] = [(self.names.like(one.name), one) for one, _ in pairs]
        folded = Folded([], self.names.fresh)
        value = folded(value)
        if not groups:
            one = (self.names.fresh("one"), number(0))
            return _beside(left, Aggregate(inner, (), (one, *folded.aggregates))), value
        aggregate = Aggregate(inner, tuple(groups), tuple(folded.aggregates))
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
    for condition in apart_from_or(where) if where is not None else ():
        inner, negated = condition, False
        while isinstance(inner, exp.Not):
            inner, negated = inner.this.unnest(), not negated
        if isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None):
            matches.append((inner, negated))
        elif condition.find(exp.Subquery, exp.Exists) is not None:
            scalars.append(condition)
        else:
            plain.append(condition)
    return plain, matches, scalars


def _beside(left: Relation, one: Relation) -> InnerJoin:
    """The rows of the left one with the one row of the other."""
    inputs = (*left.inputs, one) if isinstance(left, InnerJoin) else (left, one)
    return InnerJoin(inputs, left.conditions if isinstance(left, InnerJoin) else (), left.key)


def _one_column(columns: Sequence[tuple[str, _T]], tree: exp.Expr) -> _T:
    """What a subquery gives for a value."""
    if len(columns) != 1:
        raise BadSql(f"a subquery for a value gives {len(columns)} columns", detail=shown_as(tree))
    return columns[0][1]


def _is_plain(tree: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether a subquery is nothing but FROM and WHERE, so that its conditions may look outside."""
    if not isinstance(tree, exp.Select) or any(map(tree.args.get, _FIRST_ROWS)):
        return False
    over_many = any(has_aggregates(item) or item.find(exp.Window) is not None for item in tree.expressions)
    makes_rows = any(map(_makes_rows, tree.expressions))
    return not over_many and not makes_rows and not any(map(tree.args.get, _OVER_MANY))


def _is_distinct(tree: exp.Select) -> bool:
    """Whether IN does not mind its DISTINCT."""
    return bool(tree.args.get("distinct")) and not any(map(tree.args.get, ("group", *_FIRST_ROWS)))


def _makes_rows(item: exp.Expr) -> bool:
    return any(map(makes_rows, item.walk()))


def _has_only_groups(tree: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether it is FROM and WHERE, with one grouping and perhaps HAVING."""
    if not isinstance(tree, exp.Select) or any(map(tree.args.get, ("distinct", "qualify", *_FIRST_ROWS))):
        return False
    group = tree.args.get("group")
    if group is None or {part for part, value in group.args.items() if value} != {"expressions"}:
        return False
    several = any(isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets) for one in group.expressions)
    parts = (*tree.expressions, *([tree.args["having"]] if tree.args.get("having") else []))
    return not several and all(part.find(exp.Window, exp.Query) is None for part in parts)


def without_groups(tree: exp.Expr) -> exp.Expr:
    """A query that has a row whenever this one has: EXISTS does not mind groups and DISTINCT, but for HAVING. (One row
    of aggregates without groups is always there.)"""
    if not isinstance(tree, exp.Select) or any(map(tree.args.get, ("having", "qualify", *_FIRST_ROWS))):
        return tree
    group = tree.args.get("group")
    if any(map(_makes_rows, tree.expressions)) or (group is None and any(map(has_aggregates, tree.expressions))):
        return tree
    if group is not None and not (group.expressions and _has_only_groups(_without(tree, "distinct"))):
        return tree
    tree = _without(tree, "distinct", "group", "windows")
    tree.set("expressions", [number(1)])
    return tree


def _without(tree: exp.Select, *clauses: str) -> exp.Select:
    tree = tree.copy()
    for clause in clauses:
        tree.set(clause, None)
    return tree


def _no_join(groups: Relation, query: exp.Expr, meant: Callable[[Expr], Expr]) -> tuple[Relation, Expr]:
    raise AssertionError("HAVING has no subquery here")


def _equal(pairs: Sequence[tuple[Expr, Expr]], *, or_unknown: bool) -> Expr:
    """`x NOT IN (...)` holds only if nothing there could be x: an equality that is NULL counts as one."""
    equal = both(exp.EQ(this=one, expression=other) for one, other in pairs)
    return coalesce(exp.paren(equal), exp.true()) if or_unknown else equal


def _above_zero(count: Expr) -> Expr:
    return exp.GT(this=exp.paren(count), expression=number(0))


def _nulls(value: Expr) -> Expr:
    """0 if there are no rows, 1 if there are some, 2 if some of them are NULL."""
    rows, known = exp.Count(this=exp.Star()), exp.Count(this=value)
    return case(
        (exp.EQ(this=rows, expression=number(0)), number(0)),
        (exp.LT(this=known, expression=rows.copy()), number(2)),
        default=number(1),
    )


def _in_mark(count: Expr, nulls: Expr, value: Expr) -> Expr:
    """Whether `x IN (...)` is true or unknown, by how many equal x, and by what else there is. It is unknown if one of
    both sides is NULL."""
    nothing = exp.EQ(this=exp.paren(nulls), expression=number(0))
    unknown = exp.or_(exp.EQ(this=exp.paren(nulls.copy()), expression=number(2)), is_null(value.copy()))
    return case((_above_zero(count), exp.true()), (nothing, exp.false()), (unknown, exp.true()), default=exp.false())
