"""A view as SQL that turns changes of its inputs into changes of itself.

`compile_view` takes the query apart and decides how it is kept up to date; the plan writes the statements. They read
`__tf_new_N`, `__tf_old_N` and `__tf_delta_N` for the occurrence N, and `__tf_target` for the view as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from sqlglot import exp

from tidefill.core.state import Occurrence
from tidefill.errors import QueryTooLarge, UnsupportedQuery
from tidefill.views.plan import sums, top
from tidefill.views.plan.changes import IS, WAS, Changes
from tidefill.views.plan.limits import NOTHING_KNOWN, Reading, origins, within
from tidefill.views.plan.shapes import is_simple
from tidefill.views.plan.statement import Script
from tidefill.views.plan.tail import with_tails
from tidefill.views.relations import windows
from tidefill.views.relations.choices import NOTHING_OPEN, Settled
from tidefill.views.relations.keys import is_plain
from tidefill.views.relations.lower import lower
from tidefill.views.relations.lowered import Lowered, TableColumns
from tidefill.views.relations.relations import (
    Aggregate,
    Filter,
    Project,
    Relation,
    Scan,
    Top,
    Windowed,
    every,
    narrowed,
    scans,
)
from tidefill.views.relations.texts import (
    HIDDEN,
    MARK,
    Expr,
    Item,
    both,
    case,
    col,
    is_null,
    joined,
    not_,
    number,
    plain,
    same,
    select,
    stacked,
    table,
    text,
)

TARGET = f"{HIDDEN}target"
_FEW_SCANS = 16  # of which the statements are never too large, if a table has not thousands of columns
Analyze = Callable[[exp.Query, Sequence[Scan]], Sequence[str]]
"""The types of the columns of a query over `__tf_new_N`, the tables of these scans, as Spark names them."""


class Strategy(Enum):
    """How changes of the inputs become changes of the view."""

    CHANGES = "changed rows are computed from changed rows"
    SUMS = "hidden counts and sums are kept"
    GROUPS = "affected groups are computed anew"
    PARTITIONS = "affected partitions are computed anew"
    TAIL = "what follows the first changed row in its order is computed anew"
    TOP = "the first rows are kept by the changed rows, and found anew if these do not suffice"
    TOP_ANEW = "the first rows are found anew"


@dataclass(frozen=True)
class ViewPlan:
    """`root` shows the user's `columns`, and under hidden names what else identifies a row. `kept`: the aggregates
    that hidden columns keep, for SUMS. `reason`: why nothing better is done. `settled`: the user's query with all that
    it leaves open settled as the plan does, for VERIFY."""

    root: Project
    columns: tuple[str, ...]
    strategy: Strategy
    kept: tuple[sums.Kept, ...] = ()
    reason: str = ""
    notices: tuple[str, ...] = ()
    settled: Settled = NOTHING_OPEN

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The occurrences of tables; their places are their numbers."""
        return tuple(scans(self.root))

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Columns of the target that the user does not see."""
        own = (column for column in self.root.columns if column not in self.columns)
        kept = (hidden.column for hidden in self._hidden) if self.strategy is Strategy.SUMS else ()
        return (*own, *kept)

    @property
    def key(self) -> tuple[str, ...]:
        return self.root.key

    @property
    def adds_up(self) -> bool:
        """Whether the last digits of floating-point outputs may depend on the order of the rows."""
        return any(isinstance(part, Aggregate | Windowed) for part in every(self.root))

    @property
    def reads_target(self) -> bool:
        """Whether the view as it is has a part in its changes."""
        return self.strategy in (Strategy.SUMS, Strategy.GROUPS, Strategy.TOP, Strategy.TOP_ANEW)

    @property
    def reads_changes_once(self) -> bool:
        """Whether the statements read the changes of each input once, if the target is small: sums over a table."""
        return self.strategy is Strategy.SUMS and is_simple(self._aggregate.child)

    def whole(self) -> exp.Query:
        """All of the view from `__tf_new_N`."""
        changes = self._changes(())
        if self.strategy is not Strategy.SUMS:
            columns = (*self.columns, *self.hidden)
            return changes.statement.ending(select(plain(columns), table(changes.rows(self.root, "new"))))
        groups = changes.statement.step(
            "groups", self._with_hidden(changes, changes.rows(self._aggregate.child, "new"))
        )
        return changes.statement.ending(select(self._outputs(), table(groups)))

    def changes(self, changed: Collection[Occurrence], reading: Reading = NOTHING_KNOWN) -> Script:
        """The columns and the mark of what the changes of these inputs do to the view."""
        changes = self._changes(changed, replace(reading, origin=self._origins))
        match self.strategy:
            case Strategy.CHANGES | Strategy.PARTITIONS | Strategy.TAIL:
                query = changes.marked(self.root.columns, self.key, changes.delta(self.root))
            case Strategy.SUMS:
                query = self._sums(changes)
            case Strategy.GROUPS:
                query = self._groups(changes)
            case Strategy.TOP | Strategy.TOP_ANEW:
                kept = top.kept if self.strategy is Strategy.TOP else top.found_anew
                delta = changes.statement.step("delta", kept(changes, self.root, TARGET))
                query = changes.marked(self.root.columns, self.key, delta)
        return changes.statement.script(query)

    @cached_property
    def _origins(self) -> dict[str, str]:
        return origins(self.root)

    def _changes(self, changed: Collection[Occurrence], reading: Reading = NOTHING_KNOWN) -> Changes:
        return Changes({scan.occurrence: index for index, scan in enumerate(self.scans)}, changed, reading)

    # Hidden counts and sums.

    @property
    def _aggregate(self) -> Aggregate:
        found = _last_aggregate(self.root)
        assert found is not None, "only a view by groups has groups"
        return found

    @cached_property
    def _hidden(self) -> list[sums.Hidden]:
        return sums.hidden_of(self.kept)

    def _with_hidden(self, changes: Changes, child: str, affected: str | None = None) -> exp.Select:
        hidden = tuple((one.column, one.over_rows) for one in self._hidden)
        return changes.aggregated(replace(self._aggregate, aggregates=hidden), child, affected)

    def _outputs(self) -> list[Item]:
        """The view's columns from groups and hidden columns."""
        results = sums.results(self.kept)
        shown = [(column, _replaced(value, results)) for column, value in self.root.items]
        return [*shown, *((one.column, col(one.column)) for one in self._hidden)]

    def _sums(self, changes: Changes) -> exp.Query:
        aggregate, step = self._aggregate, changes.statement.step
        groups = [column for column, _ in aggregate.groups]
        added = [(one.column, one.over_changes) for one in self._hidden] + sums.taken_of(self.kept)
        changed = changes.aggregated(replace(aggregate, aggregates=tuple(added)), changes.delta(aggregate.child))
        change = step("change", changed, stage=not changes.reading.small_target)
        extremes = any(one.extreme for one in self.kept)
        before = step("before", self._before(changes, groups, change))
        after = step("after", self._after(groups, before, change), stage=extremes)
        columns = [*groups, *(one.column for one in self._hidden), WAS]
        sources = [select(plain(columns), table(after), where=not_(col("__tf_lost")))]
        if extremes:
            sources += self._anew(changes, groups, columns, after)
        every = step("every", stacked(sources))
        return select(
            [*self._outputs(), (MARK, _mark_of_count(bool(groups)))], table(every), where=_is_something(bool(groups))
        )

    def _before(self, changes: Changes, groups: Sequence[str], change: str) -> exp.Query:
        """What the target has of the changed groups, or all that it has, if that is little. The target of a large table
        may be large too."""
        columns = [f"{HIDDEN}k{index}" for index, _ in enumerate(groups)]
        keys = list(zip(columns, map(col, self.key), strict=True)) if groups else []
        hidden = [(one.column, col(one.column, "t")) for one in self._hidden]
        query = select([*((name, col(key.name, "t")) for name, key in keys), *hidden], table(TARGET, "t"))
        if not groups or changes.reading.small_target:
            return query
        pairs = [(col(key.name, "t"), group) for (_, key), group in zip(keys, groups, strict=True)]
        known = [group for group in groups if changes.reading.large and changes.reading.comparable(group, group)]
        if known:
            ends = changes.statement.limits(change, known, costly=False)
            where = [within(key, ends[group]) for key, group in pairs if group in known]
            query = query.where(*where, copy=False)
        on = both(same(key, col(group, "d")) for key, group in pairs)
        return joined(query, table(change, "d"), "semi", on)

    @property
    def _lost(self) -> Expr:
        return sums.lost(self.kept, "t", "d", netted=is_simple(self._aggregate.child))

    def _after(self, groups: Sequence[str], before: str, change: str) -> exp.Query:
        """The groups as they are now, without those for which nothing changed."""
        items: list[Item] = [(group, col(group, "d")) for group in groups]
        merged = [(one.column, sums.together(one, col(one.column, "t"), col(one.column, "d"))) for one in self._hidden]
        items += [*merged, (WAS, not_(is_null(col(sums.ROWS, "t")))), ("__tf_lost", self._lost)]
        on = both(same(col(f"{HIDDEN}k{index}", "t"), col(group, "d")) for index, group in enumerate(groups))
        unchanged = both(
            same(col(one.column, "t"), value.copy()) for one, (_, value) in zip(self._hidden, merged, strict=True)
        )
        where = exp.or_(not_(unchanged), self._lost)
        return joined(select(items, table(change, "d"), where=where), table(before, "t"), "left", on)

    def _anew(self, changes: Changes, groups: Sequence[str], columns: Sequence[str], after: str) -> list[exp.Select]:
        """Groups that lost an extreme: computed from all of their rows, or gone. They need not have been there: a row
        that comes and goes within a step may have been in none."""
        step, aggregate = changes.statement.step, self._aggregate
        lost = col("__tf_lost")
        some = exp.GT(this=col(sums.ROWS), expression=number(0))
        named: list[Item] = [(f"__tf_x{index}", col(group)) for index, group in enumerate(groups)]
        which = both([lost, some] if groups else [lost])
        anew = step("anew", select([*named, (WAS, col(WAS))], table(after), where=which))
        values = [value for _, value in aggregate.groups]
        child = changes.near_affected(aggregate.child, "new", anew, values)
        if changes.reading.large:
            some_rows = select(plain(aggregate.child.columns), table(child), where=changes.statement.any_of(anew))
            child = step("some", some_rows)
        groups_anew = step("groups", self._with_hidden(changes, child, anew))
        on = both(same(col(group), col(name)) for group, (name, _) in zip(groups, named, strict=True))
        again = joined(select(plain(columns), table(groups_anew)), table(anew), "inner", on)
        if not groups:
            return [again]
        return [again, select(plain(columns), table(after), where=both([lost, not_(some)]))]

    # Affected groups, computed anew.

    def _groups(self, changes: Changes) -> exp.Query:
        aggregate, step = self._aggregate, changes.statement.step
        affected = changes.affected_groups(aggregate) if aggregate.groups else None
        source = step("anew", changes.groups_now(aggregate, affected))
        where = self.root.child.condition if isinstance(self.root.child, Filter) else None
        now = step("now", select([*self.root.items, (IS, exp.true())], table(source), where=where))
        columns = self.root.columns
        before = select([*((column, col(column, "t")) for column in columns), (WAS, exp.true())], table(TARGET, "t"))
        if affected is not None:
            keys = enumerate(self.key)
            on = both(same(col(key, "t"), col(f"__tf_x{index}", "a")) for index, key in keys)
            before = joined(before, table(affected, "a"), "semi", on)
        return self._compared(columns, now, step("before", before))

    def _compared(self, columns: Sequence[str], now: str, before: str) -> exp.Query:
        is_now, was = not_(is_null(col(IS, "n"))), not_(is_null(col(WAS, "t")))
        items = [(column, case((is_now.copy(), col(column, "n")), default=col(column, "t"))) for column in columns]
        mark = case((both([is_now, was]), text("U")), (is_now.copy(), text("I")), default=text("D"))
        equal = both([is_now, was, *(same(col(column, "n"), col(column, "t")) for column in columns)])
        on = both(same(col(key, "n"), col(key, "t")) for key in self.key)
        query = select([*items, (MARK, mark)], table(now, "n"), where=not_(equal))
        return joined(query, table(before, "t"), "full", on)


