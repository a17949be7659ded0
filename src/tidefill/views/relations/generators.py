"""Functions that make rows of one row: explode, posexplode and inline of an array, and window(ts, '10 seconds').

A row that is made of an array is known by the key of its row and by its position in the array, so an array is always
taken apart by posexplode. Example: of (id 7, xs ['a', 'b']) there are the rows (7, 0, 'a') and (7, 1, 'b').
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refused
from tidefill.views.relations.relations import Filter, Generated, Project, Relation
from tidefill.views.relations.texts import Expr, called, col, is_null, name, not_, plain

_OF_ARRAYS = ("explode", "posexplode", "inline")
_OUTER = "_outer"
_TIME_WINDOW, _SESSION = "window", "session_window"
_SLIDE = 2  # the place of the argument by which windows overlap
_ARRAY = re.compile(r"array<(.*)>")
_STRUCT = re.compile(r"struct<(.*)>")
_FIELD = re.compile(r"\w+")


def is_generator(node: exp.Expr) -> bool:
    """Whether it is a call of such a function of an array."""
    return isinstance(node, exp.Anonymous) and node.name.lower().removesuffix(_OUTER) in _OF_ARRAYS


def is_row_maker(item: exp.Expr) -> bool:
    """Whether an item of SELECT is such a call, with or without names for what it gives."""
    return is_generator(item.this if isinstance(item, exp.Alias | exp.Aliases) else item)


def select_of(node: exp.Expr) -> exp.Expr | None:
    """The query that it stands in."""
    return node.find_ancestor(exp.Select)


def is_time_window(node: exp.Expr) -> bool:
    """Whether it is a call of window(ts, ...)."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == _TIME_WINDOW


def is_session(node: exp.Expr) -> bool:
    """Whether it is a call of session_window(ts, ...)."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == _SESSION


def makes_rows(node: exp.Expr) -> bool:
    """Whether it is a call of one of all these functions."""
    return is_generator(node) or is_time_window(node) or is_session(node)


@dataclass(frozen=True, slots=True)
class Made:
    """`over`: gives the rows that are made of the rows of a relation. `shown`: the columns that it adds, by name."""

    over: Callable[[Relation], Relation]
    shown: tuple[tuple[str, str], ...]


def generated(call: Expr, given: Sequence[str], names: Names, *, outer: bool = False) -> Made:
    """What the call, over columns of a relation, makes of its rows. `given`: the names that the query has for the new
    columns; none: those that Spark gives. `outer`: a row of which nothing is made is kept, with NULL."""
    function = call.name.lower()
    base = function.removesuffix(_OUTER)
    if len(call.expressions) != 1:
        raise BadSql(f"{function} has one argument", detail=call.sql(dialect="spark"))
    (array,) = call.expressions
    kind = names.types.get(array.name, "") if isinstance(array, exp.Column) else ""
    fields = _fields(kind, call) if base == "inline" else []
    usual = fields or _usual(base, given, kind)
    made = [names.fresh(field) for field in ("pos", *(["col"] if fields else usual))]
    names.types[made[0]] = "int"
    if (element := _ARRAY.fullmatch(kind)) is not None and not fields:
        names.types[made[1]] = element[1]
    taken = [names.fresh(field) for field in fields]
    columns = made if base == "posexplode" else taken or made[1:]
    shown = ["pos", *usual] if base == "posexplode" else usual
    if given and len(given) != len(columns):
        raise BadSql(f"{call.name} gives {len(columns)} columns", detail=f"It has {len(given)} names.")
    apart = called(f"posexplode{_OUTER if outer or function.endswith(_OUTER) else ''}", array.copy())

    def over(relation: Relation) -> Relation:
        rows = Generated(relation, apart, tuple(made), (made[0],))
        return _taken_apart(rows, made[1], dict(zip(fields, taken, strict=True))) if fields else rows

    return Made(over, tuple(zip(given or shown, columns, strict=True)))


def _usual(base: str, given: Sequence[str], kind: str) -> list[str]:
    """The names of the columns beside the position: two of a map, else one."""
    of_map = kind.startswith("map<") or len(given) == (3 if base == "posexplode" else 2)
    return ["key", "value"] if of_map else ["col"]


def _taken_apart(relation: Relation, element: str, fields: Mapping[str, str]) -> Relation:
    """With a column for each field of the element."""
    values = ((column, exp.Dot(this=col(element), expression=name(field))) for field, column in fields.items())
    return Project(relation, (*plain(relation.columns), *values), relation.key)


def _fields(kind: str, call: Expr) -> list[str]:
    """The names of the fields of an array of structs, by its type."""
    array = _ARRAY.fullmatch(kind)
    struct = _STRUCT.fullmatch(array[1]) if array is not None else None
    fields = [part.partition(":")[0] for part in _at_commas(struct[1])] if struct is not None else []
    if not fields or not all(map(_FIELD.fullmatch, fields)):
        hint = "Write explode(xs) AS x in a query in FROM, and x.a, x.b around it."
        raise refused(call, "which columns inline gives is known of a column of a table only", hint)
    return fields


def _at_commas(text: str) -> Iterator[str]:
    """The parts of a list of fields, which may have lists of their own in brackets."""
    depth, start = 0, 0
    for index, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def in_time_windows(relation: Relation, calls: Iterable[Expr], names: Names) -> tuple[Relation, str]:
    """The rows in their time windows, and the column that holds the window. A row without a time is in none; of windows
    that overlap a row is in several. Raises UnsupportedQuery if the calls are not all the same."""
    first, *others = calls
    if any(other != first for other in others):
        raise refused(first, "a query has two different time windows", "Put one of them into a query in FROM.")
    if len(first.expressions) < _SLIDE:
        raise BadSql("window needs a time and a duration", detail=first.sql(dialect="spark"))
    column = names.fresh(_TIME_WINDOW)
    time, duration = first.expressions[0], first.expressions[1]
    overlaps = len(first.expressions) > _SLIDE and first.expressions[_SLIDE] != duration
    known = Filter(relation, not_(is_null(time.copy())))
    return Generated(known, first.copy(), (column,), (column,) if overlaps else ()), column
