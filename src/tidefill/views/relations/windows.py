"""Window functions: what they say of a row among the rows of its partition.

Rows that ORDER BY does not tell apart have no order, so a function that minds it could say one thing today, and another
when the partition is computed anew. There the key of the input becomes the rest of the order, and the user is told.
Ranks, and aggregates over RANGE frames, do not mind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations.parts import refuse_others, refused, shown_as
from tidefill.views.relations.relations import Relation, Windowed
from tidefill.views.relations.tails import order_of
from tidefill.views.relations.texts import Expr, Item, col, columns_in

PARTS = (exp.Order, exp.Ordered, exp.WindowSpec, exp.IgnoreNulls, exp.RespectNulls)
"""What an expression may have inside of a window, and nowhere else."""

_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_FIRST, _LAST = (exp.First, exp.FirstValue), (exp.Last, exp.LastValue)
_OF_FRAMES = (*_FIRST, *_LAST, exp.NthValue)
_OF_ORDER = (*_RANKS, exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
_AGGREGATES = (exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max)
PICKS = (*_FIRST, *_LAST)
"""Functions of the order that may be aggregates as well."""

ONLY_OVER = (*_OF_FRAMES, *_OF_ORDER)
"""Functions that depend on the order of rows."""

_OF_WINDOW = {"this", "partition_by", "order", "spec", "over"}
_OF_SPEC = {"kind", "start", "start_side", "end", "end_side"}
_START, _END, _CURRENT = ("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING"), ("CURRENT ROW", "")


@dataclass(frozen=True, slots=True)
class Made:
    """The rows with a column for each window function, the items over these columns, and what to tell the user.
    `opened`: the windows whose ORDER BY leaves the order of some rows open, as they were given, each with the columns
    of the key that were put at its end."""

    relation: Relation
    items: list[Item]
    notices: tuple[str, ...]
    opened: tuple[tuple[exp.Window, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Frame:
    """Which rows of the partition a function looks at."""

    by_rows: bool
    start: tuple[object, str]
    end: tuple[object, str]

    @property
    def is_whole(self) -> bool:
        return (self.start, self.end) == (_START, _END)


def windowed(relation: Relation, items: Sequence[Item], fresh: Callable[[str], str]) -> Made:
    """The items without window functions: columns of the relation hold what they give. Those with one PARTITION BY are
    computed together; without one, those with one ORDER BY."""
    columns: dict[Expr, str] = {}
    notices: list[str] = []
    given: list[exp.Window] = []
    added: dict[Expr, tuple[str, ...]] = {}

    def column(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        given.append(node)
        if node not in columns:
            columns[node.copy()] = fresh("over")
        return col(columns[node])

    replaced = [(name, value.copy().transform(column)) for name, value in items]
    together: dict[tuple[tuple[Expr, ...], tuple[Expr, ...]], list[Item]] = {}
    for node, name in columns.items():
        assert isinstance(node, exp.Window)
        window, missing = _ordered(node, relation.key)
        partition = _partition(node)
        together.setdefault((partition, () if partition else order_of(window)), []).append((name, window))
        if missing:
            added[node] = missing
            notices.append(f"{shown_as(node)}: rows that are equal in this order are ordered by {', '.join(missing)}.")
    for (partition, _), group in together.items():
        relation = Windowed(relation, partition, tuple(group))
    return Made(relation, replaced, tuple(notices), tuple((node, added[node]) for node in given if node in added))


def written_out(tree: exp.Select) -> exp.Select:
    """The query with its WINDOW clause in the places that name its windows."""
    if not tree.args.get("windows"):
        return tree
    tree = tree.copy()
    given = {window.name: window for window in tree.args["windows"]}
    if len(given) < len(tree.args["windows"]):
        raise BadSql("two windows have one name", detail=", ".join(window.name for window in tree.args["windows"]))
    tree.set("windows", None)
    for window in list(tree.find_all(exp.Window)):
        if window.args.get("alias") is not None and window.find_ancestor(exp.Select) is tree:
            window.replace(_called(window, given))
    return tree


def _called(window: exp.Window, given: Mapping[str, exp.Window]) -> exp.Window:
    """The function over the window that it names."""
    meant = given.get(window.alias)
    if meant is None:
        raise BadSql(f"there is no window {window.alias}", hint="Define it after WINDOW.")
    more = any(window.args.get(part) for part in _OF_WINDOW - {"this", "over"})
    if more or meant.args.get("alias") is not None:
        raise refused(window, "a window is made from another one", "Write it out after OVER.")
    return exp.Window(**{**meant.copy().args, "this": window.this.copy(), "over": "OVER"})


def sums_of(relation: Windowed) -> list[Item]:
    """Those of its functions that add something up."""
    return [(column, value.this) for column, value in relation.items if isinstance(value.this, exp.Sum | exp.Avg)]


def _partition(window: exp.Window) -> tuple[Expr, ...]:
    """None if all rows are one partition."""
    return tuple(value for value in window.args.get("partition_by") or () if set(columns_in(value)))


def _ordered(window: exp.Window, key: Sequence[str]) -> tuple[exp.Window, tuple[str, ...]]:
    """The window in which the order of rows is known as far as the function minds it, and the columns of the key that
    had to be put at the end of its ORDER BY for that."""
    function, frame = _function(window), _frame(window)
    order = window.args.get("order")
    if isinstance(function, _OF_ORDER) and order is None:
        raise BadSql("a window function needs an ORDER BY", detail=shown_as(window))
    missing = _missing(window, key)
    if not missing or not _minds_order(function, frame):
        return window, ()
    if order is None:
        hint = "Write ORDER BY after PARTITION BY."
        raise refused(window, "a window function depends on the order of rows, and its window has none", hint)
    if isinstance(function, _OF_FRAMES) and not frame.by_rows and not _reaches(window.this, frame):
        hint = f"Write ROWS BETWEEN ... for the frame, or put the key at the end of ORDER BY: {', '.join(missing)}."
        raise refused(window, "which row of a RANGE frame is the first or the last is left open", hint)
    window = window.copy()
    for column in missing:
        window.args["order"].append("expressions", exp.Ordered(this=col(column), nulls_first=True))
    return window, tuple(missing)


def _function(window: exp.Window) -> Expr:
    """The function, if all that the window has is known."""
    refuse_others(window, _OF_WINDOW)
    if any(part is not window for part in window.find_all(exp.Window)):
        raise BadSql("a window function stands inside of another", detail=shown_as(window))
    function = window.this
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    if isinstance(function, exp.Filter):
        raise refused(window, "a window function has a FILTER", "Write CASE WHEN condition THEN value END in it.")
    if not isinstance(function, (*ONLY_OVER, *_AGGREGATES)) or function.find(exp.Distinct) is not None:
        hint = "Use row_number, rank, lag, lead, first_value, last_value, sum, count, avg, min, max; no DISTINCT."
        raise refused(window, "a window function is not known", hint)
    if isinstance(function, _OF_ORDER) and window.args.get("spec") is not None:
        raise refused(window, "a function of the whole order has a frame", "Leave out ROWS or RANGE.")
    return function


def _frame(window: exp.Window) -> _Frame:
    spec = window.args.get("spec")
    if spec is None:
        return _Frame(False, _START, _END if window.args.get("order") is None else _CURRENT)
    refuse_others(spec, _OF_SPEC)
    kind = spec.args["kind"].upper()
    if kind not in ("ROWS", "RANGE") or set(columns_in(spec)):
        raise refused(window, "the frame of a window is not known", "Write ROWS or RANGE BETWEEN constants.")
    bounds = ((spec.args.get(side) or "CURRENT ROW", spec.args.get(f"{side}_side") or "") for side in ("start", "end"))
    start, end = ((bound, direction.upper()) for bound, direction in bounds)
    return _Frame(kind == "ROWS", start, end)


def _missing(window: exp.Window, key: Sequence[str]) -> list[str]:
    """Columns of the key that neither tell partitions apart nor rows in the order."""
    order = window.args["order"].expressions if window.args.get("order") else []
    values = [*(window.args.get("partition_by") or ()), *(ordered.this for ordered in order)]
    told = {value.name for value in values if isinstance(value, exp.Column)}
    return [column for column in key if column not in told]


def _minds_order(function: Expr, frame: _Frame) -> bool:
    """Whether it can tell rows apart that are equal in the order."""
    if isinstance(function, _AGGREGATES):
        return frame.by_rows and not frame.is_whole
    return not isinstance(function, _RANKS)


def _reaches(call: Expr, frame: _Frame) -> bool:
    """Whether the row that is asked for is the same for all rows that are equal in the order: the frame reaches to the
    end of the partition where it is looked for."""
    if frame.is_whole:
        return True
    if isinstance(call, exp.IgnoreNulls):
        return False
    inner = call.this if isinstance(call, exp.RespectNulls) else call
    if isinstance(inner, _FIRST):
        return (frame.start, frame.end) == (_START, _CURRENT)
    return isinstance(inner, _LAST) and (frame.start, frame.end) == (_CURRENT, _END)