def compile_view(
    tree: exp.Expr,
    find: Callable[[tuple[str, ...]], TableColumns],
    names: Sequence[str],
    analyze: Analyze,
) -> ViewPlan:
    """The plan of a query whose output columns have these names. Raises BadSql or UnsupportedQuery."""
    try:
        plan = _planned(tree, find, names, analyze)
        if len(plan.scans) > _FEW_SCANS:
            plan.changes([scan.occurrence for scan in plan.scans])  # QueryTooLarge now, and not at the first step
    except RecursionError:
        hint = "Split it into several views that read each other, or use WITH (refresh = full)."
        raise QueryTooLarge("the query is nested too deeply", hint=hint) from None
    return plan


def _planned(
    tree: exp.Expr,
    find: Callable[[tuple[str, ...]], TableColumns],
    names: Sequence[str],
    analyze: Analyze,
) -> ViewPlan:
    lowered, told = lower(tree, find)
    if not any(scans(lowered.relation)):
        raise UnsupportedQuery("the query reads no table", hint="Name a table after FROM.")
    root = narrowed(_root(lowered, names))
    assert isinstance(root, Project)
    root = _with_tails(root, analyze)
    strategy, reason = _of_windows(root)
    plan = ViewPlan(root, tuple(names), strategy, reason=reason, notices=told.notices, settled=told.settled)
    child = _last_aggregate(root)
    for inner in _inner(root):
        _refuse_inexact(inner, plan, analyze)
    if isinstance(root.child, Top):
        return _of_first_rows(plan, analyze)
    if child is None:
        return plan
    if isinstance(root.child, Filter):
        return replace(plan, strategy=Strategy.GROUPS, reason="a condition looks at the whole group")
    kept, other = sums.kept_of(child.aggregates)
    if other:
        return replace(plan, strategy=Strategy.GROUPS, reason=f"{other} cannot be added to")
    kept = _typed(kept, child, plan, analyze)
    for reason in filter(None, map(sums.refusal_of, kept)):
        return replace(plan, strategy=Strategy.GROUPS, reason=reason)
    return replace(plan, strategy=Strategy.SUMS, kept=kept)


