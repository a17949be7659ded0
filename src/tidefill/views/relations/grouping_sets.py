"""ROLLUP, CUBE and GROUPING SETS: several groupings of the same rows.

Every row is taken once for each grouping, with the number of the grouping. The rows are grouped by that number and by
the groups, of which those that the grouping leaves out are NULL. So hidden counts and sums keep them like other groups.

Example: for GROUP BY ROLLUP (g) the row (id 1, g 7) is taken twice: with number 0 in group 7, and with number 1 in
group NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import BadSql, QueryTooLarge
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import shown_as
from tidefill.views.relations.relations import Generated, Relation
from tidefill.views.relations.texts import Expr, Item, called, case, cast, col, number

SETS_MAX = 128  # CUBE of seven columns
_ANALYTICS = (exp.Rollup, exp.Cube, exp.GroupingSets)
Set = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Groupings:
    """`values`: all that is grouped by, each once, in the order in which grouping_id() counts them. `sets`: which of
    them each grouping has. `several`: whether GROUP BY names the groupings."""

    values: tuple[Expr, ...]
    sets: tuple[Set, ...]
    several: bool = True

    def having(self, value: Expr) -> list[int]:
        """The numbers of the groupings that have it."""
        return [place for place, group in enumerate(self.sets) if value in group]


def groupings(clause: exp.Group, value_of: Callable[[Expr], Expr]) -> Groupings | None:
    """The groupings of a GROUP BY; None if it has one. `value_of`: what an expression in it means."""
    listed = tuple(clause.expressions)
    if sets := clause.args.get("grouping_sets"):
        found = [group for part in sets for group in _sets(part, value_of)]
        return _bounded([tuple(map(value_of, listed)), *found], found)
    for word, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if clause.args.get(word):
            whole = _sets(kind(expressions=[one.copy() for one in listed]), value_of)
            return _bounded(whole, whole)
    if not any(isinstance(one, _ANALYTICS) for one in listed):
        return None
    choices = [_sets(one, value_of) if isinstance(one, _ANALYTICS) else [(value_of(one),)] for one in listed]
    every = [_merged(chosen) for chosen in itertools.islice(itertools.product(*choices), SETS_MAX + 1)]
    return _bounded([group for one in choices for group in one], every)


def _bounded(named: Sequence[Set], sets: Sequence[Set]) -> Groupings:
    if len(sets) > SETS_MAX:
        raise QueryTooLarge(
            f"the query groups in more than {SETS_MAX} ways",
            detail="Each row would be taken once for each of them.",
            hint="Name the groupings that are needed: GROUP BY GROUPING SETS ((a, b), (a), ()).",
        )
    return Groupings(_merged(named), tuple(sets))


def _merged(sets: Sequence[Set]) -> Set:
    """What is in any of them, each once."""
    found: list[Expr] = []
    for value in itertools.chain.from_iterable(sets):
        if value not in found:
            found.append(value)
    return tuple(found)


def _sets(tree: Expr, value_of: Callable[[Expr], Expr]) -> list[Set]:
    """The groupings that a part of GROUP BY stands for."""
    match tree:
        case exp.Rollup():
            parts = [_set(one, value_of) for one in tree.expressions]
            return [_merged(parts[:count]) for count in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_set(one, value_of) for one in tree.expressions]
            if 2 ** len(parts) > SETS_MAX:
                return [()] * (SETS_MAX + 1)
            return [_merged(chosen) for chosen in _subsets(parts)]
        case exp.GroupingSets():
            return [group for one in tree.expressions for group in _sets(one, value_of)]
        case _:
            return [_set(tree, value_of)]


def _subsets(parts: Sequence[Set]) -> Iterator[Sequence[Set]]:
    """The largest first."""
    for count in range(len(parts), -1, -1):
        yield from itertools.combinations(parts, count)


def _set(tree: Expr, value_of: Callable[[Expr], Expr]) -> Set:
    """One element: an expression, or several in parentheses."""
    inner = tree.unnest()
    listed = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    return tuple(map(value_of, listed))


@dataclass(frozen=True, slots=True)
class Expanded:
    """The rows, once for each grouping; what they are grouped by; and what grouping() and grouping_id() stand for, over
    the column that holds the number of the grouping."""

    relation: Relation
    items: tuple[Item, ...]
    grouping: Callable[[exp.Expr], Expr | None] = lambda node: None


def expanded(relation: Relation, found: Groupings, groups: Sequence[Item], names: Names) -> Expanded:
    """`groups`: the values with the columns that hold them."""
    place, group = names.fresh("set"), names.fresh("set")
    numbers = called("array", *(number(index) for index, _ in enumerate(found.sets)))
    rows = Generated(relation, called("explode", numbers), (place,), (place,))
    items: list[Item] = [(group, col(place))]
    for column, value in groups:
        places = found.having(value)
        whole = len(places) == len(found.sets)
        items.append((column, value if whole else case((_among(col(place), places), value.copy()))))
    return Expanded(rows, tuple(items), lambda node: _grouping(node, found, col(group)))


def _among(value: Expr, places: Sequence[int]) -> Expr:
    return exp.In(this=value, expressions=[number(place) for place in places]) if places else exp.false()


def _grouping(node: exp.Expr, found: Groupings, place: Expr) -> Expr | None:
    """What a call of grouping or grouping_id stands for; None if it is none."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    match name, node.expressions:
        case "grouping", [value] if value in found.values:
            left_out = case((_among(place.copy(), found.having(value)), number(0)), default=number(1))
            return cast(left_out, "tinyint")
        case "grouping_id", values if not values or tuple(values) == found.values:
            return cast(case(*_ids(found, place), default=number(0)), "bigint")
        case "grouping" | "grouping_id", _:
            raise BadSql(f"{name} is not of the columns of GROUP BY", detail=shown_as(node))
    return None


def _ids(found: Groupings, place: Expr) -> Iterator[tuple[Expr, Expr]]:
    """For each grouping a number with a bit for each value that it leaves out, the first value's the highest."""
    for index, group in enumerate(found.sets):
        bits = sum(2**bit for bit, value in enumerate(reversed(found.values)) if value not in group)
        yield exp.EQ(this=place.copy(), expression=number(index)), number(bits)
