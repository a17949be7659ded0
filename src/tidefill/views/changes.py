"""How a change of the inputs changes a relation.

Rows of a relation can be had as of the old or of the new inputs, and its changes as rows with a weight: +1 for a row
that comes, -1 for a row that goes. The inputs are the tables `__tf_old_N`, `__tf_new_N` and `__tf_delta_N`, by the
number of the occurrence. What did not change has no term in the statement.

| relation | its changes |
|---|---|
| filter, project, union | those of the children, filtered, projected, put together |
| inner join | for each changed input: its changes with the others, old before it and new after it |
| left join, [NOT] EXISTS, [NOT] IN | if only the left one changed: its changes, joined; else affected rows, anew |
| aggregate | the affected groups: what they are, less what they were |
| window functions | the same of partitions: those that changed rows are in, or were in |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from sqlglot import exp

from tidefill.core.state import Occurrence
from tidefill.views import limits
from tidefill.views.keys import conjuncts, reads_only
from tidefill.views.limits import NOTHING_KNOWN, Reading, Tie, ties_of
from tidefill.views.relations import (
    Aggregate,
    Filter,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Scan,
    Union,
    Windowed,
    every,
    occurrences,
)
from tidefill.views.texts import (
    MARK,
    WEIGHT,
    Expr,
    Item,
    both,
    case,
    col,
    columns_in,
    joined,
    number,
    plain,
    same,
    select,
    stacked,
    table,
    text,
)
from tidefill.views.texts import name as name_of

At: TypeAlias = Literal["old", "new"]
WAS, IS = "__tf_was", "__tf_is"


@dataclass(frozen=True, slots=True)
class Stage:
    """A query that is computed once and kept under its name for those after it; or, if it asks for `limits`, whose one
    row gives the constants of these names."""

    name: str
    query: exp.Query
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Stages, in their order, then the last query."""

    stages: tuple[Stage, ...]
    last: exp.Query


class Statement:
    """A query in steps that have names."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, exp.Query]] = []
        self._stages: set[str] = set()
        self._limits: dict[str, tuple[str, ...]] = {}

    def step(self, hint: str, query: exp.Query, *, stage: bool = False) -> str:
        """The step's name. A `stage` is small and asked for more than once, so it is worth keeping."""
        name = f"__tf_{len(self._steps)}_{hint}"
        self._steps.append((name, query))
        if stage:
            self._stages.add(name)
        return name

    def limits(self, step: str, columns: Sequence[str], *, costly: bool) -> str:
        """The name under which the limits of these columns of a step are known. One that is `costly` is kept for it."""
        if costly:
            self._stages.add(step)
        name = self.step("limits", limits.asked(step, columns), stage=True)
        self._limits[name] = tuple(end for index in range(len(columns)) for end in limits.constants(name, index))
        return name

    def any_of(self, step: str) -> exp.Column:
        """A constant: whether the step has rows. What is asked only where it has is not even read if it has none."""
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number(0))
        name = self.step("limits", select([("__tf_any", some)], table(step)), stage=True)
        self._limits[name] = (f"{name}_any",)
        return col(f"{name}_any")

    def ending(self, query: exp.Query) -> exp.Query:
        """The whole as one query, with those steps that it needs."""
        return self._with(query, frozenset())[0]

    def script(self, query: exp.Query) -> Script:
        """The whole in stages."""
        last, needed = self._with(query, self._stages)
        stages: list[Stage] = []
        for name, step in reversed(self._steps):
            if name in self._stages and name in needed:
                stage, more = self._with(step.copy(), self._stages)
                stages.append(Stage(name, stage, self._limits.get(name, ())))
                needed |= more
        return Script(tuple(reversed(stages)), last)

    def _with(self, query: exp.Query, apart: Collection[str]) -> tuple[exp.Query, set[str]]:
        """The query with the steps that it needs, but for those that are kept apart; and the names of all."""
        needed = self._names(query)
        kept: list[tuple[str, exp.Query]] = []
        for name, step in reversed(self._steps):
            if name in needed and name not in apart:
                needed |= self._names(step)
                kept.append((name, step.copy()))
        if kept:
            ctes = [exp.CTE(this=step, alias=exp.TableAlias(this=name_of(name))) for name, step in reversed(kept)]
            query.set("with_", exp.With(expressions=ctes))
        return query, needed

    def _names(self, query: exp.Query) -> set[str]:
        """The steps that it reads, and those whose limits it says."""
        said = {column.name for column in query.find_all(exp.Column)} if self._limits else set()
        limited = {name for name, known in self._limits.items() if not said.isdisjoint(known)}
        return {found.name for found in query.find_all(exp.Table)} | limited