def _with_tails(root: Project, analyze: Analyze) -> Project:
    """The view, in which windows over all rows say whether they need be computed from the first changed row on only."""
    bare = ViewPlan(root, (), Strategy.CHANGES)

    def types(relation: Windowed, values: Sequence[Expr]) -> Sequence[str]:
        changes = bare._changes(())
        items = [(f"{HIDDEN}{index}", value) for index, value in enumerate(values)]
        query = select(items, table(changes.rows(relation, "new")))
        return analyze(changes.statement.ending(query), bare.scans)

    found = with_tails(root, types)
    assert isinstance(found, Project)
    return found


def _of_windows(root: Project) -> tuple[Strategy, str]:
    """How a view is kept that has neither LIMIT nor an aggregate at its top, and why."""
    found = [part for part in every(root) if isinstance(part, Windowed | Top)]
    if not found:
        return Strategy.CHANGES, ""
    reason = next(filter(None, map(_all_are_one, found)), "")
    if not reason and any(isinstance(part, Windowed) and part.types for part in found):
        return Strategy.TAIL, "a window has no PARTITION BY"
    return Strategy.PARTITIONS, reason


def _all_are_one(relation: Windowed | Top) -> str:
    """Why it looks at all rows; empty if it does not."""
    if isinstance(relation, Top):
        return "LIMIT is below another part of the query, so that all rows are one"
    whole = "a window has no PARTITION BY and looks at rows far after a row, so that all rows are one"
    return "" if relation.partition or relation.types else whole


