"""The partitions that an index knows, and the texts that follow when one comes or goes.

A partition that is attached may have rows already: its row triggers begin with the attachment, so all rows of before
are taken in once. A partition is known by its row trigger, which every ATTACH makes anew: one that was detached,
changed and attached again is another one. The entries of a partition that is detached or dropped are orphans: harmless,
because whoever needs such a key takes the entry over, and removed behind.
"""

from __future__ import annotations

from tidefill.indexes.entries import entry_at
from tidefill.indexes.shape import SCHEMA, Shape, listed, literal, parameters, same
from tidefill.jobs.sql_names import escaped, identifier

LEAVES = f"{SCHEMA}.index_leaves"
CHUNKS = f"{SCHEMA}.index_chunks"
ORPHANS = 1000
"""Orphans that are removed in one transaction."""

BLOCKS = 500
"""Blocks of entries that are searched for orphans at a time, some 50,000 entries. Each block is read once."""


def table() -> str:
    """The statement that makes the list of known partitions."""
    return (
        f"CREATE TABLE IF NOT EXISTS {LEAVES} (id text, leaf oid, row_trigger oid, PRIMARY KEY (id, leaf, row_trigger))"
    )


def _now(shape: Shape) -> str:
    return (
        f"SELECT t.tgrelid AS leaf, t.oid AS row_trigger FROM pg_partition_tree({shape.relation}) f "
        f"JOIN pg_trigger t ON t.tgrelid = f.relid AND t.tgname = {literal(f'!{shape.id}_row')} WHERE f.isleaf"
    )


def _known(shape: Shape) -> str:
    return f"SELECT leaf, row_trigger FROM {LEAVES} WHERE id = {literal(shape.id)}"


def remember_all(shape: Shape) -> str:
    """The statement that notes the partitions of now."""
    return f"INSERT INTO {LEAVES} SELECT {literal(shape.id)}, q.leaf, q.row_trigger FROM ({_now(shape)}) q"


def changed(shape: Shape) -> str:
    """A query: the name of a partition that is new, in SQL, with its row trigger, and whether a known one is gone."""
    new = f"SELECT leaf, row_trigger FROM ({_now(shape)} EXCEPT {_known(shape)}) q ORDER BY leaf LIMIT 1"
    gone = f"SELECT 1 FROM ({_known(shape)} EXCEPT {_now(shape)}) q"
    columns = f"n.leaf::regclass::text, n.row_trigger::bigint, EXISTS ({gone})"
    return f"SELECT {columns} FROM (SELECT 1) one LEFT JOIN ({new}) n ON true"


def rows_of(shape: Shape, leaf: str, after: bool, most: int) -> str:
    """A query: the primary keys of the next rows of one partition, as texts, in order. Its columns are called as the
    table's. `after`: the query has the primary key of the last row before as its parameters."""
    names = [escaped(identifier(column.name)) for column in shape.primary_key]
    where = f"WHERE ({', '.join(names)}) > ({parameters(shape)}) " if after else ""
    texts = ", ".join(f"{name}::text" for name in names)
    table = escaped(leaf) if after else leaf
    return f"SELECT {texts} FROM ONLY {table} {where}ORDER BY {', '.join(names)} LIMIT {most}"


def log_all(shape: Shape, leaf: str, log: int) -> str:
    """The statement that has all rows of a partition merged."""
    columns = ", ".join(identifier(column.name) for column in shape.primary_key)
    return f"INSERT INTO {shape.log(log)} ({listed(shape.p)}) SELECT {columns} FROM ONLY {leaf}"


def remember(shape: Shape, leaf: str, row_trigger: int) -> str:
    """The statement that notes one partition, by the row trigger that it had when its rows were read."""
    values = f"{literal(shape.id)}, {literal(leaf)}::regclass, {row_trigger}"
    return f"INSERT INTO {LEAVES} VALUES ({values}) ON CONFLICT DO NOTHING"


def suspect_orphans(shape: Shape, leaf: str) -> str:
    """The statement that has all entries searched for orphans, if the file of this partition is not its first one: it
    may have been truncated before it had the trigger for TRUNCATE. It notes a partition that was never there, as one
    that is gone."""
    rewritten = f"SELECT FROM pg_class WHERE oid = {literal(leaf)}::regclass AND relfilenode <> oid"
    return f"INSERT INTO {LEAVES} SELECT {literal(shape.id)}, 0, 0 WHERE EXISTS ({rewritten}) ON CONFLICT DO NOTHING"


# How far a partition has been taken in: one row among the checkpoints of the fill, under an id of its own.


def _checkpoint(shape: Shape, row_trigger: int) -> str:
    return literal(f"{shape.id}/{row_trigger}")


def reached(shape: Shape, row_trigger: int) -> str:
    """A query: the primary key of the last row that was taken in, as texts, and how many were."""
    return f"SELECT upto, rows FROM {CHUNKS} WHERE id = {_checkpoint(shape, row_trigger)}"


def note_reached(shape: Shape, row_trigger: int) -> str:
    """The statement that notes both; they are its parameters."""
    return (
        f"INSERT INTO {CHUNKS} (id, chunk, upto, rows) VALUES ({_checkpoint(shape, row_trigger)}, 0, %s, %s) "
        f"ON CONFLICT (id, chunk) DO UPDATE SET upto = EXCLUDED.upto, rows = EXCLUDED.rows"
    )


def forget_reached(shape: Shape, row_trigger: int) -> str:
    """The statement for a partition of which all rows are taken in."""
    return f"DELETE FROM {CHUNKS} WHERE id = {_checkpoint(shape, row_trigger)}"


def forget_all(shape: Shape) -> str:
    """The statements that forget all checkpoints and partitions of the index."""
    mine = literal(shape.id)
    return (
        f"DELETE FROM {CHUNKS} WHERE id = {mine} OR starts_with(id, {mine} || '/'); "
        f"DELETE FROM {LEAVES} WHERE id = {mine}"
    )


def forget_lost(shape: Shape) -> str:
    """The statement that forgets the partitions that are gone."""
    now = f"SELECT row_trigger FROM ({_now(shape)}) q"
    return f"DELETE FROM {LEAVES} WHERE id = {literal(shape.id)} AND row_trigger NOT IN ({now})"


def is_orphan(shape: Shape) -> str:
    """A condition on the entry `e`: no base row has it now."""
    return f"NOT EXISTS (SELECT 1 FROM {entry_at(shape, 'e.')} b WHERE {same(shape.k, 'b.', 'e.')})"


def orphans(shape: Shape, block: int) -> str:
    """A query: where orphans lie in the blocks of the entries from this one on."""
    place = f"e.ctid >= '({block},0)'::tid AND e.ctid < '({block + BLOCKS},0)'::tid"
    return f"SELECT e.ctid FROM {shape.entries} e WHERE {place} AND NOT e.dead AND {is_orphan(shape)}"


def blocks(shape: Shape) -> str:
    """A query: how many blocks the entries have."""
    return f"SELECT pg_relation_size('{shape.entries}') / current_setting('block_size')::bigint"
