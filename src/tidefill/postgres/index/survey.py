"""Looks at a table that shall have an index, and has PostgreSQL itself read the wish.

The wish is tried on an empty copy of the table, in a transaction that is rolled back: PostgreSQL refuses what it cannot
index (an unknown column, a volatile expression, a type without an order), and says which columns an expression reads
and how it is written so that it means the same with any search path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from tidefill.errors import BadInput, NameTaken, TidefillError, UnknownTable, UnsupportedKey, UpstreamUnfit
from tidefill.indexes.shape import PATH, SCHEMA, Column, Shape
from tidefill.indexes.sizes import Sizes, sizes
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.server import translated

PROBE = "tidefill_probe"
ROW_BYTES = 100
"""How wide a row is taken to be in a table that was never analyzed."""

RIGHTS = {
    "pg_read_all_stats": "to name the query and the age of transactions that the job waits for",
    "pg_signal_backend": "for abort_waiting = on",
}
"""The roles without which an index can be made, and what each is for."""

NEEDED_RELEASE = 150000
"""PostgreSQL 15: the first one with NULLS NOT DISTINCT, which the key of the entries needs."""

ROWS = f"""
SELECT coalesce(sum(
  CASE WHEN l.reltuples > 0 THEN l.reltuples ELSE pg_relation_size(l.oid) / {ROW_BYTES} END), 0)::bigint
FROM pg_class l WHERE l.relkind = 'r'
  AND (l.oid = {{relation}} OR l.oid IN (SELECT relid FROM pg_partition_tree({{relation}})))
