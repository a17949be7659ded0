"""The tables of an index, and the functions that compute an entry from a row of the base table.

Every function that names a column of the base table is written BEGIN ATOMIC, so that PostgreSQL follows a RENAME.
  x_key(raw columns)    whether the row is in the index, and its key
  x_try(raw columns)    the same; no row at all if the key cannot be computed
  x_of(base row)        whether the row is in the index, and its entry
  x_at(primary key)     the entry of the base row that has this primary key now; none if there is no such row
  x_raw(base row)       the primary key and the raw columns, as the log keeps them
  x_leaf(oid)           the primary keys of all rows of one partition
"""

from __future__ import annotations

from tidefill.indexes.shape import LOGS, Shape, arguments, listed
from tidefill.jobs.sql_names import identifier

WIDE_BYTES = 2600
"""Keys above this size may not fit into a btree entry, whose limit is 2,704 bytes."""


NOT_THE_KEY = "WHEN serialization_failure OR deadlock_detected OR lock_not_available THEN RAISE;"
"""What an attempt to compute a key does not swallow: errors that say nothing of the key."""


def tables(shape: Shape) -> list[str]:
    """The statements that make the tables. The entries have no key yet: `key_index` makes it. REPLICA IDENTITY FULL:
    else a publication FOR ALL TABLES would have the server refuse our deletes."""
    nullable, primary = shape.declared((*shape.k, *shape.i, *shape.d)), shape.declared(shape.p, " NOT NULL")
    made = [
        f"CREATE TABLE {shape.entries} ({nullable}, {primary}, dead boolean NOT NULL DEFAULT false)",
        f"ALTER TABLE {shape.entries} REPLICA IDENTITY FULL",
        f"CREATE INDEX {shape.id}_nulls ON {shape.entries} ({listed(shape.d)}) WHERE d1 IS NOT NULL",
        f"CREATE INDEX {shape.id}_dead ON {shape.entries} (dead) WHERE dead",  # a look for them reads nothing else
    ]
    for number in LOGS:
        log = shape.log(number)
        columns = shape.declared((*shape.p, *shape.u))
        made += [
            f"CREATE TABLE {log} ({columns}, had boolean NOT NULL DEFAULT false)",
            f"ALTER TABLE {log} REPLICA IDENTITY FULL",
            f"CREATE INDEX ON {log} ({listed(shape.p)})",
        ]
    return made


def key_index(shape: Shape) -> str:
    """The statement that builds the key of the entries."""
    columns = listed(shape.identity)
    return f"CREATE UNIQUE INDEX {shape.id}_key ON {shape.entries} ({columns}) NULLS NOT DISTINCT"


def row_functions(shape: Shape) -> list[str]:
    """The statements that make the functions of this module."""
    return [_key(shape), _try(shape), _of(shape), _at(shape), _raw(shape), _leaf(shape)]


def _key(shape: Shape) -> str:
    """The key is computed only if the predicate holds: an expression may fail for the rows that it leaves out."""
    where = shape.where or "true"
    keys = ", ".join(f"CASE WHEN ({where}) THEN ({key.name}) END" for key in shape.keys)
    columns = ", ".join(f"${at} AS {identifier(column.name)}" for at, column in enumerate(shape.used, 1))
    return (
        f"CREATE FUNCTION {shape.function('key')} ({shape.types(shape.u)}) "
        f"RETURNS TABLE (ok boolean, {shape.typed(shape.k)}) LANGUAGE sql IMMUTABLE{_parallel(shape)} BEGIN ATOMIC "
        f"SELECT coalesce(({where}), false), {keys} FROM (SELECT {columns}) AS tidefill_row; END"
    )


def _parallel(shape: Shape) -> str:
    """Columns can be read by several processes of the server at once; whether an expression can, only its author
    knows. It matters where all rows are compared."""
    return " PARALLEL SAFE" if shape.is_plain else ""


