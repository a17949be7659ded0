"""Windows without PARTITION BY, by the rows from the first changed one on.

Example: `row_number() OVER (ORDER BY x)`, over rows with x = 1, 2, 5, 8. A row with x = 3 comes. Of the rows from 3 on
there are 3, 5 and 8 now, and were 5 and 8. Two rows come before, which is carried: 3, 5 and 8 are the rows 3, 4 and 5;
they were 5 and 8, the rows 3 and 4. The rows 1 and 2 are counted, and neither sorted nor compared.

The rows before are the same as they were, since the first changed row of all comes after them. Which functions can be
had in this way: `views/relations/tails.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tidefill.views.relations.relations import Relation, Windowed, over_others
from tidefill.views.relations.tails import Carried, Looks, look_back, order_of
from tidefill.views.relations.texts import (
    HIDDEN,
    WEIGHT,
    Expr,
    Item,
    both,
    case,
    cast,
    col,
    first_rows,
    is_null,
    joined,
    not_,
    number,
    plain,
    same,
    select,
    stacked,
    table,
)

if TYPE_CHECKING:
    from tidefill.views.plan.changes import At, Changes

Types = Callable[[Windowed, Sequence[Expr]], Sequence[str]]
"""The types of expressions over the columns of a relation."""

_EXACT = re.compile(r"tinyint|smallint|int|bigint|decimal\((\d+),\d+\)")
_DIGITS_MAX = 27  # of what is added up: a sum has ten more, and one more still has to fit into a decimal
_PLACES = f"{HIDDEN}places"


def with_tails(relation: Relation, types: Types) -> Relation:
    """The same, in which the windows that can be computed by a tail say so."""
    relation = over_others(relation, lambda part: with_tails(part, types))
    looks = look_back(relation.items) if isinstance(relation, Windowed) and not relation.partition else ()
    if not isinstance(relation, Windowed) or not looks:
        return relation
    added = [
        value.this.this for (_, value), one in zip(relation.items, looks, strict=True) if one.carried is Carried.SUM
    ]
    if not all(map(_is_exact, types(relation, added) if added else ())):
        return relation
    return replace(relation, types=tuple(types(relation, [col(column) for column, _ in relation.items])))


def _is_exact(kind: str) -> bool:
    """Whether sums of such values do not depend on the order in which they are added up, and have room for one more."""
    found = _EXACT.fullmatch(kind)
    return found is not None and int(found[1] or 0) <= _DIGITS_MAX


def delta_of_tail(changes: Changes, relation: Windowed) -> exp.Query:
    """The changes of windows that can be computed in this way. `first`: the place from which on a function may say
    something else than before. `begin`: that of the rows before it which the functions look at."""
    step, child, looks = changes.statement.step, relation.child, look_back(relation.items)
    order = order_of(relation.items[0][1])
    first = _earlier(changes, child, order, _first_changed(changes, child, order), max(one.ahead for one in looks))
    begin = _earlier(changes, child, order, first, max(one.back for one in looks))

    def rows(at: At) -> exp.Select:
        every = select(plain(child.columns), table(changes.rows(child, at)))
        return joined(every, table(begin), "inner", _from_on(order))

    sides = changes.now_and_before(child, rows)
    items = [(column, apart(value)) for column, value in relation.items]
    over = step("over", select([*plain(child.columns), *items, (WEIGHT, col(WEIGHT))], table(sides)))
    before = select(plain(child.columns), table(changes.rows(child, "new")))
    before = joined(before, table(begin), "inner", not_(_from_on(order)))
    carries = _carries(changes, relation, looks, step("before", before))
    results = [_with_carried(*one, kind) for one, kind in zip(_named(relation, looks), relation.types, strict=True)]
    query = select([*plain(child.columns), *results, (WEIGHT, col(WEIGHT))], table(over))
    for carry in carries:
        query = joined(query, table(carry), "inner", exp.true())
    return joined(query, table(first), "inner", _from_on(order)) if begin != first else query


def _named(relation: Windowed, looks: Sequence[Looks]) -> list[tuple[str, Looks]]:
    return [(column, one) for (column, _), one in zip(relation.items, looks, strict=True)]


def _carries(changes: Changes, relation: Windowed, looks: Sequence[Looks], before: str) -> list[str]:
    """Steps of one row each, with what is carried."""
    step = changes.statement.step
    aggregates: list[Item] = []
    for (column, value), one in zip(relation.items, looks, strict=True):
        match one.carried:
            case Carried.NOTHING | Carried.PLACES:
                pass
            case Carried.ROWS:
                aggregates.append((_carried(column), _count()))
            case _:
                aggregates.append((_carried(column), value.this))
    found = [step("carried", select(aggregates, table(before)))] if aggregates else []
    if any(one.carried is Carried.PLACES for one in looks):
        values = [ordered.this for ordered in order_of(relation.items[0][1])]
        places = step("taken", select([(f"{HIDDEN}p0", values[0])], table(before), group=values))
        found.append(step("places", select([(_PLACES, _count())], table(places))))
    return found


def _with_carried(column: str, one: Looks, kind: str) -> Item:
    """What the function says over all rows, by what it says over the tail."""
    value, carried = col(column), col(_PLACES if one.carried is Carried.PLACES else _carried(column))
    match one.carried:
        case Carried.NOTHING:
            return column, value
        case Carried.LEAST:
            better: Expr = exp.LT(this=carried, expression=value.copy())
        case Carried.GREATEST:
            better = exp.GT(this=carried, expression=value.copy())
        case _:
            added = exp.Add(this=value, expression=carried.copy())
            return column, cast(
                case((is_null(carried.copy()), value.copy()), (is_null(value.copy()), carried), default=added), kind
            )
    return column, case((exp.or_(is_null(value.copy()), better), carried.copy()), default=value)


def _first_changed(changes: Changes, child: Relation, order: Sequence[exp.Ordered]) -> str:
    """The step with the place in the order of the first row that changed, as it is or as it was."""
    step, names = changes.statement.step, _names(order)
    values = [(name, ordered.this) for name, ordered in zip(names, order, strict=True)]
    return _first_of(changes, step("changed", select(values, table(changes.kept_delta(child)))), order)


def _first_of(changes: Changes, places: str, order: Sequence[exp.Ordered]) -> str:
    """The step with the first of these places, or with none if there are none. It is kept, and Spark fails over what is
    kept and says that it has an order: so of the one row that is first the least values are asked for."""
    step, names = changes.statement.step, _names(order)
    first = step("first", first_rows(select(plain(names), table(places)), _by(names, order), 1))
    least = [(name, exp.Min(this=col(name))) for name in names]
    some = exp.GT(this=_count(), expression=number(0))
    return step("place", select(least, table(first), having=some), stage=True)


def _earlier(changes: Changes, child: Relation, order: Sequence[exp.Ordered], place: str, rows: int) -> str:
    """The step with the place of the row that is so many rows before that place, or of the first one of all. The rows
    there are the same now and before."""
    if not rows:
        return place
    step, names = changes.statement.step, _names(order)
    earlier = [f"{HIDDEN}e{index}" for index, _ in enumerate(order)]
    found = [(name, ordered.this) for name, ordered in zip(earlier, order, strict=True)]
    every = select(found, table(changes.rows(child, "new")))
    lower = step("lower", joined(every, table(place), "inner", not_(_from_on(order))))
    near = step("near", first_rows(select(plain(earlier), table(lower)), _by(earlier, order, backwards=True), rows))
    renamed = [(name, col(one)) for name, one in zip(names, earlier, strict=True)]
    either = step("either", stacked([select(plain(names), table(place)), select(renamed, table(near))]))
    return _first_of(changes, either, order)


def _names(order: Sequence[exp.Ordered]) -> list[str]:
    return [f"{HIDDEN}m{index}" for index, _ in enumerate(order)]


def _by(names: Sequence[str], order: Sequence[exp.Ordered], *, backwards: bool = False) -> list[Expr]:
    """The order, by columns of these names."""
    return [
        exp.Ordered(this=col(name), desc=_falls(one) is not backwards, nulls_first=_nulls_first(one) is not backwards)
        for name, one in zip(names, order, strict=True)
    ]


def _from_on(order: Sequence[exp.Ordered]) -> Expr:
    """Whether a row comes at the place of the first one or after it. It is never unknown."""
    found: Expr = exp.true()
    for name, one in reversed(list(zip(_names(order), order, strict=True))):
        value, place = exp.paren(one.this.copy()), col(name)
        after = (exp.LT if _falls(one) else exp.GT)(this=value.copy(), expression=place.copy())
        known = both([not_(is_null(value.copy())), not_(is_null(place.copy())), after])
        null, other = (place, value) if _nulls_first(one) else (value, place)
        later = exp.or_(known, both([is_null(null.copy()), not_(is_null(other.copy()))]))
        found = exp.or_(later, both([same(value.copy(), place.copy()), exp.paren(found)]))
    return exp.paren(found)


def _falls(one: exp.Ordered) -> bool:
    return bool(one.args.get("desc"))


def _nulls_first(one: exp.Ordered) -> bool:
    return bool(one.args.get("nulls_first"))


def apart(window: Expr) -> Expr:
    """The function of a window, for rows that are and rows that were."""
    window = window.copy()
    window.append("partition_by", col(WEIGHT))
    return window


def _count() -> Expr:
    return exp.Count(this=exp.Star(), big_int=True)


def _carried(column: str) -> str:
    return f"{column}_carried"
