"""What a query leaves open, and the rewrite by which VERIFY settles it.

`row_number() OVER (PARTITION BY g ORDER BY x)` may number rows with equal x in any order. The compiler orders them by
the key of the input. VERIFY runs the user's own query, in which Spark would choose another order, so VERIFY appends the
same key to that ORDER BY, and changes nothing else. It says so.

Example: over `pa (k, g, x)` with the key k, VERIFY runs `row_number() OVER (PARTITION BY g ORDER BY x, pa.k)`.

The same holds for aggregates that leave a choice open, such as `first(x)` (`aggregates.py`), and for the ORDER BY of a
LIMIT (`top.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.views.relations.aggregates import chosen, is_open, told
from tidefill.views.relations.parts import shown_as
from tidefill.views.relations.texts import HIDDEN, name
from tidefill.views.relations.windows import written_out

_PLACE = "tidefill_place"


@dataclass(frozen=True, slots=True)
class Settled:
    """`query`: the user's query with every choice made; None if it leaves nothing open, so that the user's text serves
    as it is. `notes`: the choices, for a person. `reason`: why the choices cannot be written into the query; empty if
    they can."""

    query: exp.Expr | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""


NOTHING_OPEN = Settled()


def placed(tree: exp.Expr) -> exp.Expr:
    """The query with its WINDOW clauses written out, and with a number on each window, on each aggregate that leaves a
    choice open, and on each ORDER BY with LIMIT, which copies of them keep."""
    tree = tree.copy()
    while (select := _with_clause(tree)) is not None:
        other = written_out(select)
        if select is tree:
            tree = other
        else:
            select.replace(other)
    for place, node in enumerate(_open(tree)):
        node.meta[_PLACE] = place
    return tree


def _open(tree: exp.Expr) -> list[exp.Expr]:
    return [node for node in tree.walk() if isinstance(node, exp.Window) or _is_of_limit(node) or is_open(node)]


def _is_of_limit(node: exp.Expr) -> bool:
    """Whether it is the ORDER BY by which a query takes its first rows."""
    return isinstance(node, exp.Order) and isinstance(node.parent, exp.Query) and bool(node.parent.args.get("limit"))


def _with_clause(tree: exp.Expr) -> exp.Select | None:
    return next((select for select in tree.find_all(exp.Select) if select.args.get("windows")), None)


def place_of(node: exp.Expr) -> int:
    """The number of a window, an aggregate or an ORDER BY, or of the one that it is a copy of."""
    return int(node.meta[_PLACE])


def settled(tree: exp.Expr, orders: Mapping[int, Sequence[exp.Column] | None]) -> Settled:
    """The query of `placed` in which what is at these places takes rows in the order of these columns in the end; None:
    of columns that cannot be named there."""
    if not orders:
        return NOTHING_OPEN
    if any(columns is None for columns in orders.values()):
        return Settled(reason="the order of equal rows is that of a key which the query does not show where it matters")
    tree, notes = tree.copy(), list[str]()
    for node in _open(tree):
        columns = orders.get(place_of(node))
        if columns is None:
            continue
        names = [f"{column.table}.{column.name}".lstrip(".") for column in columns]
        if isinstance(node, exp.Window | exp.Order):
            order = node.args["order"] if isinstance(node, exp.Window) else node
            notes.append(f"rows that are equal in {shown_as(order)} are ordered by {', '.join(names)}")
            for column in columns:
                order.append("expressions", exp.Ordered(this=column.copy(), nulls_first=True))
        else:
            notes.append(told(node, names))
            node.replace(chosen(node, columns))
    return Settled(tree, tuple(dict.fromkeys(notes)))


def reference(column: str, sources: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> exp.Column | None:
    """The column of ours as the query itself can name it, if it can: `sources` are the aliases in FROM, each with the
    names that the query may use and ours for them."""
    for alias, columns in sources:
        shown = next((shown for shown, inner in columns if inner == column), HIDDEN)
        written = [other for other, _ in columns if other.casefold() == shown.casefold()]
        if not shown.startswith(HIDDEN) and len(written) == 1:
            return exp.Column(this=name(shown), table=name(alias) if alias else None)
    return None