"""
"""A query: about how many rows a table has. `relation`: its oid, in SQL."""

_TABLE = f"""
SELECT c.oid::bigint AS relation, c.relkind::text AS kind, c.relrowsecurity AS row_security,
  c.relforcerowsecurity AS forces_row_security,
  pg_has_role(c.relowner, 'USAGE') AS is_owner, pg_get_userbyid(c.relowner) AS owner, current_user AS role,
  (SELECT rolbypassrls OR rolsuper FROM pg_roles WHERE rolname = current_user) AS passes_row_security,
  has_database_privilege(current_database(), 'CREATE') OR to_regnamespace(%(ours)s) IS NOT NULL AS may_make_schema,
  has_schema_privilege(c.relnamespace, 'CREATE') AS may_make_view,
  EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid AND c.relkind <> 'p') AS has_children,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND NOT i.indimmediate) AS deferrable,
  (SELECT string_agg(l.oid::regclass::text, ', ') FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid
    WHERE t.isleaf AND l.relkind = 'f') AS foreign_leaves,
  (SELECT string_agg(l.oid::regclass::text, ', ') FROM pg_class l
    WHERE l.relpersistence <> 'p' AND (l.oid = c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid))))
    AS unlogged,
  (SELECT string_agg(pubname, ', ') FROM pg_publication WHERE puballtables) AS publications,
  ({ROWS.format(relation="c.oid")}) AS rows,
  (SELECT array_agg(r ORDER BY r) FROM unnest(%(rights)s::text[]) r
    WHERE NOT pg_has_role(r, 'USAGE')) AS missing,
  (SELECT count(*) FROM pg_partition_tree(c.oid) WHERE isleaf) AS leaves,
  to_regclass(format('%%I.%%I', n.nspname, %(index)s::text))::text AS taken
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s
"""
_COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod
  FROM pg_attribute a WHERE a.attrelid = %(relation)s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT base.attnum, t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE base.typmod END
  FROM base JOIN pg_type t ON t.oid = base.type WHERE t.typtype = 'd'
)
SELECT a.attname AS name, format_type(t.oid, base.typmod) AS type,
  CASE WHEN a.attcollation <> 0 THEN format('%%I.%%I', cn.nspname, co.collname) ELSE '' END AS collation,
  a.attnum::int AS number, a.attgenerated::text AS generated, coalesce(co.collisdeterministic, true) AS deterministic,
  tn.nspname AS schema
FROM pg_attribute a JOIN base ON base.attnum = a.attnum
JOIN pg_type t ON t.oid = base.type AND t.typtype <> 'd' JOIN pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = %(relation)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_PRIMARY_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %(relation)s AND i.indisprimary ORDER BY k.place
"""
_WIDTHS = """
SELECT a.attnum::int, round(avg(s.avg_width))::int FROM pg_attribute a
JOIN pg_stats s ON s.attname = a.attname JOIN pg_class l ON l.relname = s.tablename
JOIN pg_namespace n ON n.oid = l.relnamespace AND n.nspname = s.schemaname
WHERE a.attrelid = %(relation)s AND a.attnum > 0
  AND (l.oid = a.attrelid OR l.oid IN (SELECT relid FROM pg_partition_tree(a.attrelid))) GROUP BY a.attnum
"""
_PROBED = f"""
SELECT (SELECT array_agg(pg_get_indexdef(i.indexrelid, n, false) ORDER BY n) FROM generate_series(1, i.indnkeyatts) n),
  pg_get_expr(i.indpred, i.indrelid),
  (SELECT array_agg(DISTINCT a.attname) FROM pg_depend d JOIN pg_attribute a
    ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid),
  i.indexrelid::bigint,
  (SELECT bool_and(c.opcdefault) FROM unnest(i.indclass::oid[]) k (oid) JOIN pg_opclass c ON c.oid = k.oid),
  (SELECT array_agg(DISTINCT n.nspname) FROM unnest(i.indclass::oid[]) k (oid) JOIN pg_opclass c ON c.oid = k.oid
    JOIN pg_namespace n ON n.oid = c.opcnamespace)
FROM pg_index i WHERE i.indexrelid = 'pg_temp.{PROBE}_key'::regclass
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An index as a user asked for it. The texts are PostgreSQL's SQL."""

    name: str
    schema: str
    table: str
    columns: tuple[str, ...]
    include: tuple[str, ...] = ()
    where: str = ""
    unique: bool = False
    nulls_not_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was found. `rows`: about how many the table has. `leaves`: how many partitions. `missing`: SQL that would
    give the role rights that it can do without, each with what it is for."""

    shape: Shape
    rows: int
    leaves: int
    sizes: Sizes
    notices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def survey(session: psycopg.Connection[Any], wanted: Wanted, index_id: str) -> Surveyed:
    """The shape of the index, or the first reason why there can be none."""
    name = f"{wanted.schema}.{wanted.table}"
    with translated(f"the table {name}"), session.transaction(force_rollback=True):
        table = _table(session, wanted)
        _check_table(name, table, wanted)
        columns = {one["name"]: one for one in _dicts(session, _COLUMNS, relation=table["relation"])}
        key = [columns[one] for (one,) in session.execute(_PRIMARY_KEY, {"relation": table["relation"]}).fetchall()]
        if not key:
            raise UpstreamUnfit(f"{name} has no primary key", hint=f"ALTER TABLE {name} ADD PRIMARY KEY (...)")
        include = [_column(columns, name, one) for one in wanted.include]
        shape = _probed(session, wanted, index_id, table["relation"], columns, key, include)
        _check_columns(name, [columns[one.name] for one in shape.used] + key + include)
        widths = dict(session.execute(_WIDTHS, {"relation": table["relation"]}).fetchall())
        estimate, missing = sizes(shape, table["rows"], widths), _missing(table)
        return Surveyed(shape, table["rows"], max(table["leaves"], 1), estimate, _notices(table), missing)


def _missing(table: dict[str, Any]) -> tuple[str, ...]:
    role = identifier(table["role"])
    return tuple(f"GRANT {right} TO {role} ({RIGHTS[right]})" for right in table["missing"] or ())


def _table(session: psycopg.Connection[Any], wanted: Wanted) -> dict[str, Any]:
    release = session.info.server_version
    if release < NEEDED_RELEASE:
        raise UpstreamUnfit(
            f"the server has release {release // 10000} of PostgreSQL", hint="A global index needs release 15 or newer."
        )
    found = _dicts(
        session, _TABLE, schema=wanted.schema, table=wanted.table, index=wanted.name, ours=SCHEMA,
        rights=list(RIGHTS),
    )  # fmt: skip
    if not found:
        raise UnknownTable(f"there is no table {wanted.schema}.{wanted.table}", hint="Name it connection.schema.table.")
    return found[0]


def _dicts(session: psycopg.Connection[Any], query: str, **values: Any) -> list[dict[str, Any]]:
    cursor = session.execute(query, values)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _check_table(name: str, table: dict[str, Any], wanted: Wanted) -> None:
    """Raise what stands in the way of any index over this table."""
    if wanted.schema in ("pg_catalog", "information_schema", SCHEMA):
        raise UpstreamUnfit(f"{name} is not a table of yours", hint="Name an ordinary or a partitioned table.")
    if table["kind"] not in ("r", "p"):
        raise UpstreamUnfit(f"{name} is no table", hint="Name an ordinary or a partitioned table.")
    if not table["is_owner"]:
        raise UpstreamUnfit(
            f"{name} belongs to {table['owner']}, and only its owner may add triggers",
            hint=f"GRANT {identifier(table['owner'])} TO {identifier(table['role'])}",
        )
    if table["has_children"]:
        raise UpstreamUnfit(f"{name} has tables that inherit from it", hint="Partition it instead.")
    if table["deferrable"]:
        raise UpstreamUnfit(f"the primary key of {name} is deferrable", hint="Make the key anew without DEFERRABLE.")
    if table["foreign_leaves"]:
        raise UpstreamUnfit(f"{name} has foreign partitions", detail=table["foreign_leaves"])
    if table["unlogged"]:
        raise UpstreamUnfit(
            f"{name} is not logged, or not all of it", detail=table["unlogged"], hint="ALTER TABLE ... SET LOGGED"
        )
    if table["row_security"]:
        raise UpstreamUnfit(
            f"{name} has row-level security, and the entries of an index would show keys to everybody",
            hint="An index over such a table cannot be made.",
        )
    if table["publications"]:
        raise UpstreamUnfit(
            "a publication FOR ALL TABLES would send our tables to its subscribers, which do not have them",
            detail=f"Publications: {table['publications']}.",
            hint="Name the tables of the publication one by one.",
        )
    _check_rights(name, table)
    if table["taken"]:
        raise NameTaken(
            f"{table['taken']} is there already", detail="The index is read by a view of its name.",
            hint="Choose another name for the index.",
        )  # fmt: skip


def _check_rights(name: str, table: dict[str, Any]) -> None:
    role = identifier(table["role"])
    if not table["may_make_schema"]:
        raise UpstreamUnfit(
            f"the role {table['role']} may not make the schema {SCHEMA}",
            hint=f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {role}",
        )
    if not table["may_make_view"]:
        schema = name.partition(".")[0]
        raise UpstreamUnfit(
            f"the role {table['role']} may not make a view in {schema}",
            hint=f"GRANT CREATE ON SCHEMA {identifier(schema)} TO {role}",
        )


def _column(columns: dict[str, Any], table: str, name: str) -> dict[str, Any]:
    if name not in columns:
        raise BadInput(f"{table} has no column {name}", hint=f"There is: {', '.join(columns)}.")
    found: dict[str, Any] = columns[name]
    return found


def _probed(
    session: psycopg.Connection[Any],
    wanted: Wanted,
    index_id: str,
    relation: int,
    columns: dict[str, Any],
    key: Sequence[dict[str, Any]],
    include: Sequence[dict[str, Any]],
) -> Shape:
    base = f"{identifier(wanted.schema)}.{identifier(wanted.table)}"
    where = f" WHERE ({wanted.where})" if wanted.where else ""
    session.execute(f"SET LOCAL search_path = {identifier(wanted.schema)}, public")
    session.execute(f"CREATE TEMP TABLE {PROBE} (LIKE {base})")
    try:
        session.execute(f"CREATE INDEX {PROBE}_key ON pg_temp.{PROBE} ({', '.join(wanted.columns)}){where}")
    except psycopg.Error as error:
        raise _refused(error, wanted) from error
    session.execute("SET LOCAL search_path = pg_catalog")
    found = session.execute(_PROBED).fetchone()
    assert found is not None, "the probe was just made"
    texts, predicate, used, probe, default, schemas = found
    if not default:
        raise UnsupportedKey("an operator class other than the type's own is asked for", hint="Leave it out.")
    if not used:
        raise UnsupportedKey("the key reads no column of the table", hint="Name a column, or an expression over some.")
    typed = _dicts(session, _COLUMNS, relation=probe)
    _check_columns(f"{wanted.schema}.{wanted.table}", typed)
    numbers = {text: one["number"] for name, one in columns.items() for text in (name, identifier(name))}
    keys = tuple(
        Column(text, one["type"], one["collation"], numbers.get(text, 0))
        for text, one in zip(texts, typed, strict=True)
    )
    path = (*PATH, *sorted({*schemas, *(one["schema"] for one in key)} - set(PATH)))
    shape = Shape(
        index_id, wanted.name, wanted.schema, wanted.table, relation,
        tuple(map(_named, key)), keys, tuple(_named(columns[one]) for one in columns if one in used),
        tuple(map(_named, include)), predicate or "", wanted.unique, path,
    )  # fmt: skip
    return replace(shape, hashes=_hashes(session, shape), nulls_not_distinct=wanted.nulls_not_distinct)


def _named(column: dict[str, Any]) -> Column:
    return Column(column["name"], column["type"], column["collation"], column["number"])


def _refused(error: psycopg.Error, wanted: Wanted) -> TidefillError:
    """What PostgreSQL says of the wish, in a word of our own tree."""
    detail = (str(error).strip().splitlines() or [type(error).__name__])[0]
    match error:
        case psycopg.errors.UndefinedColumn():
            return BadInput(f"the index {wanted.name} names a column that is not there", detail=detail)
        case psycopg.errors.InvalidObjectDefinition():
            hint = "Use functions that PostgreSQL knows to be IMMUTABLE."
            return UnsupportedKey(
                f"the index {wanted.name} has an expression that may change", detail=detail, hint=hint
            )
        case psycopg.errors.UndefinedObject():
            return UnsupportedKey(f"the index {wanted.name} has a key whose type has no order", detail=detail)
        case _:
            return BadInput(f"the index {wanted.name} cannot be made", detail=detail)


def _check_columns(table: str, columns: Sequence[dict[str, Any]]) -> None:
    for column in columns:
        if not column["deterministic"]:
            raise UnsupportedKey(
                f"{column['name']} of {table} has a collation that takes different texts for equal",
                hint="Index an expression with another COLLATE.",
            )
        if column["generated"] == "v":
            raise UnsupportedKey(
                f"{column['name']} of {table} is a virtual generated column",
                hint="Index its expression, or make it STORED.",
            )


def _hashes(session: psycopg.Connection[Any], shape: Shape) -> bool:
    row = ", ".join(f"NULL::{column.type}" for column in (*shape.keys, *shape.primary_key))
    try:
        with session.transaction():
            session.execute(f"SELECT hash_record_extended(ROW({row}), 0)")
    except psycopg.errors.UndefinedFunction:
        return False
    return True


def _notices(table: dict[str, Any]) -> tuple[str, ...]:
    if table["kind"] == "r":
        return ("the table is not partitioned: CREATE INDEX CONCURRENTLY of PostgreSQL itself would do",)
    return ()
