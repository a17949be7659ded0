"""The first rows of all, at the top of a view, are kept by the changed rows alone, as far as they suffice.

The view has the first n rows in an order that tells all rows apart; all other rows come after the last of them. A
change takes rows away and brings others. Those that stay, and those that come, are candidates. If n of them are not
after the row that was the last one, no other row can be among the first n. Else all rows are looked at again. A view of
fewer than n rows had all that there were, and then the candidates are all that there are.

Example: ORDER BY x LIMIT 3, over rows with x = 1, 2, 3, 5, 8. The view has 1, 2, 3.

| what changes | candidates | the view then has |
|---|---|---|
| 0 comes | 0, 1, 2, 3 | 0, 1, 2 |
| 2 becomes 0 | 0, 1, 3: three up to 3 | 0, 1, 3 |
| 2 goes and 4 comes | 1, 3, 4: two up to 3 | 1, 3, 4, by all rows: it could have been 5 that was next |

Candidates have to be compared with each other, so hidden columns of the view have what it is ordered by. Where changes
of what is below could not be had without computing all of it, the first rows of it are found anew and compared with the
view.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidefill.views.plan import sums
from tidefill.views.plan.changes import Changes
from tidefill.views.plan.shapes import is_simple
from tidefill.views.relations.relations import Aggregate, Filter, Project, Relation, Top, Windowed, every
from tidefill.views.relations.texts import (
    HIDDEN,
    WEIGHT,
    Expr,
    both,
    case,
    col,
    first_rows,
    joined,
    not_,
    number,
    plain,
    same,
    select,
    stacked,
    table,
)

BY_TWO_VIEWS = (
    "Each step reads the rows of the groups that changed. A view of the groups alone keeps counts and sums; the first "
    "rows over that view read only what changed."
)

_GOES, _HAD, _COUNT, _KEY = (f"{HIDDEN}{name}" for name in ("goes", "had", "count", "gone"))
"""Of a row: whether it goes; 1 if the view had it; how many candidates there are up to it. Then a column of keys."""


def why_anew(root: Project) -> str:
    """Why the changed rows cannot keep the first ones; empty if they can."""
    top = top_of(root)
    if top.skipped:
        return "the view does not have the rows that OFFSET skips"
    if any(map(_looks_at_all, every(top.child))):
        return "a part of the query below LIMIT looks at all rows"
    return ""


def notices(root: Project) -> tuple[str, ...]:
    """What a person should know of the first of groups whose counts and sums a view of them alone would keep."""
    part: Relation = top_of(root).child
    while isinstance(part, Project | Filter):
        part = part.child
    adds_up = isinstance(part, Aggregate) and part.groups and not sums.kept_of(part.aggregates)[1]
    return (BY_TWO_VIEWS,) if adds_up else ()


def _looks_at_all(part: Relation) -> bool:
    """Whether its changes are what all of it is, less what all of it was."""
    match part:
        case Top():
            return True
        case Aggregate():
            return not part.groups
        case Windowed():
            return not part.partition
    return False


def with_order(root: Project) -> Project:
    """The view, with hidden columns for those of what it is ordered by that it does not show."""
    names = _names(root)
    more = dict.fromkeys(one.this.name for one in top_of(root).order if one.this.name not in names)
    return replace(root, items=(*root.items, *((f"{HIDDEN}order{at}", col(name)) for at, name in enumerate(more))))


def top_of(root: Project) -> Top:
    """The relation by which a view has the first rows only."""
    assert isinstance(root.child, Top), "only a view with LIMIT has first rows"
    return root.child


def _names(root: Project) -> dict[str, str]:
    """By which names the view has columns of what it is made from."""
    return {value.name: name for name, value in root.items if isinstance(value, exp.Column)}


def found_anew(changes: Changes, root: Project, target: str) -> exp.Query:
    """The changes of the view, whose first rows are found among all."""
    return _compared(root, changes.rows(root, "new"), target)


def kept(changes: Changes, root: Project, target: str) -> exp.Query:
    """The changes of a view `with_order`, whose first rows are found among those that stay and those that come, and
    only if these do not suffice among all."""
    top, step = top_of(root), changes.statement.step
    placed = step("placed", _placed(changes, root, target), stage=True)
    anew = changes.statement.any_of(step("lost", _lost(placed, top.rows)))
    is_first = exp.LTE(this=col(_COUNT), expression=number(top.rows))
    stay = select(plain(root.columns), table(placed), where=both([not_(anew), not_(col(_GOES)), is_first]))
    every_row = step("some", select(plain(top.columns), table(changes.rows(top.child, "new")), where=anew))
    again = select(root.items, table(step("anew", changes.top(top, every_row))))
    return _compared(root, step("now", stacked([stay, again])), target)


def _placed(changes: Changes, root: Project, target: str) -> exp.Query:
    """The rows of the view, and the first of those that come, with how many candidates there are up to each of them. Of
    one that goes and one that comes in the same place, the latter is first."""
    step, order, delta = changes.statement.step, _order(root), _delta(changes, root)
    come = select(plain(root.columns), table(delta), where=exp.GT(this=col(WEIGHT), expression=number(0)))
    came = step("came", first_rows(come, order, top_of(root).rows))
    keys = [(f"{_KEY}{at}", col(column)) for at, column in enumerate(root.key)]
    gone = step("gone", select(keys, table(delta), where=exp.LT(this=col(WEIGHT), expression=number(0))))
    on = both(same(value.copy(), col(name)) for name, value in keys)

    def rows(source: str, was: int, goes: Expr) -> exp.Select:
        return select([*plain(root.columns), (_HAD, number(was)), (_GOES, goes)], table(source))

    stay, go = joined(rows(target, 1, exp.false()), table(gone), "anti", on), rows(target, 1, exp.true())
    candidates = step("rows", stacked([stay, joined(go, table(gone), "semi", on), rows(came, 0, exp.false())]))
    counted = exp.Window(
        this=exp.Sum(this=case((col(_GOES), number(0)), default=number(1))),
        order=exp.Order(expressions=[*order, exp.Ordered(this=col(_HAD), nulls_first=True)]),
        spec=exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"),
    )
    return select([*plain([*root.columns, _HAD, _GOES]), (_COUNT, counted)], table(candidates))


def _order(root: Project) -> list[Expr]:
    """The order over the columns of the view."""
    names = _names(root)
    return [exp.Ordered(**{**one.args, "this": col(names[one.this.name])}) for one in top_of(root).order]


def _delta(changes: Changes, root: Project) -> str:
    """The step with the changes of all rows, in the columns of the view. A row that comes and goes is none of them."""
    step, child = changes.statement.step, top_of(root).child
    delta = step("shown", select([*root.items, (WEIGHT, col(WEIGHT))], table(changes.delta(child))))
    return delta if is_simple(child) else changes.statement.keep(step("net", changes.netted(root.columns, delta)))


def _lost(placed: str, rows: int) -> exp.Query:
    """A row if the view had all the rows that it may have, and not as many candidates are up to the last of them."""
    had, last = exp.Sum(this=col(_HAD)), case((exp.EQ(this=col(_HAD), expression=number(1)), col(_COUNT)))
    full = exp.GTE(this=had, expression=number(rows))
    few = exp.LT(this=exp.Max(this=last), expression=number(rows))
    return select([(_HAD, had)], table(placed), having=both([full, few]))


def _compared(root: Project, now: str, target: str) -> exp.Query:
    """What the view is, with weight +1, and what it was, with weight -1."""
    sides = {now: number(1), target: number(-1)}
    return stacked([select([*plain(root.columns), (WEIGHT, weight)], table(rows)) for rows, weight in sides.items()])