def _of_first_rows(plan: ViewPlan, analyze: Analyze) -> ViewPlan:
    """The plan of a query that ends in LIMIT."""
    reason, root = top.why_anew(plan.root), top.with_order(plan.root)
    if not reason:
        changes = plan._changes(())
        order = [(column, value) for column, value in root.items if column not in plan.root.columns]
        query = select(order, table(changes.rows(root.child, "new")))
        kinds = analyze(changes.statement.ending(query), plan.scans) if order else ()
        if not all(map(is_plain, kinds)):
            reason = "what it is ordered by cannot be kept in a hidden column"
    plan = replace(plan, notices=(*plan.notices, *top.notices(plan.root)))
    if reason:
        return replace(plan, strategy=Strategy.TOP_ANEW, reason=reason)
    return replace(plan, root=root, strategy=Strategy.TOP, reason="")


def _last_aggregate(root: Project) -> Aggregate | None:
    """The one that the outputs are made from, perhaps after HAVING."""
    child = root.child.child if isinstance(root.child, Filter) else root.child
    return child if isinstance(child, Aggregate) else None


def _inner(root: Project) -> Iterator[Aggregate | Windowed]:
    """Those whose results are not just shown."""
    last: set[Relation | None] = {_last_aggregate(root)}
    relation = root.child
    while isinstance(relation, Windowed):
        last.add(relation)
        relation = relation.child
    yield from (part for part in every(root) if isinstance(part, Aggregate | Windowed) and part not in last)


