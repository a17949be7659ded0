"""A query that is computed from nothing at each refresh. Nothing of it need be understood but which tables it reads,
and that it gives the same for the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidefill.core.state import Table
from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.functions import GENERATORS, names_of
from tidefill.views.reading.lexer import Source
from tidefill.views.reading.names import own_names
from tidefill.views.reading.refusals import check_repeatable

Names = tuple[str, ...]
_LIMITED = (
    "LIMIT: of rows that are equal in the ORDER BY, any may be shown. Order by enough columns to tell them apart."
)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """What the words of a query tell: the functions that it calls, and what a person should know of it."""

    functions: frozenset[str]
    notices: tuple[str, ...]


def repeatable(source: Source, tree: exp.Expr) -> Repeatable:
    """UnsupportedQuery if the query may give something else each time."""
    functions, notices = check_repeatable(source)
    if not isinstance(tree, exp.Query):
        raise UnsupportedQuery("the query does not begin with SELECT", hint="Write SELECT ..., or WITH ... SELECT.")
    for node in tree.walk():
        match node:
            case exp.TableSample():
                raise UnsupportedQuery("the query takes a sample of the rows", hint="Choose rows by a condition.")
            case exp.Table() if node.args.get("version") or node.args.get("when"):
                hint = "Leave it out: the view follows the table."
                raise UnsupportedQuery("the query reads one version of a table", hint=hint)
            case exp.Table(this=exp.Func() as function) if GENERATORS.isdisjoint(names_of(function)):
                hint = "Read tables by their names."
                raise UnsupportedQuery(f"the query reads a table function, {names_of(function)[0]}", hint=hint)
            case exp.Query() if node.args.get("limit") or node.args.get("offset"):
                if not node.args.get("order"):
                    hint = "Add an ORDER BY that tells all rows apart."
                    raise UnsupportedQuery("the query takes any rows (LIMIT without ORDER BY)", hint=hint)
                notices = (*notices, _LIMITED)
    called = {name for function in tree.find_all(exp.Func) for name in names_of(function)}
    known = frozenset(name for name in functions if "." in name or name in called)
    return Repeatable(known, tuple(dict.fromkeys(notices)))


def tables_of(tree: exp.Expr, known: Callable[[Names], object | None]) -> list[Names]:
    """The tables that the query names, each once. A name of its WITH must not be that of a table too: inside of the
    WITH it may mean either."""
    own = own_names(tree)
    found: dict[Names, None] = {}
    for table in _named(tree):
        parts = tuple(part.name for part in table.parts)
        if len(parts) > 1 or parts[0].casefold() not in own:
            found.setdefault(parts)
        elif known(parts) is not None:
            raise UnsupportedQuery(f"{parts[0]} is a table and a name of the query's WITH", hint="Rename the latter.")
    return list(found)


def over(tree: exp.Query, inputs: Mapping[str, Table]) -> exp.Query:
    """The query over frames: each table by the name that its input has, `inputs` by the table's name in lower case. Any
    other name is one of its WITH."""
    query = tree.copy()
    for table in _named(query):
        name = table.name
        if name.casefold() not in inputs:
            continue
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        table.set("this", exp.to_identifier(inputs[name.casefold()], quoted=True))
    return query


def _named(tree: exp.Expr) -> list[exp.Table]:
    return [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