class Changes:
    """Writes the steps of one statement, for inputs of which only some changed."""

    def __init__(
        self, numbers: Mapping[Occurrence, int], changed: Collection[Occurrence], reading: Reading = NOTHING_KNOWN
    ) -> None:
        self.statement = Statement()
        self.reading = reading
        self._numbers = numbers
        self._changed = frozenset(changed)
        self._known: dict[tuple[int, str], str] = {}

    def has_changed(self, relation: Relation) -> bool:
        """Whether one of its inputs did."""
        return bool(occurrences(relation) & self._changed)

    def rows(self, relation: Relation, at: At) -> str:
        """The step with its rows."""
        at = at if self.has_changed(relation) else "new"
        return self._once(relation, at, lambda: self._rows(relation, at))

    def delta(self, relation: Relation) -> str:
        """The step with its changes, of which there are some."""
        assert self.has_changed(relation)
        return self._once(relation, "delta", lambda: self._delta(relation))

    def _once(self, relation: Relation, what: str, write: Callable[[], exp.Query]) -> str:
        known = self._known.get((id(relation), what))
        if known is None:
            known = self._known[id(relation), what] = self.statement.step(what, write())
        return known

    def near(self, relation: Relation, at: At, step: str, ties: Iterable[Tie], *, costly: bool = False) -> str:
        """The step with those of its rows that may be tied to rows of another step, as far as that spares reading."""
        rows, helpful = self.rows(relation, at), self.reading.helpful(ties)
        if not helpful:
            return rows
        columns = tuple(dict.fromkeys(tie.of_step for tie in helpful))
        known = self.statement.limits(step, columns, costly=costly)
        where = both(limits.within(col(tie.column), known, columns.index(tie.of_step)) for tie in helpful)
        return self.statement.step("near", self._from(relation.columns, rows, where=where))

    def near_affected(self, relation: Relation, at: At, affected: str, values: Sequence[Expr]) -> str:
        """The same of rows that have one of the affected values."""
        named = ((value, f"__tf_x{index}") for index, value in enumerate(values))
        ties = [Tie(value.name, name, value.name) for value, name in named if isinstance(value, exp.Column)]
        return self.near(relation, at, affected, ties)

    # Rows.

    def _rows(self, relation: Relation, at: At) -> exp.Query:
        match relation:
            case Scan():
                return select(_sources(relation), self._input(at, relation))
            case Filter():
                return self._from(relation.columns, self.rows(relation.child, at), where=relation.condition)
            case Project():
                return select(relation.items, table(self.rows(relation.child, at)))
            case InnerJoin():
                return self._inner(relation, [self.rows(part, at) for part in relation.inputs], 0)
            case LeftJoin() | Matched():
                return self._outer(relation, self.rows(relation.left, at), self.rows(relation.right, at))
            case Aggregate():
                return self.aggregated(relation, self.rows(relation.child, at))
            case Windowed():
                return self._windowed(relation, self.rows(relation.child, at))
            case Union():
                return stacked([self._from(relation.columns, self.rows(part, at)) for part in relation.children])
            case _:
                assert_never(relation)

    def _input(self, what: str, scan: Scan) -> exp.Table:
        return table(f"__tf_{what}_{self._numbers[scan.occurrence]}")

    def _from(
        self, columns: Sequence[str], step: str, *, where: Expr | None = None, weighted: bool = False
    ) -> exp.Select:
        return select([*plain(columns), *(_WEIGHTED if weighted else ())], table(step), where=where)

    def _inner(self, relation: InnerJoin, steps: Sequence[str], first: int, *, weighted: bool = False) -> exp.Select:
        """Beginning with one of the inputs, then always one that a condition ties to what is there."""
        query = select([*plain(relation.columns), *(_WEIGHTED if weighted else ())], table(steps[first]))
        left = [index for index in range(len(steps)) if index != first]
        known, waiting = set(relation.inputs[first].columns), list(relation.conditions)
        while left:
            index = next((index for index in left if _tied(relation.inputs[index], known, waiting)), left[0])
            left.remove(index)
            known |= set(relation.inputs[index].columns)
            now = [condition for condition in waiting if reads_only(condition, known)]
            waiting = [condition for condition in waiting if condition not in now]
            query = joined(query, table(steps[index]), "inner", both(now))
        assert not waiting, "a condition was never asked"
        return query

    def _outer(self, relation: LeftJoin | Matched, left: str, right: str, *, weighted: bool = False) -> exp.Select:
        query = self._from(relation.columns, left, weighted=weighted)
        match relation:
            case LeftJoin():
                kind = "left"
            case Matched():
                kind = "anti" if relation.negated else "semi"
        return joined(query, table(right), kind, relation.on)

    def aggregated(self, relation: Aggregate, child: str, affected: str | None = None) -> exp.Select:
        """The groups, or those of them that are affected."""
        items = (*relation.groups, *relation.aggregates)
        query = select(items, table(child), group=[value for _, value in relation.groups])
        if affected is not None and relation.groups:
            query = joined(query, table(affected), "semi", _matching([value for _, value in relation.groups]))
        return query

    def _windowed(self, relation: Windowed, child: str) -> exp.Select:
        return select([*plain(relation.child.columns), *relation.items], table(child))

    # Changes.

    def _delta(self, relation: Relation) -> exp.Query:
        match relation:
            case Scan():
                return select([*_sources(relation), *_WEIGHTED], self._input("delta", relation))
            case Filter():
                child = self.delta(relation.child)
                return self._from(relation.columns, child, where=relation.condition, weighted=True)
            case Project():
                return select([*relation.items, *_WEIGHTED], table(self.delta(relation.child)))
            case Union():
                return stacked([self._delta_of_part(part, relation.columns) for part in relation.children])
            case InnerJoin():
                return self._delta_of_inner(relation)
            case LeftJoin() | Matched():
                if not self.has_changed(relation.right):
                    left = self.delta(relation.left)
                    ties = ties_of(conjuncts(relation.on), relation.right.columns, relation.left.columns)
                    right = self.near(relation.right, "new", left, ties, costly=not is_simple(relation.left))
                    return self._outer(relation, left, right, weighted=True)
                return self._difference(relation, self._halves_of_outer(relation))
            case Aggregate():
                return self._difference(relation, self._halves_of_groups(relation))
            case Windowed():
                return self._difference(relation, self._halves_of_partitions(relation))
            case _:
                assert_never(relation)

    def _delta_of_part(self, part: Relation, columns: Sequence[str]) -> exp.Select:
        """Of a union. A part that did not change has no rows, but has its say in the types of the whole."""
        if self.has_changed(part):
            return self._from(columns, self.delta(part), weighted=True)
        return select([*plain(columns), (WEIGHT, number(1))], table(self.rows(part, "new")), where=exp.false())

    def _delta_of_inner(self, relation: InnerJoin) -> exp.Query:
        terms = []
        for first, part in enumerate(relation.inputs):
            if self.has_changed(part):
                delta, costly, steps = self.delta(part), not is_simple(part), []
                for index, other in enumerate(relation.inputs):
                    at: At = "old" if index < first else "new"
                    ties = ties_of(relation.conditions, other.columns, part.columns)
                    steps.append(delta if index == first else self.near(other, at, delta, ties, costly=costly))
                terms.append(self._inner(relation, steps, first, weighted=True))
        return stacked(terms)

    def _difference(self, relation: Relation, halves: Mapping[At, exp.Query]) -> exp.Query:
        """What the affected rows are, less what they were."""
        weights: Mapping[At, int] = {"new": 1, "old": -1}
        return stacked(
            [
                select(
                    [*plain(relation.columns), (WEIGHT, number(weights[at]))],
                    table(self.statement.step("half", half)),
                )
                for at, half in halves.items()
            ]
        )

    def _halves_of_outer(self, relation: LeftJoin | Matched) -> dict[At, exp.Query]:
        """The left rows that changed, and those that the changed right rows concern. Of the right one only what they
        concern is read, so that the large side of the join need not be moved."""
        left, right, on = relation.left, relation.right, relation.on
        keys = [col(column) for column in left.key]
        delta, equal = self.delta(right), conjuncts(on)
        ties = ties_of(equal, left.columns, right.columns)
        lefts_now = self.near(left, "new", delta, ties, costly=not is_simple(right))
        parts: list[exp.Query] = [joined(select(_affected(keys), table(lefts_now)), table(delta), "semi", on)]
        if self.has_changed(left):
            parts.append(select(_affected(keys), table(self.delta(left))))
        affected = self._distinct(stacked(parts), len(keys))
        halves: dict[At, exp.Query] = {}
        for at in _BOTH:
            lefts_at = self.near_affected(left, at, affected, keys)
            some = joined(self._from(left.columns, lefts_at), table(affected), "semi", _matching(keys))
            lefts = self.statement.step("some", some, stage=True)
            rights = self.near(right, at, lefts, ties_of(equal, right.columns, left.columns))
            of_right = joined(self._from(right.columns, rights), table(lefts), "semi", on)
            halves[at] = self._outer(relation, lefts, self.statement.step("some", of_right))
        return halves

    def _halves_of_groups(self, relation: Aggregate) -> dict[At, exp.Query]:
        affected = self.affected_groups(relation) if relation.groups else None
        return {at: self.groups_at(relation, at, affected) for at in _BOTH}

    def groups_at(self, relation: Aggregate, at: At, affected: str | None) -> exp.Select:
        """The affected groups, or the one row that is there without groups."""
        if affected is None:
            return self.aggregated(relation, self.rows(relation.child, at))
        values = [value for _, value in relation.groups]
        return self.aggregated(relation, self.near_affected(relation.child, at, affected, values), affected)

    def affected_groups(self, relation: Aggregate) -> str:
        """The step with the groups of all changed rows."""
        return self._affected_by(relation.child, [value for _, value in relation.groups])

    def _halves_of_partitions(self, relation: Windowed) -> dict[At, exp.Query]:
        child, values = relation.child, relation.partition
        affected = self._affected_by(child, values)
        halves: dict[At, exp.Query] = {}
        for at in _BOTH:
            rows = self.near_affected(child, at, affected, values)
            some = joined(self._from(child.columns, rows), table(affected), "semi", _matching(values))
            halves[at] = self._windowed(relation, self.statement.step("some", some))
        return halves

    def _affected_by(self, child: Relation, values: Sequence[Expr]) -> str:
        """The step with these values of all changed rows, of those that go and of those that come."""
        return self._distinct(select(_affected(values), table(self.delta(child))), len(values))

    def _distinct(self, query: exp.Query, columns: int) -> str:
        names = [f"__tf_x{index}" for index in range(columns)]
        every = self.statement.step("every", query)
        distinct = select(plain(names), table(every), group=[col(name) for name in names])
        return self.statement.step("affected", distinct, stage=True)

    # What the target has to do.

    def marked(self, columns: Sequence[str], key: Sequence[str], delta: str) -> exp.Query:
        """The changes of a relation as one row a key, to be inserted (I), updated (U) or deleted (D). A row that would
        come or go twice is marked X: its key is not one."""
        weight = exp.Sum(this=col(WEIGHT))
        net = self.statement.step("net", select(
            [*plain(columns), (WEIGHT, weight)], table(delta), group=[col(column) for column in columns],
            having=exp.NEQ(this=weight.copy(), expression=number(0)),
        ))  # fmt: skip
        sides = self.statement.step("sides", select(
            [*plain(columns), *_WEIGHTED, (IS, _over(key, _COMES)), (WAS, _over(key, _GOES))], table(net),
        ))  # fmt: skip
        odd = exp.GT(this=exp.Abs(this=col(WEIGHT)), expression=number(1))
        marks = case((odd, text("X")), (_GOES.copy(), text("D")), (_positive(WAS), text("U")), default=text("I"))
        where = exp.or_(_COMES.copy(), exp.EQ(this=col(IS), expression=number(0)))
        return select([*plain(columns), (MARK, marks)], table(sides), where=where)


