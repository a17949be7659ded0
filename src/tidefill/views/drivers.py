"""Which inputs of a view are walked, chunk by chunk, while the others are taken whole.

Drivers are such that the view, or the branch of it that they drive, has no rows when they have none. A scalar
aggregate is the exception: it has its one row from the first step on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidefill.core.state import Occurrence
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
)

_CHOICES_MAX = 256


@dataclass(frozen=True, slots=True)
class Drivers:
    """`appends`: more rows of a driver give more outputs and change none. `starts_empty`: without rows of the drivers
    there are no outputs."""

    occurrences: tuple[Occurrence, ...]
    appends: bool = True
    starts_empty: bool = True


def choose(relation: Relation, rows: Mapping[Occurrence, int]) -> Drivers:
    """Those that make a fill an append, if there are any; then those with the most rows, because what is not walked
    is read again for each chunk."""
    choices = itertools.islice(_choices(relation), _CHOICES_MAX)
    return max(choices, key=lambda one: (one.appends, one.starts_empty, sum(rows[name] for name in one.occurrences)))


def _choices(relation: Relation) -> Iterator[Drivers]:
    match relation:
        case Scan():
            yield Drivers((relation.occurrence,))
        case Filter() | Project():
            yield from _choices(relation.child)
        case Aggregate():
            for one in _choices(relation.child):
                yield replace(one, appends=False, starts_empty=one.starts_empty and bool(relation.groups))
        case Windowed():
            for one in _choices(relation.child):
                yield replace(one, appends=False)
        case InnerJoin():
            for part in relation.inputs:
                yield from _choices(part)
        case LeftJoin() | Matched():
            yield from _choices(relation.left)
        case Union():
            for chosen in itertools.product(*map(_choices, relation.children)):
                names = tuple(name for one in chosen for name in one.occurrences)
                yield Drivers(names, all(one.appends for one in chosen), all(one.starts_empty for one in chosen))
