"""JOIN ... USING: columns of one name on both sides are equal, and one column from then on.

It is the left one's; of a RIGHT JOIN the right one's, of a FULL JOIN the one that there is. `*` shows it before all
others. With the alias of a table before it, a name still means that table's own column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.texts import HIDDEN, Expr, Item, coalesce, col

_ALIAS = f"{HIDDEN}using"


@dataclass(frozen=True, slots=True)
class Using:
    """What FROM has after the join, the conditions of the join, and what is computed from its rows."""

    sources: list[Source]
    conditions: tuple[Expr, ...]
    items: tuple[Item, ...]


def using(names: Sequence[str], left: Sequence[Source], right: Source, kind: str, fresh: Callable[[str], str]) -> Using:
    """A join of this kind by columns of these names."""
    pairs = [(_inner(name, left), _inner(name, [right])) for name in names]
    chosen, items = _chosen(names, pairs, kind, fresh)
    merged = frozenset(name.casefold() for name in names)
    sides = list(left) if kind in ("semi", "anti") else [*left, right]
    sources = [Source(_ALIAS, tuple(zip(names, chosen, strict=True)))]
    sources += [replace(source, merged=source.merged | _own(source, merged)) for source in sides]
    equal = tuple(exp.EQ(this=col(one), expression=col(other)) for one, other in pairs)
    return Using(sources, equal, tuple(items))


def _chosen(
    names: Sequence[str], pairs: Sequence[tuple[str, str]], kind: str, fresh: Callable[[str], str]
) -> tuple[list[str], list[Item]]:
    """The merged columns, and those of them that are computed."""
    match kind:
        case "right":
            return [other for _, other in pairs], []
        case "full":
            chosen = [fresh(name) for name in names]
            values = (coalesce(col(one), col(other)) for one, other in pairs)
            return chosen, list(zip(chosen, values, strict=True))
        case _:
            return [one for one, _ in pairs], []


def _inner(name: str, sources: Sequence[Source]) -> str:
    return Scope(tuple(sources)).resolved(exp.column(name, quoted=True)).name


def _own(source: Source, names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if source.find(name))