_BOTH: tuple[At, At] = ("new", "old")
_WEIGHTED: tuple[Item, ...] = ((WEIGHT, col(WEIGHT)),)
_COMES = exp.GT(this=col(WEIGHT), expression=number(0))
_GOES = exp.LT(this=col(WEIGHT), expression=number(0))


def _positive(column: str) -> Expr:
    return exp.GT(this=col(column), expression=number(0))


def _over(key: Sequence[str], condition: Expr) -> Expr:
    """How many rows of the key fulfil the condition."""
    counted = exp.Sum(this=case((condition.copy(), number(1)), default=number(0)))
    return exp.Window(this=counted, partition_by=[col(column) for column in key])


def _sources(scan: Scan) -> list[Item]:
    return [(column, col(source)) for column, source in zip(scan.columns, scan.sources, strict=True)]


def _affected(values: Sequence[Expr]) -> list[Item]:
    return [(f"__tf_x{index}", value) for index, value in enumerate(values)]


def _matching(values: Sequence[Expr]) -> Expr:
    return both(same(value.copy(), col(f"__tf_x{index}")) for index, value in enumerate(values))


def is_simple(relation: Relation) -> bool:
    """Whether its changes are those of a table, row by row."""
    return all(isinstance(part, Scan | Filter | Project) for part in every(relation))


def _tied(relation: Relation, known: Collection[str], conditions: Sequence[Expr]) -> bool:
    """Whether a condition reads columns of both, and nothing else."""
    own = set(relation.columns)
    for condition in conditions:
        read = set(columns_in(condition))
        if read & own and read & set(known) and read <= own | set(known):
            return True
    return False
