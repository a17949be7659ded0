"""From the tree of a user's query to relations. What is not known here is refused, never ignored.

Names are resolved by our own rules, which are Spark's where both have one meaning; where Spark would choose between
two, the query is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from tidefill.errors import BadSql, QueryTooLarge
from tidefill.views.reading.refusals import NO_ORDER
from tidefill.views.relations import sets
from tidefill.views.relations.aggregates import needs_key, told, with_choices
from tidefill.views.relations.apart import filled
from tidefill.views.relations.choices import Settled, place_of, placed, reference, settled
from tidefill.views.relations.expressions import expression_of, items_of
from tidefill.views.relations.folding import has_aggregates
from tidefill.views.relations.generators import (
    Made,
    generated,
    in_time_windows,
    is_generator,
    is_row_maker,
    is_time_window,
    select_of,
)
from tidefill.views.relations.groups import Joining, by_items, grouped
from tidefill.views.relations.joins import Joined, joined
from tidefill.views.relations.keys import conjuncts, reads_only
from tidefill.views.relations.lowered import Body, Env, Lowered, Shown, TableColumns
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refuse_others, refused, shown_as
from tidefill.views.relations.relations import Constant, Filter, Project, Relation, Scan
from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.sessions import in_sessions
from tidefill.views.relations.single import has_one_row_at_most
from tidefill.views.relations.subqueries import Subqueries, parted
from tidefill.views.relations.texts import HIDDEN, Expr, Item, both, col, columns_in, number
from tidefill.views.relations.top import (
    CHOSEN,
    Limit,
    any_rows,
    beside_distinct,
    limited,
    named_beside,
    named_by_outputs,
    order_items,
    over_outputs,
    top,
    without_choice,
)
from tidefill.views.relations.using import using
from tidefill.views.relations.windows import windowed

OCCURRENCES_MAX = 128  # of tables in one query: beyond any that a person wrote; a WITH that is read twice counts twice

_WINDOW, _OF_WINDOW = "window", f"{HIDDEN}window"  # the column with the time window of a row, and its alias in FROM

_CLAUSES = {
    "expressions", "from", "joins", "where", "group", "having", "distinct", "with", "order", "qualify", "laterals",
}  # fmt: skip
_CLAUSES_OF_SETS = {"this", "expression", "distinct", "with", "order", "expressions"}
_OF_TABLE = {"this", "db", "catalog", "alias"}
_OF_JOIN = {"this", "side", "kind", "on", "using", "method"}
_OF_LATERAL = {"this", "view", "outer", "alias", "ordinality"}
_OF_VALUES = {"expressions", "alias"}
_OF_SUBQUERY = {"this", "alias"}

_JOINS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi", ("", "SEMI"): "semi", ("LEFT", "ANTI"): "anti", ("", "ANTI"): "anti",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _From:
    """FROM: the first table, all that names may mean, the joins, and what is made of each row after them."""

    relation: Relation
    sources: tuple[Source, ...]
    joins: tuple[Joined, ...]
    laterals: tuple[Made, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What else the lowering of a query found: notices for the user, and the query with all that it leaves open
    settled."""

    notices: tuple[str, ...]
    settled: Settled


def lower(tree: exp.Expr, find: Callable[[tuple[str, ...]], TableColumns]) -> tuple[Lowered, Told]:
    """The query as relations, and what else is to be said of it. Raises BadSql or UnsupportedQuery."""
    lowering, tree = _Lowering(find), placed(tree)
    lowered = lowering.query(tree, {})
    return lowered, Told(tuple(dict.fromkeys(lowering.notices)), settled(tree, lowering.orders))


