"""What a server says of one table, its publication and its slot, in one question: what it is, and whether it is still
what it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tidefill.core.budget import Kept
from tidefill.errors import HistoryGone, NotYet, UnknownTable, UpstreamReplaced, UpstreamUnfit
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.log import lsn_number
from tidefill.postgres.server import translated
from tidefill.postgres.types import PgColumn, mapped

RESYNC = "RESYNC the job to build it anew."
ORDINARY, PARTITIONED = "r", "p"
LOGGED = "p"
IDENTITY_DEFAULT, IDENTITY_FULL, IDENTITY_INDEX = "d", "f", "i"

_USABLE = "s.plugin = 'pgoutput' AND s.database = current_database() AND s.wal_status IS DISTINCT FROM 'lost'"
# A slot that is still being made has no position, and at its very beginning no plugin.
_BEING_MADE = "s.slot_type = 'logical' AND s.confirmed_flush_lsn IS NULL AND s.wal_status IS DISTINCT FROM 'lost'"
_CONFIRMED = f"""
SELECT s.confirmed_flush_lsn::text FROM pg_replication_slots s WHERE s.slot_name = %s AND ({_USABLE} OR {_BEING_MADE})
"""
_KEPT = """
SELECT (pg_current_wal_lsn() - s.restart_lsn)::bigint, (pg_current_wal_lsn() - s.confirmed_flush_lsn)::bigint,
  s.safe_wal_size