def _typed(kept: Sequence[sums.Kept], aggregate: Aggregate, plan: ViewPlan, analyze: Analyze) -> tuple[sums.Kept, ...]:
    if not kept:
        return ()
    changes = plan._changes(())
    arguments = select([(one.column, one.argument) for one in kept], table(changes.rows(aggregate.child, "new")))
    kinds = analyze(changes.statement.ending(arguments), plan.scans)
    changes = plan._changes(())
    every = changes.aggregated(aggregate, changes.rows(aggregate.child, "new"))
    found = analyze(changes.statement.ending(every), plan.scans)[len(aggregate.groups) :]
    return tuple(replace(one, kind=kind, result=result) for one, kind, result in zip(kept, kinds, found, strict=True))


def _refuse_inexact(inner: Aggregate | Windowed, plan: ViewPlan, analyze: Analyze) -> None:
    """What lies above it would depend on the last digits of a sum, which another order of the rows changes."""
    calls = inner.aggregates if isinstance(inner, Aggregate) else windows.sums_of(inner)
    items = [(column, added) for column, value in calls if (added := sums.added_up(value)) is not None]
    if not items:
        return
    changes = plan._changes(())
    query = select(items, table(changes.rows(inner.child, "new")))
    kinds = analyze(changes.statement.ending(query), plan.scans)
    for (_, value), kind in zip(items, kinds, strict=True):
        if kind in ("float", "double"):
            raise UnsupportedQuery(
                "an aggregate of floating-point numbers stands below another part of the query",
                detail=value.sql(dialect="spark"),
                hint="Cast what it adds up to a decimal: sum(CAST(x AS decimal(20, 4))).",
            )


def _root(lowered: Lowered, names: Sequence[str]) -> Project:
    """The user's columns, and under hidden names the rest of the key, straight over the last aggregate if there is
    one."""
    relation, shown = lowered.relation, [column for _, column in lowered.shown]
    items: list[Item] = [(name, col(column)) for name, column in zip(names, shown, strict=True)]
    key: list[str] = []
    for index, column in enumerate(relation.key):
        given = next((name for name, inner in zip(names, shown, strict=True) if inner == column), None)
        key.append(given or f"{HIDDEN}key{index}")
        if given is None:
            items.append((key[-1], col(column)))
    while isinstance(relation, Project):
        values = dict(relation.items)
        items = [(name, _replaced(value, values)) for name, value in items]
        relation = relation.child
    return Project(relation, tuple(items), tuple(key))


def _replaced(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with others in place of columns."""

    def other(node: exp.Expr) -> exp.Expr:
        value = values.get(node.name) if isinstance(node, exp.Column) else None
        if value is None:
            return node
        return value.copy() if isinstance(value, exp.Column) else exp.paren(value)

    return tree.copy().transform(other)


def _mark_of_count(grouped: bool) -> Expr:
    """A group of no rows goes; one of fewer cannot be. The one row of an aggregate without groups stays."""
    rows = col(sums.ROWS)
    marks: list[tuple[Expr, Expr]] = [(exp.LT(this=rows.copy(), expression=number(0)), text("X"))]
    if grouped:
        marks.append((exp.EQ(this=rows.copy(), expression=number(0)), text("D")))
    return case(*marks, (col(WAS), text("U")), default=text("I"))


def _is_something(grouped: bool) -> Expr | None:
    """Not a group that came and went."""
    return exp.or_(col(WAS), exp.NEQ(this=col(sums.ROWS), expression=number(0))) if grouped else None
