"""Which columns of a query's output identify a row, as far as the outermost SELECT alone tells: nothing below it need
be understood. A query that says nothing of this kind may have a key all the same; the compiler finds more.

| the query | no two rows of it are alike in |
|---|---|
| `SELECT DISTINCT ...`, `... UNION ...`, INTERSECT, EXCEPT | all columns |
| `SELECT g, h AS i, ... GROUP BY g, h` | the columns `g` and `i`, if each group is one of the columns |

HAVING, QUALIFY, ORDER BY and LIMIT only leave rows out. A group is recognized by its text, or by its number: an alias
after GROUP BY may mean a column of a table as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidefill.views.reading.dialect import Verbatim
from tidefill.views.reading.functions import GENERATORS, names_of

_LEAVE_ROWS_OUT = frozenset({"with_", "having", "qualify", "windows", "order", "limit", "offset", "hint"})
_BELOW = frozenset({"expressions", "from_", "joins", "laterals", "where", "group", "distinct"})


def unique_columns(tree: exp.Expr, shown: Sequence[str]) -> tuple[str, ...]:
    """The columns, by the names in `shown`, which has those of the output in their order; none if nothing is known."""
    match tree:
        case exp.SetOperation() if tree.args.get("distinct") is True:
            return tuple(shown)
        case exp.Select() if {name for name, value in tree.args.items() if value} <= _LEAVE_ROWS_OUT | _BELOW:
            distinct = tree.args.get("distinct")
            if distinct is not None and not distinct.args.get("on"):
                return tuple(shown)
            return _groups(tree, shown)
        case _:
            return ()


def _groups(select: exp.Select, shown: Sequence[str]) -> tuple[str, ...]:
    group, items = select.args.get("group"), select.expressions
    if group is None or {name for name, value in group.args.items() if value} != {"expressions"}:
        return ()
    if any(item.is_star or _makes_rows(item) for item in items) or len(items) != len(shown):
        return ()
    texts = [_text(item.unalias()) for item in items]
    aliases = {item.alias for item in items if isinstance(item, exp.Alias) and item.alias != _text(item.this)}
    places = [_place(one, texts, aliases) for one in group.expressions]
    known = [place for place in places if place is not None]
    return tuple(dict.fromkeys(shown[place] for place in known)) if len(known) == len(places) else ()


def _place(group: exp.Expr, texts: Sequence[str], aliases: set[str]) -> int | None:
    """Which item of the SELECT is the group; None if that is not certain. A name that is also an alias of another item
    is not: `SELECT abs(g) AS g ... GROUP BY g` groups by the column of the table."""
    if isinstance(group, exp.Literal):
        place = int(group.this) - 1 if group.is_int else -1
        return place if 0 <= place < len(texts) else None
    named = {part.name for part in group.find_all(exp.Identifier)}
    text = _text(group)
    if named.isdisjoint(aliases) and text in texts:
        return texts.index(text)
    return None


def _makes_rows(item: exp.Expr) -> bool:
    """Whether the item may give several rows for a group."""
    called = [name for each in item.find_all(exp.Func) for name in names_of(each)]
    return not GENERATORS.isdisjoint(called)


def _text(one: exp.Expr) -> str:
    return one.sql(dialect=Verbatim)