FROM pg_replication_slots s WHERE s.slot_name = %s
"""
_IS_LOST = "SELECT FROM pg_replication_slots s WHERE s.slot_name = %s AND s.wal_status = 'lost'"
_SURVEY = """
WITH RECURSIVE root AS (
  SELECT c.oid, c.relkind, c.relname, n.nspname
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = %(schema)s AND c.relname = %(table)s
), leaf AS (
  SELECT c.oid, c.relreplident, c.relname, n.nspname, c.relkind, c.relpersistence, c.relfilenode
  FROM root
  JOIN pg_class c ON c.oid IN (SELECT relid FROM pg_partition_tree(root.oid) WHERE isleaf)
    OR (root.relkind <> 'p' AND c.oid = root.oid)
  JOIN pg_namespace n ON n.oid = c.relnamespace
), base AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod
  FROM root JOIN pg_attribute a ON a.attrelid = root.oid AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT base.attnum, t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE base.typmod END
  FROM base JOIN pg_type t ON t.oid = base.type WHERE t.typtype = 'd'
)
SELECT json_build_object(
  'system', (SELECT system_identifier::text FROM pg_control_system()),
  'timeline', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
  'database', (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
  'encoding', getdatabaseencoding(),
  'relation', root.oid::bigint,
  'kind', root.relkind,
  'children', EXISTS (SELECT FROM pg_inherits WHERE inhparent = root.oid AND root.relkind <> 'p'),
  'rows', (SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM leaf JOIN pg_class c ON c.oid = leaf.oid),
  'columns', (
    SELECT json_agg(json_build_array(
      a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), t.typname,
      CASE WHEN t.typelem <> 0 AND t.typsubscript::text = 'array_subscript_handler' THEN 'a' ELSE t.typtype END,
      base.typmod, a.attnotnull,
      CASE WHEN a.attcollation = 0 THEN true ELSE (
        SELECT co.collcollate IN ('C', 'POSIX')
          OR (co.oid = 100 AND (SELECT datcollate IN ('C', 'POSIX') AND datlocprovider = 'c'
                                FROM pg_database WHERE datname = current_database()))
        FROM pg_collation co WHERE co.oid = a.attcollation) END,
      a.atthasdef OR a.atthasmissing OR a.attidentity <> '' OR a.attgenerated <> ''
        OR (SELECT d.typdefault IS NOT NULL FROM pg_type d WHERE d.oid = a.atttypid),
      a.xmin::text || coalesce((SELECT md5(pg_get_expr(d.adbin, d.adrelid)) FROM pg_attrdef d
        WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated <> ''), ''),
      a.attgenerated <> '',
      a.attcollation = 0 OR (SELECT co.collisdeterministic FROM pg_collation co WHERE co.oid = a.attcollation)
    ) ORDER BY a.attnum)
    FROM pg_attribute a
    JOIN base ON base.attnum = a.attnum JOIN pg_type t ON t.oid = base.type AND t.typtype <> 'd'
    WHERE a.attrelid = root.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'key', (
    SELECT json_agg(a.attname ORDER BY place.number)
    FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS place(attnum, number)
    JOIN pg_attribute a ON a.attrelid = root.oid AND a.attnum = place.attnum
    WHERE i.indrelid = root.oid AND i.indisprimary),
  'deferrable', EXISTS (SELECT FROM pg_index i WHERE i.indrelid = root.oid AND i.indisprimary AND NOT i.indimmediate),
  'leaves', (
    SELECT json_agg(json_build_array(
      leaf.oid::bigint, leaf.relreplident, leaf.relkind, leaf.nspname, leaf.relname,
      leaf.relpersistence, leaf.relfilenode::bigint,
      coalesce((SELECT string_agg(i.xmin::text, ',' ORDER BY i.inhrelid) FROM pg_inherits i
        WHERE i.inhrelid IN (SELECT relid FROM pg_partition_ancestors(leaf.oid)) AND i.inhrelid <> root.oid), ''),
      (SELECT json_agg(a.attname) FROM pg_index i JOIN pg_attribute a ON a.attrelid = leaf.oid
         AND a.attnum = ANY (i.indkey::int2[]) WHERE i.indrelid = leaf.oid AND i.indisreplident),
      EXISTS (SELECT FROM pg_publication_tables p WHERE p.pubname = %(publication)s
        AND p.schemaname = leaf.nspname AND p.tablename = leaf.relname),
      (SELECT p.rowfilter IS NOT NULL FROM pg_publication_tables p WHERE p.pubname = %(publication)s
        AND p.schemaname = leaf.nspname AND p.tablename = leaf.relname)
      ) ORDER BY leaf.oid)
    FROM leaf),
  'publication', (
    SELECT json_build_object('oid', p.oid::bigint, 'xmin', p.xmin::text, 'via_root', p.pubviaroot,
      'all', p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
      'tables', (SELECT json_agg(json_build_array(r.oid::bigint, r.xmin::text) ORDER BY r.oid)
        FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = root.oid
          OR r.prrelid IN (SELECT oid FROM leaf)
          OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(root.oid)))))
    FROM pg_publication p WHERE p.pubname = %(publication)s),
  'slot', (
    SELECT json_build_object('confirmed', CASE WHEN {usable} THEN s.confirmed_flush_lsn::text END)
    FROM pg_replication_slots s WHERE s.slot_name = %(slot)s)
) FROM root
""".replace("{usable}", _USABLE)


def _qualified(schema: str, name: str) -> str:
    return f"{identifier(schema)}.{identifier(name)}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of the table that has rows of its own; of an ordinary table it is the table. `identity` is its replica
    identity, `identity_columns` those of the index that is named there. `file` is another one whenever it was
    rewritten, `attached` is another text whenever it was attached anew."""

    oid: int
    identity: str
    kind: str
    schema: str
    name: str
    persistence: str
    file: int
    attached: str
    identity_columns: tuple[str, ...]
    published: bool
    filtered: bool

    @property
    def sql(self) -> str:
        """Its name."""
        return _qualified(self.schema, self.name)

    @property
    def mark(self) -> str:
        """What tells it from any other part, and from itself if it was away."""
        return f"{self.oid}:{self.attached}"


@dataclass(frozen=True, slots=True)
class Survey:
    """One look. `publication` tells whether it was altered; `confirmed` is the slot's position, None without one that
    can be used."""

    identity: str
    kind: str
    encoding: str
    has_children: bool
    rows: int
    columns: tuple[PgColumn, ...]
    key: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    publication: str
    publishes_all: bool
    via_root: bool
    has_slot: bool
    confirmed: int | None
    deferrable: bool

    def column(self, name: str) -> PgColumn:
        """By name."""
        return next(column for column in self.columns if column.name == name)

    def notices(self) -> tuple[str, ...]:
        """What a person should know of its columns."""
        return tuple(notice for column in self.columns if (notice := mapped(column).notice))

    def carried(self) -> dict[str, Any]:
        """What has to be known later to see what changed."""
        return {
            "columns": [[one.number, one.name, one.declared, one.mark] for one in self.columns],
            "key": list(self.key),
            "leaves": {leaf.mark: leaf.file for leaf in self.leaves},
            "publication": self.publication,
        }


