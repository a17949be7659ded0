"""Statements for Spark in DuckDB's words."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

MACROS = (
    'CREATE MACRO "size"(xs) AS len(xs)',
    "CREATE MACRO raise_error(said) AS error(said)",
    'CREATE MACRO "get"(xs, i) AS list_extract(xs, i + 1)',
    'CREATE MACRO "sequence"(a, b) AS generate_series(a, b)',
    "CREATE MACRO bucket(d, wide) AS time_bucket(wide::INTERVAL, d, TIMESTAMPTZ '1970-01-01 00:00:00+00')",
    "CREATE MACRO time_window(d, wide) AS {'start': bucket(d, wide), 'end': bucket(d, wide) + wide::INTERVAL}",
    "CREATE MACRO time_windows(d, wide, slide) AS list_transform("
    "range((epoch(wide::INTERVAL) / epoch(slide::INTERVAL))::BIGINT), lambda i: "
    "{'start': bucket(d, slide) - i::INT * slide::INTERVAL, "
    "'end': bucket(d, slide) - i::INT * slide::INTERVAL + wide::INTERVAL})",
    "CREATE MACRO timestamp_seconds(s) AS to_timestamp(s)",
    "CREATE MACRO date_format(d, f) AS "
    "strftime(d, CASE f WHEN 'yyyy-MM-dd' THEN '%Y-%m-%d' WHEN 'HH:mm' THEN '%H:%M' END)",
)
"""Functions of Spark's that DuckDB does not have. (A window is a multiple of its slide.)"""


def in_duckdb(query: exp.Query) -> str:
    """The text of a query that nobody asks for another one."""
    for select in query.find_all(exp.Select):
        select.set("expressions", [one for item in select.expressions for one in _items(item)])
    return query.transform(_spoken, copy=False).sql(dialect="duckdb", copy=False)


def _items(item: exp.Expr) -> Iterator[exp.Expr]:
    """Functions that make rows are unnest here, once for each column."""
    call = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if name == "explode":
        yield exp.Alias(this=_unnested(call.expressions[0]), alias=item.args["alias"])
    elif name in ("posexplode", "posexplode_outer"):
        (array,) = call.expressions
        size = exp.Anonymous(this="len", expressions=[array.copy()])
        places: exp.Expr = exp.Anonymous(this="range", expressions=[size])
        if name == "posexplode_outer":
            places, array = (_or_null(one, size) for one in (places, array))
        for one, alias in zip((places, array), item.expressions, strict=True):
            yield exp.Alias(this=_unnested(one), alias=alias)
    elif name == "window" and len(call.expressions) > 2:
        windows = exp.Anonymous(this="time_windows", expressions=call.expressions)
        yield exp.Alias(this=_unnested(windows), alias=item.args["alias"])
    else:
        yield item


def _unnested(array: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="unnest", expressions=[array])


def _or_null(array: exp.Expr, size: exp.Expr) -> exp.Expr:
    nothing = exp.Anonymous(this="list_value", expressions=[exp.null()])
    some = exp.If(this=exp.GT(this=size.copy(), expression=exp.Literal.number(0)), true=array.copy())
    return exp.Case(ifs=[some], default=nothing)


def _spoken(node: exp.Expr) -> exp.Expr:
    condition: exp.Expr | None = None
    call = node
    if isinstance(node, exp.Filter):
        call, condition = node.this, node.expression.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    match name:
        case "collect_list" | "collect_set":
            return _listed(call.expressions[0], condition, distinct=name == "collect_set")
        case "mode":
            value = call.expressions[0]
            least = exp.Order(this=value, expressions=[exp.Ordered(this=value.copy(), nulls_first=False)])
            return exp.Anonymous(this="mode", expressions=[least])
        case "array":
            return exp.Anonymous(this="list_value", expressions=call.expressions)
        case "named_struct":
            pairs = zip(call.expressions[::2], call.expressions[1::2], strict=True)
            fields = [exp.PropertyEQ(this=exp.to_identifier(one.name), expression=value) for one, value in pairs]
            return exp.Struct(expressions=fields)
        case "window":
            return exp.Anonymous(this="time_window", expressions=call.expressions)
    return node


def _listed(value: exp.Expr, condition: exp.Expr | None, *, distinct: bool) -> exp.Expr:
    """Without NULL, and an empty list for nothing."""
    inner = value.expressions[0] if isinstance(value, exp.Distinct) else value
    some = exp.Not(this=exp.Is(this=exp.paren(inner.copy()), expression=exp.null()))
    where = some if condition is None else exp.and_(some, condition.copy())
    values = exp.Distinct(expressions=[inner]) if distinct or value is not inner else inner
    listed = exp.Filter(this=exp.Anonymous(this="list", expressions=[values]), expression=exp.Where(this=where))
    return exp.Coalesce(this=listed, expressions=[exp.Anonymous(this="list_value", expressions=[])])