class _Lowering:
    def __init__(self, find: Callable[[tuple[str, ...]], TableColumns]) -> None:
        self._find = find
        self._names = Names()
        self._beyond: Scope | None = None
        self._scans = 0
        self._groups_of: dict[str, Expr] = {}
        self.notices: list[str] = []
        within = self._body_within, self._closed, self._settling
        self._subqueries = Subqueries(self._names, *within, self.notices.append)
        self.orders: dict[int, list[exp.Column] | None] = {}

    # Queries.

    def query(self, tree: exp.Expr, env: Env) -> Lowered:
        if (bare := without_choice(tree)) is not None:
            lowered = self.query(bare, env)
            if not has_one_row_at_most(lowered.relation):
                raise any_rows(tree)
            return lowered
        env = self._with(tree, env)
        tree, limit = limited(tree)
        if limit is not None:
            self.notices.append(CHOSEN)
        elif tree.args.get("order"):
            self.notices.append(NO_ORDER)
        if isinstance(tree, exp.Select):
            return self._select(tree, env, limit)
        lowered = self._without_select(tree, env)
        return lowered if limit is None else self._first_outputs(lowered, limit, [Source("", lowered.shown)])

    def _without_select(self, tree: exp.Expr, env: Env) -> Lowered:
        match tree:
            case exp.Subquery():
                refuse_others(tree, {"this", "order"})
                return self.query(tree.this, env)
            case exp.Union():
                return sets.union(tree, self._sets(tree, sets.flat(tree), env), self._names)
            case exp.Intersect() | exp.Except():
                return sets.compared(tree, self._sets(tree, (tree.this, tree.expression), env), self._names)
            case exp.Values():
                return self._values(tree)
            case _:
                hint = "Write it with SELECT, UNION, INTERSECT and EXCEPT."
                raise refused(tree, "the query is not made of SELECT", hint)

    def _with(self, tree: exp.Expr, env: Env) -> Env:
        clause = tree.args.get("with_")
        if clause is None:
            return env
        if clause.args.get("recursive"):
            raise refused(clause, "a WITH is recursive", "Only queries that do not read themselves can be kept fresh.")
        inner = dict(env)
        for part in clause.expressions:
            inner[part.alias.casefold()] = partial(self._named, part, dict(inner))
        return inner

    def _named(self, part: exp.CTE, env: Env) -> Lowered:
        """A query of WITH, whose columns may have other names outside."""
        lowered = self.query(part.this, env)
        return replace(lowered, shown=_renamed(lowered.shown, part.args["alias"]))

    def _sets(self, tree: exp.SetOperation, queries: Iterable[exp.Expr], env: Env) -> list[Lowered]:
        """The parts of a UNION, INTERSECT or EXCEPT."""
        refuse_others(tree, _CLAUSES_OF_SETS)
        if tree.args.get("by_name"):
            raise refused(tree, f"{tree.key.upper()} BY NAME", "Name the columns of each part in the same order.")
        return [self.query(part, env) for part in queries]

    # FROM and WHERE.

    def _select(self, tree: exp.Select, env: Env, limit: Limit | None) -> Lowered:
        body = self._body(tree, env, None)
        assert not body.open, "nothing is around it"
        if not tree.args.get("distinct"):
            return self._output(tree, body.relation, body.scope, env, limit)
        every = self._output(tree, body.relation, body.scope, env, None)
        lowered = sets.distinct(every, self._names)
        if limit is None:
            return lowered
        groups = {inner: group for (_, inner), (_, group) in zip(every.shown, lowered.shown, strict=True)}
        return self._first_outputs(lowered, limit, beside_distinct(body.scope, groups, lowered.shown))

    # LIMIT.

    def _first_outputs(self, lowered: Lowered, limit: Limit, sources: Sequence[Source]) -> Lowered:
        """The first rows of a query whose ORDER BY sees what it gives."""
        outputs = [(name, col(column)) for name, column in lowered.shown]
        every = self._projected(lowered.relation, [*outputs, *over_outputs(limit, sources)])
        return self._first(every, limit, named_by_outputs)

    def _first(
        self, every: Lowered, limit: Limit, named: Callable[[Sequence[str], Shown], list[exp.Column] | None]
    ) -> Lowered:
        """The first rows of a query whose last columns are those of its ORDER BY. `named`: the key as the query itself
        can name it there, beside what it shows."""
        shown, order = every.shown[: -len(limit.order)], every.shown[-len(limit.order) :]
        lowered, missing = top(replace(every, shown=shown), limit, [column for _, column in order])
        if missing:
            self.orders[limit.place] = named(missing, shown)
            text = shown_as(exp.Order(expressions=[one.copy() for one in limit.order]))
            self.notices.append(f"{text}: rows that are equal in this order are ordered by {', '.join(missing)}.")
        return lowered

    def _body(self, tree: exp.Select, env: Env, outer: Scope | None) -> Body:
        refuse_others(tree, _CLAUSES)
        found = self._from(tree, env)
        scope = Scope(found.sources, outer, self._beyond)
        alone, matches, scalars = parted(tree.args["where"].this if tree.args.get("where") else None)
        conditions = [expression_of(condition, scope) for condition in alone]
        available = {column for source in found.sources for _, column in source.columns}
        closed = [condition for condition in conditions if reads_only(condition, available)]
        made = {column for one in found.laterals for _, column in one.shown}
        early = [condition for condition in closed if made.isdisjoint(columns_in(condition))]
        relation = joined(found.relation, found.joins, early, self._names)
        for one in found.laterals:
            relation = one.over(relation)
        if late := [condition for condition in closed if condition not in early]:
            relation = Filter(relation, both(late))
        for condition, negated in matches:
            relation = self._subqueries.matched(relation, scope, condition, negated, env)
        for condition in scalars:
            relation = self._subqueries.with_condition(relation, scope, condition, env)
        return Body(relation, scope, tuple(condition for condition in conditions if condition not in closed))

    def _from(self, tree: exp.Select, env: Env) -> _From:
        """The tables of FROM, with their joins; then what is made of each row."""
        if tree.args.get("from_") is None:
            one = self._names.fresh("one")
            return _From(Constant((one,), ((number(0),),)), (), (), ())
        relation, first = self._source(tree.args["from_"].this, env)
        sources, joins, laterals = [first], list[Joined](), list[Made]()
        for join in tree.args.get("joins") or ():
            if isinstance(join.this, exp.Lateral):
                hint = "Write LATERAL VIEW [OUTER] explode(xs) t AS x after all joins."
                raise refused(join, "a join is LATERAL", hint)
            sources, added = self._join(join, sources, env)
            joins.append(added)
        for lateral in tree.args.get("laterals") or ():
            laterals.append(self._lateral(lateral, sources, outer=bool(lateral.args.get("outer"))))
        return _From(relation, tuple(sources), tuple(joins), tuple(laterals))

    def _lateral(self, tree: exp.Lateral, sources: list[Source], *, outer: bool) -> Made:
        """Rows that a function makes of each row. They are one more source, which is put at the end."""
        refuse_others(tree, _OF_LATERAL)
        if not is_generator(tree.this):
            hint = "Write explode, posexplode or inline of an array, or a join."
            raise refused(tree, "the query can make several rows out of one (LATERAL)", hint)
        alias = tree.args.get("alias") or exp.TableAlias()
        given = [column.name for column in alias.args.get("columns") or ()]
        call = expression_of(tree.this, Scope(tuple(sources), None))
        made = generated(call, given, self._names, outer=outer)
        sources.append(Source(alias.name, made.shown))
        return made

    def _source(self, tree: exp.Expr, env: Env) -> tuple[Relation, Source]:
        match tree:
            case exp.Subquery():
                refuse_others(tree, _OF_SUBQUERY)
                lowered = self.query(tree.this, env)
            case exp.Values():
                lowered = self._values(tree)
            case exp.Table(this=exp.Identifier()):
                refuse_others(tree, _OF_TABLE)
                parts = tuple(part.name for part in tree.parts)
                if len(parts) > 1 or parts[0].casefold() not in env:
                    return self._scan(parts, tree)
                lowered = env[parts[0].casefold()]()
            case _:
                hint = "Name tables, queries in parentheses and names of WITH after FROM."
                raise refused(tree, "the query reads something else than a table", hint)
        return lowered.relation, Source(tree.alias_or_name, _renamed(lowered.shown, tree.args.get("alias")))

    def _values(self, tree: exp.Values) -> Lowered:
        """Rows that the query has itself, under the names that Spark gives."""
        refuse_others(tree, _OF_VALUES)
        rows = [_row(row) for row in tree.expressions]
        if len({len(row) for row in rows}) > 1:
            raise BadSql("the rows of VALUES have not the same number of columns")
        nothing = Scope(())
        listed = tuple((number(at), *(expression_of(one, nothing) for one in row)) for at, row in enumerate(rows))
        shown = tuple((f"col{at + 1}", self._names.fresh(f"col{at + 1}")) for at, _ in enumerate(rows[0]))
        columns = (self._names.fresh("row"), *(column for _, column in shown))
        return Lowered(Constant(columns, listed), shown)

    def _scan(self, parts: tuple[str, ...], tree: exp.Table) -> tuple[Relation, Source]:
        alias = tree.alias_or_name
        if tree.args.get("alias") is not None and tree.args["alias"].args.get("columns"):
            hint = "Name them with AS in a query in FROM: (SELECT a AS b FROM t) u."
            raise refused(tree, "an alias renames columns of a table", hint)
        table = self._find(parts)
        self._scans += 1
        if self._scans > OCCURRENCES_MAX:
            raise QueryTooLarge(
                f"the query reads tables at more than {OCCURRENCES_MAX} places",
                detail="A query of WITH is counted at each place that names it.",
                hint="Make a view of what is read often, or use WITH (refresh = full).",
            )
        occurrence = self._names.fresh(alias)
        inner = {name: self._names.fresh(f"{occurrence}.{name}") for name, _ in table.columns}
        self._names.types.update({inner[name]: kind for name, kind in table.columns})
        key = tuple(inner[name] for name in table.key)
        scan = Scan(occurrence, table.name, tuple(inner.values()), tuple(inner), key)
        return scan, Source(alias, tuple(inner.items()))

    def _join(self, tree: exp.Join, sources: list[Source], env: Env) -> tuple[list[Source], Joined]:
        refuse_others(tree, _OF_JOIN)
        natural = str(tree.args.get("method") or "").upper()
        kind = _JOINS.get((tree.side.upper(), tree.kind.upper()))
        if kind is None or natural not in ("", "NATURAL"):
            raise refused(tree, "a join of this kind cannot be kept fresh", "Write INNER, LEFT, RIGHT or FULL JOIN.")
        right, source = self._source(tree.this, env)
        if any(other.alias.casefold() == source.alias.casefold() for other in sources):
            raise refused(tree, f"two tables are called {source.alias}", "Give one of them an alias.")
        named = [part.name for part in tree.args.get("using") or ()]
        if names := (named if not natural else _common(sources, source)):
            merged = using(names, sources, source, kind, self._names.fresh)
            return merged.sources, Joined(kind, right, merged.conditions, merged.items)
        scope = Scope((*sources, source), None)
        on = tree.args.get("on")
        conditions = tuple(expression_of(part, scope) for part in conjuncts(on)) if on is not None else ()
        return (sources if kind in ("semi", "anti") else [*sources, source]), Joined(kind, right, conditions)

    # Subqueries.

    def _body_within(self, tree: exp.Select, scope: Scope, env: Env) -> Body:
        """FROM and WHERE of a subquery, whose conditions may look at the scope around it."""
        return self._body(tree, self._with(tree, env), scope)

    def _closed(self, tree: exp.Expr, scope: Scope, env: Env) -> Lowered:
        """A subquery that is more than FROM and WHERE, and so cannot look outside."""
        before, self._beyond = self._beyond, scope
        try:
            return self.query(tree, env)
        finally:
            self._beyond = before

    # SELECT, GROUP BY, HAVING.

    def _output(self, tree: exp.Select, relation: Relation, scope: Scope, env: Env, limit: Limit | None) -> Lowered:
        """What SELECT gives; of that the first rows, if there is a limit."""
        tree, relation, scope = self._in_time_windows(tree, relation, scope)
        tree, relation, scope = in_sessions(tree, relation, scope, self._names)
        values: dict[str, Expr] = {}
        expressions: list[Expr] = []
        for item in tree.expressions:
            relation, replaced = self._subqueries.with_values(relation, scope, item, values, env)
            expressions.append(replaced)
        relation, found = self._items(expressions, relation, scope)
        items = [(name, filled(value, values)) for name, value in found]
        order = order_items(limit, scope, items) if limit is not None else []
        items = [*items, *order, *self._qualify(tree, scope, items)]
        by_groups = tree.args.get("group") is not None or any(has_aggregates(value) for _, value in items)
        if by_groups or tree.args.get("having") is not None:
            if values or any(map(is_row_maker, tree.expressions)):
                hint = "Put the groups into a query in FROM."
                raise refused(tree, "a subquery for a value, or rows made of a row, stand beside groups", hint)
            settle = self._settling(relation, scope)
            items = [(name, settle(value)) for name, value in items]
            groups = grouped(tree, relation, scope, items, self._names, self._joining(scope, env), settle)
            self._groups_of |= groups.groups
            relation, items = groups.relation, groups.items
        every = self._with_windows(tree, relation, items, scope)
        if limit is None:
            return every
        kept = tree.args.get("having") or tree.args.get("qualify")  # below them Spark finds no columns of FROM
        return self._first(every, limit, named_by_outputs if kept else partial(self._named_beside, scope))

    def _named_beside(self, scope: Scope, key: Sequence[str], shown: Shown) -> list[exp.Column] | None:
        """The key, which may be groups, as ORDER BY after SELECT can name it."""
        meant = {column: self._groups_of.get(column, col(column)) for column in key}
        columns = {column: value.name for column, value in meant.items() if isinstance(value, exp.Column)}
        return named_beside(columns, shown, scope) if len(columns) == len(meant) else None

    def _with_windows(self, tree: exp.Select, relation: Relation, items: Sequence[Item], scope: Scope) -> Lowered:
        """What window functions say of each row, and the rows that QUALIFY keeps: its condition is the last item."""
        made = windowed(relation, items, self._names.fresh)
        if made.relation is not relation and any(map(is_row_maker, tree.expressions)):
            hint = "Put explode into a query in FROM."
            raise refused(tree, "a window function stands beside a function that makes rows", hint)
        self.notices += made.notices
        self.orders |= {place_of(window): self._references(columns, scope) for window, columns in made.opened}
        if not tree.args.get("qualify"):
            return self._projected(made.relation, made.items)
        *shown, (_, condition) = made.items
        return self._projected(Filter(made.relation, condition), shown)

    def _qualify(self, tree: exp.Select, scope: Scope, items: Sequence[Item]) -> list[Item]:
        """The condition of QUALIFY, as one more item."""
        clause = tree.args.get("qualify")
        return [("", by_items(clause.this, scope, items, "QUALIFY", windows=True))] if clause is not None else []

    def _items(
        self, expressions: Sequence[Expr], relation: Relation, scope: Scope
    ) -> tuple[Relation, list[tuple[str, Expr]]]:
        """The items of SELECT, and the rows with what one of them makes of each."""
        items: list[tuple[str, Expr]] = []
        if len(list(filter(is_row_maker, expressions))) > 1:
            raise BadSql("two items of SELECT make rows of a row", hint="Put one of them into a query in FROM.")
        for item in expressions:
            if not is_row_maker(item):
                items += items_of([item], scope)
                continue
            call = expression_of(item.this if isinstance(item, exp.Alias | exp.Aliases) else item, scope)
            made = generated(call, _given(item), self._names)
            relation = made.over(relation)
            items += [(name, col(column)) for name, column in made.shown]
        return relation, items

    def _in_time_windows(
        self, tree: exp.Select, relation: Relation, scope: Scope
    ) -> tuple[exp.Select, Relation, Scope]:
        """The query with a column in place of window(ts, ...), which is called `window`, and the rows that have it."""
        calls = [node for node in tree.find_all(exp.Anonymous) if is_time_window(node) and select_of(node) is tree]
        if not calls:
            return tree, relation, scope
        relation, column = in_time_windows(relation, [expression_of(call, scope) for call in calls], self._names)
        tree = tree.copy()
        for call in [node for node in tree.find_all(exp.Anonymous) if is_time_window(node)]:
            if select_of(call) is tree:
                call.replace(exp.column(_WINDOW, table=_OF_WINDOW, quoted=True))
        source = Source(_OF_WINDOW, ((_WINDOW, column),), starred=False)
        return tree, relation, replace(scope, sources=(*scope.sources, source))

    def _settling(self, relation: Relation, scope: Scope) -> Callable[[Expr], Expr]:
        """Makes the choices that aggregates over the relation leave open, by its key, and keeps them in mind."""

        def choose(node: Expr) -> list[Expr]:
            key = relation.key if needs_key(node) else ()
            self.orders[place_of(node)] = self._references(key, scope)
            self.notices.append(f"{told(node, key)}.")
            return [col(column) for column in key]

        return lambda tree: with_choices(tree, choose)

    def _joining(self, scope: Scope, env: Env) -> Joining:
        """How subqueries of HAVING that stand for a value are joined with the groups."""
        return lambda groups, query, meant: self._subqueries.value(groups, scope, query, env, meant)

    def _references(self, columns: Sequence[str], scope: Scope) -> list[exp.Column] | None:
        """The columns, which may be groups, as the query itself can name them; None if it cannot name one of them."""
        meant = [self._groups_of.get(column, col(column)) for column in columns]
        sources = [(source.alias, source.columns) for source in scope.sources]
        found = [reference(value.name, sources) if isinstance(value, exp.Column) else None for value in meant]
        named = [column for column in found if column is not None]
        return named if len(named) == len(columns) else None

    def _projected(self, relation: Relation, items: Sequence[tuple[str, Expr]]) -> Lowered:
        """Columns go on under their names; what is computed gets a new one, and is computed once."""
        shown: list[tuple[str, str]] = []
        known: dict[Expr, str] = {}
        for name, value in items:
            if isinstance(value, exp.Column):
                shown.append((name, value.name))
                continue
            if value not in known:
                known[value] = self._names.fresh(name or "column")
            shown.append((name, known[value]))
        computed: list[Item] = [(column, value) for value, column in known.items()]
        if not computed:
            return Lowered(relation, tuple(shown))
        passed = dict.fromkeys([*relation.key, *(value.name for _, value in items if isinstance(value, exp.Column))])
        every: list[Item] = [*((column, col(column)) for column in passed), *computed]
        return Lowered(Project(relation, tuple(every), relation.key), tuple(shown))


def _renamed(shown: tuple[tuple[str, str], ...], alias: exp.Expr | None) -> tuple[tuple[str, str], ...]:
    """Under the names that an alias gives to the columns, if it does."""
    given = [column.name for column in alias.args.get("columns") or ()] if alias is not None else []
    if not given:
        return shown
    if len(given) != len(shown):
        raise BadSql(f"an alias has {len(given)} names for {len(shown)} columns", detail=", ".join(given))
    return tuple((name, column) for name, (_, column) in zip(given, shown, strict=True))


def _common(left: Sequence[Source], right: Source) -> list[str]:
    """The columns that both sides of a NATURAL JOIN have, in the order of the left one."""
    own = {shown.casefold() for shown, _ in right.columns if not shown.startswith(HIDDEN)}
    return [shown for shown, _ in Scope(tuple(left)).star() if shown.casefold() in own]


def _row(tree: Expr) -> list[Expr]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree.unnest()]


def _given(item: Expr) -> list[str]:
    """The names that the query has for what an item gives."""
    if isinstance(item, exp.Aliases):
        return [name.name for name in item.expressions]
    return [item.alias] if isinstance(item, exp.Alias) else []
