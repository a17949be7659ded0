"""How a change of the inputs changes a relation.

Rows of a relation can be had as of the old or of the new inputs, and its changes as rows with a weight: +1 for a row
that comes, -1 for a row that goes. The inputs are the tables `__tf_old_N`, `__tf_new_N` and `__tf_delta_N`, by the
number of the occurrence. What did not change has no term in the statement.

| relation | its changes |
|---|---|
| filter, project, union | those of the children, filtered, projected, put together |
| inner join | for each changed input: its changes with the others, old before it and new after it |
| left join, [NOT] EXISTS, [NOT] IN | changed left rows, with what the right one was; and left rows that changed right |
| | rows concern: what they give now, less what they gave |
| full join | those of the left join, and those of the right rows that match nothing |
| aggregate | the affected groups: what they are, less what they were |
| window functions | the same of partitions: those that changed rows are in, or were in |
| the same without PARTITION BY | of the rows from the first changed one on (`tail.py`), or of all |
| the first rows (LIMIT) | what they are, less what they were (`top.py` has another rule for the top of a view) |
| rows made of a row (explode) | those of the child, each with what is made of it |

What is needed is read once. Inputs that did not change are joined to the changes of all others together. And what rows
were follows from what they are, if the changes tell by the key which ones came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, assert_never

from sqlglot import exp

from tidefill.core.state import Occurrence
from tidefill.views.plan import limits
from tidefill.views.plan.limits import NOTHING_KNOWN, Reading, Tie, ties_of
from tidefill.views.plan.shapes import hang_together, is_simple, tells_by_key, tied
from tidefill.views.plan.statement import Statement
from tidefill.views.plan.tail import apart, delta_of_tail
from tidefill.views.relations.keys import conjuncts, equated, reads_only
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
    occurrences,
)
from tidefill.views.relations.texts import (
    MARK,
    WEIGHT,
    Expr,
    Item,
    both,
    case,
    col,
    constants,
    first_rows,
    generating,
    is_null,
    joined,
    number,
    plain,
    same,
    select,
    stacked,
    table,
    text,
)

At: TypeAlias = Literal["old", "new"]
WAS, IS = "__tf_was", "__tf_is"
THEN, AT = "__tf_then", "__tf_at"
"""+1 for now, -1 for before: with which rows of the right side a row of the left one belongs."""


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
        self._parts: dict[int, tuple[LeftJoin, Matched]] = {}

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
        ends = self.statement.limits(step, columns, costly=costly)
        where = both(limits.within(col(tie.column), ends[tie.of_step]) for tie in helpful)
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
            case Constant():
                return select(plain(relation.columns), constants(relation.columns, relation.rows))
            case Generated():
                made = self._from(relation.child.columns, self.rows(relation.child, at))
                return generating(made, relation.call, relation.outputs)
            case InnerJoin():
                return self._inner(relation, [self.rows(part, at) for part in relation.inputs], 0)
            case LeftJoin() | Matched():
                return self._outer(relation, self.rows(relation.left, at), self.rows(relation.right, at))
            case FullJoin():
                return self._full(relation, at)
            case Aggregate():
                return self.aggregated(relation, self.rows(relation.child, at))
            case Windowed():
                return self._windowed(relation, self.rows(relation.child, at))
            case Top():
                return self.top(relation, self.rows(relation.child, at))
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
        """Beginning with one of the inputs, then always one that a condition ties to what is there. Large ones come
        first: of few changes Spark knows that they are few, of a join of them not."""
        query = select([*plain(relation.columns), *(_WEIGHTED if weighted else ())], table(steps[first]))
        left = sorted(set(range(len(steps))) - {first}, key=lambda index: not self._is_large(relation.inputs[index]))
        known, waiting = set(relation.inputs[first].columns), list(relation.conditions)
        while left:
            index = next((index for index in left if tied(relation.inputs[index], known, waiting)), left[0])
            left.remove(index)
            known |= set(relation.inputs[index].columns)
            now = [condition for condition in waiting if reads_only(condition, known)]
            waiting = [condition for condition in waiting if condition not in now]
            query = joined(query, table(steps[index]), "inner", both(now))
        assert not waiting, "a condition was never asked"
        return query

    def _is_large(self, relation: Relation) -> bool:
        return any(column in self.reading.large for column in relation.columns)

    def _outer(
        self, relation: LeftJoin | Matched, left: str, right: str, *, also: Sequence[Expr] = (), weighted: bool = False
    ) -> exp.Select:
        query = self._from(relation.columns, left, weighted=weighted)
        match relation:
            case LeftJoin():
                kind = "left"
            case Matched():
                kind = "anti" if relation.negated else "semi"
        return joined(query, table(right), kind, both([relation.on, *also]) if also else relation.on)

    def _full(self, relation: FullJoin, at: At) -> exp.Select:
        """By Spark's own FULL JOIN: two queries of it would double with each FULL JOIN below."""
        marked = select([*plain(relation.left.columns), (WAS, exp.true())], table(self.rows(relation.left, at)))
        tag = case((is_null(col(WAS)), number(1)), default=number(0))
        query = select([(relation.tag, tag), *plain(relation.columns[1:])], table(self.statement.step("left", marked)))
        return joined(query, table(self.rows(relation.right, at)), "full", relation.on)

    def aggregated(self, relation: Aggregate, child: str, affected: str | None = None) -> exp.Select:
        """The groups, or those of them that are affected."""
        items = (*relation.groups, *relation.aggregates)
        query = select(items, table(child), group=[value for _, value in relation.groups])
        if affected is not None and relation.groups:
            query = joined(query, table(affected), "semi", _matching([value for _, value in relation.groups]))
        return query

    def _windowed(self, relation: Windowed, child: str) -> exp.Select:
        return select([*plain(relation.child.columns), *relation.items], table(child))

    def top(self, relation: Top, child: str) -> exp.Select:
        """The first rows of a step."""
        return first_rows(self._from(relation.columns, child), relation.order, relation.rows, relation.skipped)

    # Changes.

    def _delta(self, relation: Relation) -> exp.Query:
        match relation:
            case Scan():
                return select([*_sources(relation), *_WEIGHTED], self._input("delta", relation))
            case Filter():
                child = self.delta(relation.child)
                return self._from(relation.columns, child, where=relation.condition, weighted=True)
            case Constant():
                raise AssertionError("it never changes")
            case Project():
                return select([*relation.items, *_WEIGHTED], table(self.delta(relation.child)))
            case Generated():
                made = self._from(relation.child.columns, self.delta(relation.child), weighted=True)
                return generating(made, relation.call, relation.outputs)
            case Union():
                return stacked([self._delta_of_part(part, relation.columns) for part in relation.children])
            case InnerJoin():
                return self._delta_of_inner(relation)
            case LeftJoin() | Matched():
                if self.has_changed(relation.right):
                    return self._delta_of_outer(relation)
                left = self.delta(relation.left)
                ties = ties_of(conjuncts(relation.on), relation.right.columns, relation.left.columns)
                right = self.near(relation.right, "new", left, ties, costly=not is_simple(relation.left))
                return self._outer(relation, left, right, weighted=True)
            case FullJoin():
                return self._delta_of_full(relation)
            case Aggregate():
                return self._delta_of_groups(relation) if relation.groups else self._delta_of_one(relation)
            case Windowed():
                return self._delta_of_partitions(relation)
            case Top():
                return self._halves(relation, lambda at: self.top(relation, self.rows(relation.child, at)))
            case _:
                assert_never(relation)

    def _delta_of_part(self, part: Relation, columns: Sequence[str]) -> exp.Select:
        """Of a union. A part that did not change has no rows, but has its say in the types of the whole."""
        if self.has_changed(part):
            return self._from(columns, self.delta(part), weighted=True)
        return select([*plain(columns), (WEIGHT, number(1))], table(self.rows(part, "new")), where=exp.false())

    def _delta_of_inner(self, relation: InnerJoin) -> exp.Query:
        """Where those that changed are tied to each other, their changes together are joined to the others."""
        changed = tuple(part for part in relation.inputs if self.has_changed(part))
        others = tuple(part for part in relation.inputs if part not in changed)
        equal = [condition for condition in relation.conditions if equated(condition) is not None]
        if len(changed) < 2 or not others or not hang_together(changed, equal):
            return self._terms(relation)
        known = {column for part in changed for column in part.columns}
        own = tuple(condition for condition in relation.conditions if reads_only(condition, known))
        rest = tuple(condition for condition in relation.conditions if condition not in own)
        first = InnerJoin(changed, own, ())
        delta = self.statement.step("delta", self._terms(first), stage=bool(self.reading.large))
        steps = [delta]
        for other in others:
            ties = ties_of(relation.conditions, other.columns, first.columns)
            steps.append(self.near(other, "new", delta, ties))
        whole = self._inner(InnerJoin((first, *others), rest, relation.key), steps, 0, weighted=True)
        return self._from(relation.columns, self.statement.step("joined", whole), weighted=True)

    def _terms(self, relation: InnerJoin) -> exp.Query:
        """For each changed input: its changes with the others."""
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

    def _delta_of_outer(self, relation: LeftJoin | Matched) -> exp.Query:
        """Every left row has its own rows of the result, so the changes of the left one are joined to what the right
        one was, and those of the right one concern left rows that are there now. Of the right one only what all these
        may meet is read, so that the large side of the join need not be moved."""
        left, right, on, step = relation.left, relation.right, relation.on, self.statement.step
        equal, delta = conjuncts(on), self.kept_delta(relation.right)
        lefts = self.near(left, "new", delta, ties_of(equal, left.columns, right.columns))
        concerned = joined(self._from(left.columns, lefts), table(delta), "semi", on)
        some = self._twice(left.columns, step("some", concerned))
        asking = [select([*plain(left.columns), (THEN, col(WEIGHT)), *_WEIGHTED], table(step("twice", some)))]
        if self.has_changed(left):
            before = [*plain(left.columns), (THEN, _MET), *_WEIGHTED]
            asking.append(select(before, table(self.delta(left))))
        asked = step("asked", stacked(asking), stage=True)

        def met(at: At) -> exp.Select:
            rights = self.near(right, at, asked, ties_of(equal, right.columns, left.columns))
            return joined(self._from(right.columns, rights), table(asked), "semi", on)

        rights = self.now_and_before(right, met)
        answers = step("answers", select([*plain(right.columns), (AT, col(WEIGHT))], table(rights)))
        return self._outer(relation, asked, answers, also=[exp.EQ(this=col(THEN), expression=col(AT))], weighted=True)

    def _delta_of_full(self, relation: FullJoin) -> exp.Query:
        if id(relation) not in self._parts:
            left, right, on = relation.left, relation.right, relation.on
            self._parts[id(relation)] = LeftJoin(left, right, on, ()), Matched(right, left, on, negated=True)
        matched, alone = self._parts[id(relation)]
        nulls = dict(relation.nulls)
        first = [(relation.tag, number(0)), *plain(matched.columns), *_WEIGHTED]
        second = [(column, nulls[column]) for column in relation.left.columns]
        second = [(relation.tag, number(1)), *second, *plain(alone.columns), *_WEIGHTED]
        return stacked([select(first, table(self.delta(matched))), select(second, table(self.delta(alone)))])

    def _delta_of_one(self, relation: Aggregate) -> exp.Query:
        """Without groups there is one row, also of nothing."""
        return self._halves(relation, lambda at: self.aggregated(relation, self.rows(relation.child, at)))

    def _halves(self, relation: Relation, rows: Callable[[At], exp.Select]) -> exp.Query:
        """What rows are, with weight +1, and what they were, with weight -1, each computed by itself."""
        halves = {at: self.statement.step("half", rows(at)) for at in _AT}
        return stacked(
            [select([*plain(relation.columns), (WEIGHT, _AT[at])], table(half)) for at, half in halves.items()]
        )

    def _delta_of_groups(self, relation: Aggregate) -> exp.Query:
        values = [value for _, value in relation.groups]
        rows = self._of_affected(relation.child, values)
        items = (*relation.groups, *relation.aggregates, *_WEIGHTED)
        return select(items, table(rows), group=[*values, col(WEIGHT)])

    def _delta_of_partitions(self, relation: Windowed) -> exp.Query:
        if relation.types:
            return delta_of_tail(self, relation)
        if not relation.partition:
            return self._halves(relation, lambda at: self._windowed(relation, self.rows(relation.child, at)))
        rows = self._of_affected(relation.child, relation.partition)
        items = [(column, apart(value)) for column, value in relation.items]
        return select([*plain(relation.child.columns), *items, *_WEIGHTED], table(rows))

    def groups_now(self, relation: Aggregate, affected: str | None) -> exp.Select:
        """The affected groups, or the one row that is there without groups."""
        if affected is None:
            return self.aggregated(relation, self.rows(relation.child, "new"))
        values = [value for _, value in relation.groups]
        return self.aggregated(relation, self.near_affected(relation.child, "new", affected, values), affected)

    def affected_groups(self, relation: Aggregate) -> str:
        """The step with the groups of all changed rows."""
        return self._affected_by(relation.child, [value for _, value in relation.groups])

    def _of_affected(self, child: Relation, values: Sequence[Expr]) -> str:
        """The step with the rows that have such values of these as changed rows have, now and before."""
        affected = self._affected_by(child, values)

        def rows(at: At) -> exp.Select:
            near = self.near_affected(child, at, affected, values)
            return joined(self._from(child.columns, near), table(affected), "semi", _matching(values))

        return self.now_and_before(child, rows)

    def now_and_before(self, relation: Relation, rows: Callable[[At], exp.Select]) -> str:
        """The step with some rows, perhaps with others that changed: as they are, with weight +1, and as they were,
        with weight -1. Where changes tell by the key what came, all others were there before."""
        step = self.statement.step
        if not tells_by_key(relation):
            return step("sides", self._halves(relation, rows))
        delta, keys = self.kept_delta(relation), [col(column) for column in relation.key]
        came = step("came", select(_affected(keys), table(delta), where=_came()))
        now = self._from(relation.columns, step("now", rows("new")))
        stayed = self._twice(relation.columns, step("stayed", joined(now, table(came), "anti", _matching(keys))))
        return step("sides", stacked([stayed, self._from(relation.columns, delta, weighted=True)]))

    def _twice(self, columns: Sequence[str], rows: str) -> exp.Select:
        """Rows that are there now as they were before."""
        signs = stacked([exp.Select(expressions=[exp.alias_(sign.copy(), WEIGHT)]) for sign in _AT.values()])
        return joined(
            self._from(columns, rows, weighted=True), table(self.statement.step("signs", signs)), "inner", exp.true()
        )

    def kept_delta(self, relation: Relation) -> str:
        delta = self.delta(relation)
        return delta if is_simple(relation) else self.statement.keep(delta)

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
        net = self.statement.step("net", self.netted(columns, delta))
        sides = self.statement.step("sides", select(
            [*plain(columns), *_WEIGHTED, (IS, _over(key, _COMES)), (WAS, _over(key, _GOES))], table(net),
        ))  # fmt: skip
        odd = exp.GT(this=exp.Abs(this=col(WEIGHT)), expression=number(1))
        marks = case((odd, text("X")), (_GOES.copy(), text("D")), (_positive(WAS), text("U")), default=text("I"))
        where = exp.or_(_COMES.copy(), exp.EQ(this=col(IS), expression=number(0)))
        return select([*plain(columns), (MARK, marks)], table(sides), where=where)

    def netted(self, columns: Sequence[str], delta: str) -> exp.Select:
        """Changes without rows that come as often as they go."""
        weight = exp.Sum(this=col(WEIGHT))
        groups, some = list(map(col, columns)), exp.NEQ(this=weight.copy(), expression=number(0))
        return select([*plain(columns), (WEIGHT, weight)], table(delta), group=groups, having=some)


_AT: Mapping[At, Expr] = {"new": number(1), "old": number(-1)}
_MET = _AT["old"]  # by changed left rows of an outer join
_WEIGHTED: tuple[Item, ...] = ((WEIGHT, col(WEIGHT)),)
_COMES = exp.GT(this=col(WEIGHT), expression=number(0))
_GOES = exp.LT(this=col(WEIGHT), expression=number(0))


def _came() -> Expr:
    """Of a change: whether the row was not there before."""
    return _COMES.copy()


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