@dataclass(frozen=True, slots=True)
class PgTable:
    """A table by name, and what we read it through."""

    schema: str
    name: str
    publication: str
    slot: str

    @property
    def sql(self) -> str:
        """Its name."""
        return _qualified(self.schema, self.name)

    def survey(self, session: psycopg.Connection[Any]) -> Survey:
        """Look. UnknownTable if it is not there."""
        words = {"schema": self.schema, "table": self.name, "publication": self.publication, "slot": self.slot}
        with translated(f"the table {self.schema}.{self.name}"):
            row = session.execute(_SURVEY, words).fetchone()
        if row is None:
            raise UnknownTable(f"there is no table {self.schema}.{self.name}")
        return _survey(row[0])

    def confirmed(self, session: psycopg.Connection[Any]) -> int | None:
        """The slot's position alone; None without a slot that can be used. NotYet while the server still makes the
        slot: it waits for the transactions that were open when it began."""
        with translated(f"the slot {self.slot}"):
            row = session.execute(_CONFIRMED, (self.slot,)).fetchone()
        if row is not None and row[0] is None:
            raise NotYet(
                f"the slot {self.slot} is still being made",
                detail="The server waits for transactions that were open when it began.",
                hint="End old transactions: pg_stat_activity shows them.",
            )
        return None if row is None else lsn_number(row[0])

    def is_lost(self, session: psycopg.Connection[Any]) -> bool:
        """Whether the server has thrown away log that the slot needed."""
        with translated(f"the slot {self.slot}"):
            return session.execute(_IS_LOST, (self.slot,)).fetchone() is not None


def kept_by(session: psycopg.Connection[Any], slot: str) -> Kept | None:
    """What the slot keeps: nothing if the server has thrown it away. None if there is no such slot."""
    with translated(f"the slot {slot}"):
        row = session.execute(_KEPT, (slot,)).fetchone()
    if row is None:
        return None
    total, ours, left = row
    return Kept(max(0, total), max(0, ours or 0), left) if total is not None else Kept()


def _survey(found: dict[str, Any]) -> Survey:
    publication, slot = found["publication"] or {}, found["slot"] or {}
    identity = [found[name] for name in ("system", "timeline", "database", "relation")]
    known = {name: publication.get(name) for name in ("oid", "xmin", "tables")}
    return Survey(
        identity="/".join(map(str, identity)),
        kind=found["kind"],
        encoding=found["encoding"],
        has_children=found["children"],
        rows=int(found["rows"]),
        columns=tuple(PgColumn(*column) for column in found["columns"] or ()),
        key=tuple(found["key"] or ()),
        leaves=tuple(_leaf(part) for part in found["leaves"] or ()),
        publication=json.dumps(known, sort_keys=True) if publication else "",
        publishes_all=bool(publication.get("all")),
        via_root=bool(publication.get("via_root")),
        has_slot=bool(slot),
        confirmed=lsn_number(slot["confirmed"]) if slot.get("confirmed") else None,
        deferrable=found["deferrable"],
    )


def _leaf(found: Sequence[Any]) -> Leaf:
    oid, identity, kind, schema, name, persistence, file, attached, columns, published, filtered = found
    return Leaf(
        oid, identity, kind, schema, name, persistence, file, attached,
        tuple(columns or ()), published, bool(filtered),
    )  # fmt: skip


def check_fit(table: PgTable, seen: Survey) -> None:
    """UpstreamUnfit with the statement that mends it, if the table cannot be followed."""
    name = table.sql
    if seen.kind not in (ORDINARY, PARTITIONED):
        raise UpstreamUnfit(f"{name} is no table", hint="Name an ordinary or a partitioned table.")
    if seen.encoding != "UTF8":
        raise UpstreamUnfit(f"the database is encoded in {seen.encoding}", hint="Only UTF8 is read.")
    if seen.has_children:
        raise UpstreamUnfit(f"{name} has tables that inherit from it", hint="Partition it, or copy them one by one.")
    if not seen.key:
        raise UpstreamUnfit(f"{name} has no primary key", hint=f"ALTER TABLE {name} ADD PRIMARY KEY (...)")
    if seen.deferrable:
        raise UpstreamUnfit(
            f"the primary key of {name} is deferrable",
            detail="PostgreSQL refuses updates and deletes of a published table whose key is.",
            hint="Make the key anew without DEFERRABLE.",
        )
    if any(seen.column(column).generated for column in seen.key):
        raise UpstreamUnfit(f"the primary key of {name} is generated", hint="The log does not tell such columns.")
    for leaf in seen.leaves:
        _check_leaf(leaf, seen.key)


