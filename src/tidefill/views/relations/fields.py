"""Names of struct fields that come from the names of columns.

Spark calls the fields of `struct(b.x, b.y)` x and y, after the columns. The compiler gives columns names of its own, so
it writes the user's names out before: `struct(b.x AS x, b.y AS y)`. Otherwise the compiler's names would be in the
view's types and, through `to_json`, in its values.
"""

from __future__ import annotations

from sqlglot import exp

from tidefill.views.relations.parts import refused
from tidefill.views.relations.texts import Expr, name

_STRUCT = "struct"
_NAMED_BY_COLUMNS = "arrays_zip"


def fields_named(tree: Expr) -> Expr:
    """The expression with an alias for each field that Spark would name after a column. Raises UnsupportedQuery for
    `arrays_zip` of a column: its fields cannot be given names."""
    return tree.copy().transform(_named)


def _named(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.In):
        return exp.Anonymous(this=_STRUCT, expressions=[_field(value) for value in node.expressions])
    if not isinstance(node, exp.Anonymous):
        return node
    if node.name.lower() == _STRUCT:
        node.set("expressions", [_field(value) for value in node.expressions])
    elif node.name.lower() == _NAMED_BY_COLUMNS and any(_column_name(value) for value in node.expressions):
        hint = "Write zip_with(a, b, (x, y) -> named_struct('a', x, 'b', y))."
        raise refused(node, "the fields of arrays_zip are named after columns", hint)
    return node


def _field(value: exp.Expr) -> exp.Expr:
    shown = _column_name(value)
    return exp.Alias(this=value, alias=name(shown)) if shown else value


def _column_name(value: exp.Expr) -> str:
    """The name that Spark takes from the expression, as the user wrote it; empty for all but columns and their
    fields."""
    inner = value.unnest()
    match inner:
        case exp.Column():
            return str(inner.name)
        case exp.Dot(expression=exp.Identifier() as field):
            return str(field.name)
    return ""
