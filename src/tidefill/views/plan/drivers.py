"""Which inputs of a view are walked, chunk by chunk, while the others are taken whole.

Drivers are such that the view, or the branch of it that they drive, has no rows when they have none. A scalar
aggregate is the exception: it has its one row from the first step on.

A chunk gives outputs of its own, which are appended, as long as every row stands for itself. Groups and partitions do
so too where no chunk cuts one: where all rows of a group agree in the leading columns of the walk, and chunks end only
where these columns change. So these columns have to be among those that the rows are grouped by, just as the table has
them, and at every level of the query. (NULL is a value like others there, in the order of a walk as in GROUP BY.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from tidefill.core.state import Occurrence
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
    scans,
)
from tidefill.views.relations.texts import Expr, Item

_CHOICES_MAX = 256

Walks: TypeAlias = Callable[[Occurrence], Sequence[str]]
"""Along which columns of its table an occurrence would be walked; none if nobody knows. To find out may be dear: it is
asked only where rows are grouped by columns of the table."""


@dataclass(frozen=True, slots=True)
class Drivers:
    """`appends`: more rows of a driver give more outputs and change none, provided that no chunk cuts a group of rows
    that agree in the first `group_columns` of the walk. `starts_empty`: without rows of the drivers there are no
    outputs."""

    occurrences: tuple[Occurrence, ...]
    appends: bool = True
    starts_empty: bool = True
    group_columns: int = 0


@dataclass(frozen=True, slots=True)
class _Choice:
    """`own`: columns of the relation that are columns of the one driver, under the names that its table has for
    them."""

    drivers: Drivers
    own: Mapping[str, str] = field(default_factory=dict)


def choose(relation: Relation, rows: Mapping[Occurrence, int], walks: Walks = lambda name: ()) -> Drivers:
    """Those that make a fill an append, if there are any; then those with the most rows, because what is not walked
    is read again for each chunk. For the same reason appends of whole groups are no reason to walk a smaller table: the
    groups of a few customers would be one chunk, with all of their orders."""
    choices = [choice.drivers for choice in itertools.islice(_choices(relation, walks), _CHOICES_MAX)]
    walked = {one: sum(rows[name] for name in one.occurrences) for one in choices}
    most = max(walked.values())

    def rank(one: Drivers) -> tuple[bool, bool, int]:
        return one.appends and (not one.group_columns or walked[one] == most), one.starts_empty, walked[one]

    return max(choices, key=rank)


def _choices(relation: Relation, walks: Walks) -> Iterator[_Choice]:
    match relation:
        case Scan():
            own = dict(zip(relation.columns, relation.sources, strict=True))
            yield _Choice(Drivers((relation.occurrence,)), own)
        case Constant():
            yield _Choice(Drivers((), appends=False, starts_empty=False))
        case Filter() | Generated():
            yield from _choices(relation.child, walks)
        case Project():
            for one in _choices(relation.child, walks):
                yield replace(one, own=_passed(one, relation.items))
        case Aggregate():
            for one in _choices(relation.child, walks):
                drivers = _by_groups(one, (value for _, value in relation.groups), walks)
                drivers = replace(drivers, starts_empty=drivers.starts_empty and bool(relation.groups))
                yield _Choice(drivers, _passed(one, relation.groups))
        case Windowed():
            for one in _choices(relation.child, walks):
                yield replace(one, drivers=_by_groups(one, relation.partition, walks))
        case Top():
            for one in _choices(relation.child, walks):
                yield replace(one, drivers=replace(one.drivers, appends=False, group_columns=0))
        case InnerJoin():
            for part in relation.inputs:
                yield from _choices(part, walks) if any(scans(part)) else ()
        case LeftJoin() | Matched():
            yield from _of_left(relation, walks)
        case FullJoin():
            for left, right in itertools.product(_choices(relation.left, walks), _choices(relation.right, walks)):
                both = _together([left.drivers, right.drivers])
                yield _Choice(replace(both, appends=False, group_columns=0))
        case Union():
            for chosen in itertools.product(*(_choices(part, walks) for part in relation.children)):
                yield _Choice(_together([one.drivers for one in chosen]))


def _of_left(relation: LeftJoin | Matched, walks: Walks) -> Iterator[_Choice]:
    """Of the left one; of the right one if the left one has no tables, and so all of its rows from the beginning."""
    if any(scans(relation.left)):
        yield from _choices(relation.left, walks)
        return
    for one in _choices(relation.right, walks):
        yield _Choice(Drivers(one.drivers.occurrences, appends=False, starts_empty=False))


def _passed(one: _Choice, items: Iterable[Item]) -> dict[str, str]:
    """What is left of the driver's columns, under the names that they have here."""
    return {name: one.own[value.name] for name, value in items if _is_own(one, value)}


def _is_own(one: _Choice, value: Expr) -> bool:
    return isinstance(value, exp.Column) and value.name in one.own


def _by_groups(one: _Choice, values: Iterable[Expr], walks: Walks) -> Drivers:
    """Of rows that are grouped by these values. They have no columns of a driver if there are several drivers: then a
    group may have rows of each."""
    drivers = one.drivers
    known = {one.own[value.name] for value in values if _is_own(one, value)} if drivers.appends else set()
    walk = walks(drivers.occurrences[0]) if known else ()
    columns = len(list(itertools.takewhile(known.__contains__, walk)))
    if not columns:
        return replace(drivers, appends=False, group_columns=0)
    return replace(drivers, group_columns=_coarser(columns, drivers.group_columns))


def _together(parts: Sequence[Drivers]) -> Drivers:
    """The branches of a union, each with its own."""
    appends = all(one.appends for one in parts)
    return Drivers(
        tuple(name for one in parts for name in one.occurrences),
        appends,
        all(one.starts_empty for one in parts),
        _coarser(*(one.group_columns for one in parts)) if appends else 0,
    )


def _coarser(*columns: int) -> int:
    """Bounds that end groups by fewer columns end those by more columns too. 0: any bound will do."""
    return min(filter(None, columns), default=0)