def _check_leaf(leaf: Leaf, key: Sequence[str]) -> None:
    if leaf.kind != ORDINARY:
        raise UpstreamUnfit(f"{leaf.sql} is a foreign table", hint="Its changes are not in the log of this server.")
    if leaf.persistence != LOGGED:
        raise UpstreamUnfit(f"the log does not have {leaf.sql}", hint=f"ALTER TABLE {leaf.sql} SET LOGGED")
    tells_key = leaf.identity in (IDENTITY_DEFAULT, IDENTITY_FULL) or (
        leaf.identity == IDENTITY_INDEX and set(key) <= set(leaf.identity_columns)
    )
    if not tells_key:
        raise UpstreamUnfit(
            f"the log does not tell the key of rows that are deleted from {leaf.sql}",
            hint=f"ALTER TABLE {leaf.sql} REPLICA IDENTITY DEFAULT",
        )


def check_published(table: PgTable, seen: Survey) -> None:
    """UpstreamUnfit if the publication leaves something out."""
    publication = identifier(table.publication)
    if not seen.publication:
        raise UpstreamUnfit(
            f"there is no publication {table.publication}",
            hint=f"CREATE PUBLICATION {publication} FOR TABLE {table.sql}",
        )
    if seen.via_root:
        raise UpstreamUnfit(
            f"the publication {table.publication} hides which partition changed",
            detail="A TRUNCATE of one partition is not in the log then.",
            hint=f"ALTER PUBLICATION {publication} SET (publish_via_partition_root = false)",
        )
    if not seen.publishes_all:
        raise UpstreamUnfit(
            f"the publication {table.publication} leaves out some kinds of changes",
            hint=f"ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate')",
        )
    for leaf in seen.leaves:
        if leaf.filtered or not leaf.published:
            raise UpstreamUnfit(
                f"the publication {table.publication} leaves out rows of {leaf.sql}",
                hint=f"ALTER PUBLICATION {publication} SET TABLE {table.sql}",
            )


def log_gone(table: PgTable) -> HistoryGone:
    """The stop when the server's own limit was reached."""
    return HistoryGone(
        f"the server has thrown away log that the slot {table.slot} still needed",
        detail="Its max_slot_wal_keep_size, or another limit for slots, allows no more.",
        hint=RESYNC,
    )


def check_same(table: PgTable, carried: dict[str, Any], identity: str, seen: Survey) -> None:
    """UpstreamReplaced or HistoryGone if what was known of the table then does not lead to what it is now."""
    if seen.identity != identity:
        raise UpstreamReplaced(
            f"{table.sql} is another table now, or of another server",
            detail=f"Its identity was {identity} and is {seen.identity}.",
            hint=RESYNC,
        )
    if seen.publication != carried["publication"]:
        raise HistoryGone(
            f"the publication {table.publication} was altered or made anew",
            detail="Changes may be missing from the log.",
            hint=RESYNC,
        )
    now = {column.number: (column.name, column.declared) for column in seen.columns}
    if list(seen.key) != carried["key"]:
        raise UpstreamReplaced(f"{table.sql} has another primary key now", hint=RESYNC)
    for number, name, declared, _ in carried["columns"]:
        if now.get(number) != (name, declared):
            became = now.get(number)
            is_now = "is gone" if became is None else f"is {became[0]} {became[1]} now"
            raise UpstreamReplaced(f"column {name} {declared} of {table.sql} {is_now}", hint=RESYNC)
    try:
        check_fit(table, seen)
        check_published(table, seen)
    except UpstreamUnfit as error:
        raise HistoryGone(error.fact, detail=error.detail, hint=f"{error.hint}; then {RESYNC}") from error
