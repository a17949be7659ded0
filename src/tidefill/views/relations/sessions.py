"""session_window(ts, '5 minutes'): rows that follow each other within a gap are one session, among the rows that are
equal in what else the query groups by.

A session begins with a row that has none up to a gap before it. So windows over these partitions find the beginning of
each row's session, and then the last row of the session:

| ts | the row before | begins | start | end, with a gap of 5 minutes |
|---|---|---|---|---|
| 10:00 | none | 10:00 | 10:00 | 10:08 |
| 10:03 | 10:00 | | 10:00 | 10:08 |
| 10:20 | 10:03 | 10:20 | 10:20 | 10:25 |

If rows come at 10:08, 10:13 and 10:16, all are one session, from 10:00 to 10:25. A row just a gap after the one before
it belongs to its session, and a row without a time to none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations.expressions import expression_of
from tidefill.views.relations.generators import is_session, select_of
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refused
from tidefill.views.relations.relations import Filter, Project, Relation, Windowed
from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.texts import HIDDEN, Expr, called, case, col, is_null, not_, plain, text

_SESSION = "session_window"
_SOURCE = f"{HIDDEN}session"
_GAP = re.compile(r"\s*([1-9]\d{0,6})\s+(second|minute|hour|day)s?\s*", re.IGNORECASE)
_PER_DAY = {"second": 86_400, "minute": 1440, "hour": 24, "day": 10_000_000}


def in_sessions(tree: exp.Select, relation: Relation, scope: Scope, names: Names) -> tuple[exp.Select, Relation, Scope]:
    """The query with a column in place of session_window(ts, ...), and the rows that have it. Raises BadSql or
    UnsupportedQuery."""
    calls = _calls(tree)
    if not calls:
        return tree, relation, scope
    first, *others = (expression_of(call, scope) for call in calls)
    if any(other != first for other in others):
        raise refused(calls[0], "a query has two different sessions", "Put one of them into a query in FROM.")
    relation, column = _with_session(relation, first, _beside(tree, calls[0], scope), names)
    tree = tree.copy()
    for call in _calls(tree):
        call.replace(exp.column(_SESSION, table=_SOURCE, quoted=True))
    source = Source(_SOURCE, ((_SESSION, column),), starred=False)
    return tree, relation, replace(scope, sources=(*scope.sources, source))


def _calls(tree: exp.Select) -> list[exp.Anonymous]:
    return [node for node in tree.find_all(exp.Anonymous) if is_session(node) and select_of(node) is tree]


def _beside(tree: exp.Select, call: Expr, scope: Scope) -> list[Expr]:
    """What else the query groups by."""
    clause = tree.args.get("group") or exp.Group()
    groups = [group.unnest() for group in clause.expressions]
    beside = [group for group in groups if not is_session(group)]
    if len(beside) == len(groups) or {name for name, value in clause.args.items() if value} != {"expressions"}:
        hint = "Write GROUP BY session_window(ts, '5 minutes'), and the same text in SELECT; no ROLLUP, CUBE or ALL."
        raise refused(call, "the query is not grouped by the session", hint)
    for group in beside:
        is_item = isinstance(group, exp.Column) and not group.table and not scope.has(group.name)
        if is_item or isinstance(group, exp.Literal):
            hint = "Write the expression itself, not the name or the number of an item of SELECT."
            raise refused(group, "a group beside a session is an item of SELECT", hint)
    return [expression_of(group, scope) for group in beside]


def _with_session(relation: Relation, call: Expr, beside: Sequence[Expr], names: Names) -> tuple[Relation, str]:
    """The rows with a time, and the column that holds the session of each."""
    if len(call.expressions) != 2:
        raise BadSql("session_window needs a time and a gap", detail=call.sql(dialect="spark"))
    time, gap = call.expressions[0], _gap(call)
    at, before, begins, start, last, session = map(names.fresh, ("at", "before", "begins", "start", "last", _SESSION))
    groups = [(names.fresh("beside"), value) for value in beside]
    known = Filter(relation, not_(is_null(time.copy())))
    rows: Relation = Project(known, (*plain(known.columns), (at, time), *groups), known.key)
    partition = [col(name) for name, _ in groups]
    in_order = [exp.Ordered(this=col(name), nulls_first=True) for name in (at, *rows.key)]
    rows = Windowed(rows, tuple(partition), ((before, _over(exp.Lag(this=col(at)), partition, in_order)),))
    first = case((exp.or_(is_null(col(before)), _is_apart(at, before, gap)), col(at)))
    rows = Project(rows, (*plain(rows.columns), (begins, first)), rows.key)
    found = _over(exp.Max(this=col(begins)), partition, in_order[:1])
    rows = Windowed(rows, tuple(partition), ((start, found),))
    whole = [*partition, col(start)]
    rows = Windowed(rows, tuple(whole), ((last, _over(exp.Max(this=col(at)), whole, ())),))
    end = exp.Add(this=col(last), expression=gap.copy())
    struct = called("named_struct", text("start"), col(start), text("end"), end)
    return Project(rows, (*plain(relation.columns), (session, struct)), relation.key), session


def _is_apart(at: str, before: str, gap: Expr) -> Expr:
    """Whether a time is more than a gap after the one before it."""
    return exp.GT(this=col(at), expression=exp.Add(this=col(before), expression=gap))


def _over(function: Expr, partition: Sequence[Expr], order: Sequence[exp.Ordered]) -> exp.Window:
    by = exp.Order(expressions=[one.copy() for one in order]) if order else None
    return exp.Window(this=function, partition_by=[one.copy() for one in partition], order=by, over="OVER")


def _gap(call: Expr) -> Expr:
    """The interval. Hours that make days are refused: a day may have 23 of them."""
    gap = call.expressions[1]
    found = _GAP.fullmatch(gap.this) if isinstance(gap, exp.Literal) and gap.is_string else None
    if found is None or int(found[1]) >= _PER_DAY[found[2].lower()]:
        hint = "Write it as '30 seconds', '10 minutes', '2 hours' or '3 days'; a day and more in days."
        raise refused(call, "the gap of a session is not one number of seconds, minutes, hours or days", hint)
    return exp.Interval(this=text(found[1]), unit=exp.Var(this=found[2].upper()))