def _try(shape: Shape) -> str:
    raw = ", ".join(f"${at}" for at in range(1, len(shape.u) + 1))
    return (
        f"CREATE FUNCTION {shape.function('try')} ({shape.types(shape.u)}) "
        f"RETURNS TABLE (ok boolean, {shape.typed(shape.k)}) LANGUAGE plpgsql IMMUTABLE AS $q$\n"
        f"#variable_conflict use_column\nBEGIN RETURN QUERY SELECT * FROM {shape.function('key')} ({raw}); "
        f"EXCEPTION {NOT_THE_KEY} WHEN OTHERS THEN RETURN; END $q$"
    )


def _of(shape: Shape) -> str:
    has_null = " OR ".join(f"z.{name} IS NULL" for name in shape.k)
    base_key = [f"($1).{identifier(column.name)}" for column in shape.primary_key]
    included = [f"($1).{identifier(column.name)}" for column in shape.include]
    entry = [*(f"z.{name}" for name in shape.k), *base_key, *included]
    entry += [f"CASE WHEN {has_null} THEN {one} END" for one in base_key]
    raw = ", ".join(f"($1).{identifier(column.name)}" for column in shape.used)
    return (
        f"CREATE FUNCTION {shape.function('of')} ({shape.base}) "
        f"RETURNS TABLE (ok boolean, {shape.typed(shape.columns)}) "
        f"LANGUAGE sql IMMUTABLE{_parallel(shape)} BEGIN ATOMIC "
        f"SELECT z.ok, {', '.join(entry)} FROM {shape.function('key')} ({raw}) z; END"
    )


def _at(shape: Shape) -> str:
    found = " AND ".join(f"t.{identifier(one.name)} = ${at}" for at, one in enumerate(shape.primary_key, 1))
    return (
        f"CREATE FUNCTION {shape.function('at')} ({shape.types(shape.p)}) "
        f"RETURNS TABLE ({shape.typed(shape.columns)}) LANGUAGE sql STABLE BEGIN ATOMIC "
        f"SELECT {listed(shape.columns, 'z.')} FROM (SELECT t FROM {shape.base} t WHERE {found} {newest_version()}) q "
        f"CROSS JOIN LATERAL {shape.function('of')} (q.t) z WHERE z.ok; END"
    )


def newest_version() -> str:
    """The end of a query for the base row `t` of one primary key. A REPEATABLE READ writer may see two such rows: one
    that somebody has deleted since its snapshot (so it has an xmax), and the one that it has inserted itself since."""
    return "ORDER BY t.xmax::text <> '0', age(t.xmin) LIMIT 1"


def _raw(shape: Shape) -> str:
    columns = ", ".join(f"($1).{identifier(one.name)}" for one in (*shape.primary_key, *shape.used))
    return (
        f"CREATE FUNCTION {shape.function('raw')} ({shape.base}) "
        f"RETURNS TABLE ({shape.typed((*shape.p, *shape.u))}) LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT {columns}; END"
    )


def _leaf(shape: Shape) -> str:
    columns = ", ".join(f"t.{identifier(one.name)}" for one in shape.primary_key)
    return (
        f"CREATE FUNCTION {shape.function('leaf')} (oid) RETURNS TABLE ({shape.typed(shape.p)}) "
        f"LANGUAGE sql STABLE BEGIN ATOMIC SELECT {columns} FROM {shape.base} t WHERE t.tableoid = $1; END"
    )


def settings(shape: Shape) -> str:
    """What every function of ours with a body of statements is pinned to. `force_generic_plan`: a trigger is called
    with one row at a time, and planning each would cost four times as much as running it."""
    return f"{pinned(shape)} SET plan_cache_mode = force_generic_plan"


def pinned(shape: Shape) -> str:
    """A function of ours finds names and rows the same way, whoever calls it."""
    path = ", ".join(identifier(one) for one in (*shape.path, "pg_temp"))
    return f"SET search_path = {path} SET row_security = off"


def key_bytes(shape: Shape, of: str) -> str:
    """About how wide the key of an entry is, with all that tells two entries apart."""
    return " + ".join(f"coalesce(pg_column_size({of}{name}), 0)" for name in shape.identity)


def entry_at(shape: Shape, of: str = "") -> str:
    """`x_at (p1, p2)`: the entry of the base row now, for the primary key of the row `of`, or of the function's own
    arguments."""
    return f"{shape.function('at')} ({listed(shape.p, of) if of else arguments(shape)})"
