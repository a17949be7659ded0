"""What the rules for changes ask of a relation: what its changes look like, and how relations of a join are tied."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

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
    every,
)
from tidefill.views.relations.texts import Expr, columns_in


def is_simple(relation: Relation) -> bool:
    """Whether its changes are those of a table, row by row."""
    return all(isinstance(part, Scan | Filter | Project | Generated) for part in every(relation))


def tells_by_key(relation: Relation) -> bool:
    """Whether its changes have no row of a key but the one that it was, and the one that it is."""
    match relation:
        case Scan() | Constant() | Aggregate() | Windowed() | Top():
            return True
        case Filter() | Project() | Generated():
            return tells_by_key(relation.child)
        case Union():
            return all(map(tells_by_key, relation.children))
        case InnerJoin() | LeftJoin() | FullJoin() | Matched():
            return False
        case _:
            assert_never(relation)


def hang_together(parts: Sequence[Relation], conditions: Sequence[Expr]) -> bool:
    """Whether conditions tie them all to each other."""
    known, left = set(parts[0].columns), list(parts[1:])
    while found := next((part for part in left if tied(part, known, conditions)), None):
        left.remove(found)
        known |= set(found.columns)
    return not left


def tied(relation: Relation, known: Collection[str], conditions: Sequence[Expr]) -> bool:
    """Whether a condition reads columns of both, and nothing else."""
    own = set(relation.columns)
    for condition in conditions:
        read = set(columns_in(condition))
        if read & own and read & set(known) and read <= own | set(known):
            return True
    return False
