"""Fills the entries: the server reads chunks of the base table by ranges of its primary key, and writes their entries.

Each chunk is one transaction with its checkpoint, so a runner that dies repeats at most one chunk. Chunks may have
different snapshots, because every change since the install is in a log (bulk), or in the entries (initput).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg import errors

from tidefill.errors import CommitConflict, NotYet, TidefillError
from tidefill.indexes.control import CONTROL, Control
from tidefill.indexes.entries import WIDE_BYTES, key_bytes, key_index
from tidefill.indexes.leaves import CHUNKS
from tidefill.indexes.shape import Shape, as_texts, equal, listed, not_null, parameters, same
from tidefill.jobs.sql_names import escaped, identifier
from tidefill.postgres.index import pressure
from tidefill.postgres.index.repair import put_right, unindexable
from tidefill.postgres.index.session import BAD_KEY, BAD_VALUE, IndexSession, told

BATCH_LOCK_MS = 100
"""How long a batch of initput waits for a writer's row, before it is cut in half."""

PUT_ROWS = 5000
"""Rows of one batch of initput: a writer that meets one of its entries waits until the batch is committed."""


PLANNED = "planned"
"""Checkpoints of this kind are of chunks that have bounds, and are filled or not. Those of the kind "" are filled."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How far the fill is. `upto`: the primary key of the last row, as texts; None before the first chunk. `batch`: how
    many rows a batch of initput had, if it had to be made smaller because of a writer's lock. `blocked`: how many
    sessions waited for the locks of the last chunk when it ended. `left`: the numbers of the chunks before `upto` that
    are not filled yet; of a fill through Spark, of the ranges that are not loaded yet. Of a fill through Spark alone:
    `is_read`: all rows are staged; `loaded`: the rows of the ranges that are loaded; `events`: what the last step has
    to tell."""

    chunks: int = 0
    rows: int = 0
    upto: tuple[str, ...] | None = None
    is_done: bool = False
    batch: int | None = None
    blocked: int = 0
    is_read: bool = False
    left: tuple[int, ...] = ()
    loaded: int = 0
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The base rows whose primary key lies behind `after`, and not behind `upto`; None: without that bound."""

    number: int
    after: tuple[str, ...] | None
    upto: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the fill of one chunk has done: see `Filled`."""

    rows: int
    blocked: int = 0
    batch: int | None = None


def filled(session: IndexSession) -> Filled:
    """What the checkpoints say. The last chunk has no upper bound."""
    done, planned = _checkpoints(session)
    ends = planned | {number: upto for number, (upto, _) in done.items()}
    if not ends:
        return Filled()
    last, left = ends[max(ends)], tuple(sorted(planned.keys() - done.keys()))
    rows = sum(count for _, count in done.values())
    return Filled(len(ends), rows, last, last is None and not left, left=left)


def unfilled(session: IndexSession) -> list[Chunk]:
    """The chunks that are planned and not filled, in their order."""
    done, planned = _checkpoints(session)
    ends = planned | {number: upto for number, (upto, _) in done.items()}
    return [Chunk(number, ends.get(number - 1), planned[number]) for number in sorted(planned.keys() - done.keys())]


Ends: TypeAlias = dict[int, tuple[str, ...] | None]


def _checkpoints(session: IndexSession) -> tuple[dict[int, tuple[tuple[str, ...] | None, int]], Ends]:
    """By the numbers of chunks: where each ends that is filled, and its rows; where each ends that was planned."""
    own, planned = checkpoints_id(session.shape, ""), checkpoints_id(session.shape, PLANNED)
    found = session.all(f"SELECT id, chunk, upto, rows FROM {CHUNKS} WHERE id IN (%s, %s)", (own, planned))
    ends = [(name, number, None if upto is None else tuple(upto), rows) for name, number, upto, rows in found]
    return (
        {number: (upto, rows) for name, number, upto, rows in ends if name == own},
        {number: upto for name, number, upto, _ in ends if name == planned},
    )


def next_chunk(session: IndexSession, done: Filled, rows: int) -> Chunk:
    """The chunk of so many rows that comes behind the last one."""
    return Chunk(done.chunks, done.upto, upper_bound(session, done.upto, rows))


def fill_chunk(session: IndexSession, control: Control, chunk: Chunk) -> Loaded:
    """Load the entries of a chunk into a table without a key."""
    shape = session.shape
    where, values = _range(shape, chunk.after, chunk.upto)
    columns = listed(shape.columns)
    with session.transaction(control) as connection:
        note(connection, shape, "", chunk.number, chunk.upto)
        try:
            with connection.transaction():
                count = connection.execute(
                    f"INSERT INTO {shape.entries} ({columns}) {_entries_of(shape)} AND {where}", values
                ).rowcount
        except (psycopg.DataError, errors.RaiseException) as error:
            raise _bad_row(connection, shape, where, values, error) from error
        _count(connection, shape, chunk.number, count)
        return Loaded(count, pressure.blocked(connection))


def fill_together(session: IndexSession, parts: Sequence[tuple[Shape, Control]], done: Filled, rows: int) -> Loaded:
    """Load the entries of the next chunk for several indexes, from one read of the base table. Returns how many rows
    the index got that has the most. Raises what a value of the data raises, and nothing is loaded then."""
    chunk = next_chunk(session, done, rows)
    where, values = _range(session.shape, chunk.after, chunk.upto)
    first, *others = parts
    with session.transaction(first[1]) as connection:
        for shape, control in others:
            session.hold(shape, control)
        for shape, _ in parts:
            note(connection, shape, "", chunk.number, chunk.upto)
        counts = connection.execute(_loads([shape for shape, _ in parts], where), values).fetchone()
        assert counts is not None, "a query of counts gives a row"
        for (shape, _), count in zip(parts, counts, strict=True):
            _count(connection, shape, chunk.number, count)
        return Loaded(max(counts), pressure.blocked(connection))


def _loads(shapes: Sequence[Shape], where: str) -> str:
    """ONE statement that reads base rows once, and writes their entries into the tables of all these indexes."""
    read, joins, loads, counts = list[str](), list[str](), list[str](), list[str]()
    for at, shape in enumerate(shapes):
        read += [f"z{at}.ok AS ok{at}", *(f"z{at}.{name} AS {name}_{at}" for name in shape.columns)]
        joins.append(f"CROSS JOIN LATERAL {shape.function('of')} (t) z{at}")
        columns = ", ".join(f"{name}_{at}" for name in shape.columns)
        load = f"INSERT INTO {shape.entries} ({listed(shape.columns)}) SELECT {columns} FROM s WHERE ok{at} RETURNING 1"
        loads.append(f"n{at} AS ({load})")
        counts.append(f"(SELECT count(*) FROM n{at})")
    base = f"FROM {escaped(shapes[0].base)} t {' '.join(joins)} WHERE {where}"
    return f"WITH s AS MATERIALIZED (SELECT {', '.join(read)} {base}), {', '.join(loads)} SELECT {', '.join(counts)}"


def _entries_of(shape: Shape) -> str:
    """A query: the entries of base rows `t`. It ends in a condition, to which more can be added."""
    return (
        f"SELECT {listed(shape.columns, 'z.')} FROM {escaped(shape.base)} t "
        f"CROSS JOIN LATERAL {shape.function('of')} (t) z WHERE z.ok"
    )


def put_chunk(session: IndexSession, control: Control, chunk: Chunk, rows: int, *, is_sorted: bool = True) -> Loaded:
    """Put the entries of a chunk of about so many rows where there are none. Where there is one, the row is put right
    under locks. What meets a writer's lock is tried again in batches half as large; after two that met nobody they
    grow again. The checkpoint comes last: a chunk is done when the last of its rows is, and a repeated put changes
    nothing. (A chunk that was planned before may have more than `rows` rows.)"""
    shape, batch, is_single, may_grow = session.shape, rows, False, False
    after, upto, count, most = chunk.after, chunk.upto, 0, 0
    while True:
        try:
            found, conflicts, blocked = _put(session, control, *_range(shape, after, upto), is_sorted)
        except (NotYet, errors.ProgramLimitExceeded):
            if not is_single:
                batch, may_grow = max(1, batch // 2), False
                bound = upper_bound(session, after, batch, within=chunk.upto)
                if bound is None and batch == 1:
                    raise  # the rows are gone
                upto, is_single = bound or chunk.upto, batch == 1
                continue
            found, conflicts, blocked = 1, [upto], 0
        put_right(session, control, conflicts, logged=False)
        count, most = count + found, max(most, blocked)
        if upto == chunk.upto:
            break
        batch, may_grow = min(2 * batch, rows) if may_grow else batch, True
        bound = upper_bound(session, upto, batch, within=chunk.upto)
        after, upto, is_single = upto, bound or chunk.upto, batch == 1 and bound is not None
    with session.transaction(control) as connection:
        note(connection, shape, "", chunk.number, chunk.upto)
        _count(connection, shape, chunk.number, count)
    return Loaded(count, most, batch if batch < rows else None)


def _put(
    session: IndexSession, control: Control, where: str, values: dict[str, Any], is_sorted: bool
) -> tuple[int, list[Any], int]:
    """How many rows there are in the range, the primary keys of those that met another entry than their own, and how
    many sessions wait for the locks of all that."""
    shape, columns = session.shape, listed(session.shape.columns)
    with session.transaction(control) as connection:
        connection.execute(
            f"SET LOCAL lock_timeout = '{BATCH_LOCK_MS}ms'; SET LOCAL enable_hashjoin = off; "
            f"SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off; CREATE TEMP TABLE IF NOT EXISTS "
            f"tf_batch (LIKE {shape.entries} INCLUDING DEFAULTS) ON COMMIT DELETE ROWS"
        )
        try:
            with connection.transaction():
                count = connection.execute(
                    f"INSERT INTO tf_batch ({columns}) {_entries_of(shape)} AND {where}", values
                ).rowcount
        except (psycopg.DataError, errors.RaiseException) as error:
            raise _bad_row(connection, shape, where, values, error) from error
        connection.execute(_put_if_absent(shape, is_sorted))
        return count, connection.execute(_conflicts(shape)).fetchall(), pressure.blocked(connection)


def _put_if_absent(shape: Shape, is_sorted: bool) -> str:
    """An entry or a tombstone that is there is newer than the batch: it stays. Sorted, so that neighbours are written
    together, and two who put meet in the same order."""
    columns = listed(shape.columns)
    order = f"ORDER BY {listed(shape.k)} " if is_sorted else ""
    return (
        f"INSERT INTO {shape.entries} ({columns}) SELECT {columns} FROM tf_batch {order}"
        f"ON CONFLICT ({listed(shape.identity)}) DO NOTHING"
    )


def _conflicts(shape: Shape) -> str:
    """The rows of the batch that have no entry of their own which is identical, included columns too."""
    by_key = equal(shape.k, "e.", "s.")
    by_null = f"{equal(shape.d, 'e.', 's.')} AND {same(shape.k, 'e.', 's.')}"
    images = (f"ROW({listed(shape.i, of)})" for of in ("e.", "s."))
    identical = f" AND pg_catalog.record_image_eq({', '.join(images)})" if shape.i else ""
    return (
        f"SELECT {as_texts(shape.p, 's.')} FROM tf_batch s WHERE NOT EXISTS (SELECT 1 FROM {shape.entries} e "
        f"WHERE ((s.d1 IS NULL AND {by_key}) OR (s.d1 IS NOT NULL AND {by_null})) "
        f"AND {equal(shape.p, 'e.', 's.')} AND NOT e.dead{identical})"
    )


def build_key(session: IndexSession, control: Control) -> bool:
    """Build the key of the loaded entries, and go on to MERGING. False if keys are equal, or too wide: the entries of
    such rows are taken out and their primary keys logged, so that the merge judges them as they are by then."""
    shape = session.shape
    try:
        with session.transaction(control, "UPDATE") as connection:
            connection.execute("SET LOCAL maintenance_work_mem = '256MB'")
            connection.execute(key_index(shape))
            connection.execute(f"UPDATE {CONTROL} SET state = 'MERGING', step = step + 1 WHERE id = %s", (shape.id,))
            return True
    except BAD_VALUE:
        pass
    with session.transaction(control) as connection:
        connection.execute(_take_out(shape, control.body.log or 1))
    return False


def _take_out(shape: Shape, log: int) -> str:
    keys = listed(shape.k)
    complete = not_null(shape.k, "")
    twice = f"SELECT {keys} FROM {shape.entries} WHERE {complete} GROUP BY {keys} HAVING count(*) > 1"
    equal_keys = f"OR EXISTS (SELECT 1 FROM twice WHERE {equal(shape.k, 'e.', 'twice.')})" if shape.unique else ""
    if shape.nulls_not_distinct:
        equal_keys += f" OR e.ctid IN ({_equal_nulls(shape)})"
    return (
        f"WITH twice AS ({twice}), gone AS (DELETE FROM {shape.entries} e "
        f"WHERE {key_bytes(shape, 'e.')} > {WIDE_BYTES} {equal_keys} RETURNING {listed(shape.p, 'e.')}) "
        f"INSERT INTO {shape.log(log)} ({listed(shape.p)}) SELECT * FROM gone"
    )


def _equal_nulls(shape: Shape) -> str:
    """A query: where the entries lie that have a NULL in their key and share it. Sorted: a join by
    `IS NOT DISTINCT FROM` would compare each with each."""
    counted = f"SELECT ctid, count(*) OVER (PARTITION BY {listed(shape.k)}) FROM {shape.entries} WHERE d1 IS NOT NULL"
    return f"SELECT q.place FROM ({counted}) q (place, rows) WHERE q.rows > 1"


# Ranges of the primary key.


def upper_bound(
    session: IndexSession, after: tuple[str, ...] | None, rows: int, within: tuple[str, ...] | None = None
) -> tuple[str, ...] | None:
    """The primary key of the last of so many rows behind `after`, as texts; None if fewer are left. Rows behind
    `within` do not count."""
    shape = session.shape
    where, values = _range(shape, after, within)
    names = [f"t.{escaped(identifier(column.name))}" for column in shape.primary_key]
    texts, order = ", ".join(f"{name}::text" for name in names), ", ".join(names)
    query = (
        f"SELECT {texts} FROM {escaped(shape.base)} t WHERE {where} ORDER BY {order} OFFSET {max(rows, 1) - 1} LIMIT 1"
    )
    with told(f"the table {shape.base}"):
        found = session.connection.execute(query, values).fetchone()
    return None if found is None else tuple(found)


def _range(shape: Shape, after: tuple[str, ...] | None, upto: tuple[str, ...] | None) -> tuple[str, dict[str, Any]]:
    """A condition on the base row `t`: its primary key lies after the one and not after the other."""
    key = f"({', '.join(f't.{escaped(identifier(column.name))}' for column in shape.primary_key)})"
    parts, values = ["true"], dict[str, Any]()
    for name, sign, bound in (("after", ">", after), ("upto", "<=", upto)):
        if bound is not None:
            casts = ", ".join(f"%({name}{at})s::{column.type}" for at, column in enumerate(shape.primary_key))
            parts.append(f"{key} {sign} ({casts})")
            values |= {f"{name}{at}": text for at, text in enumerate(bound)}
    return " AND ".join(parts), values


def checkpoints_id(shape: Shape, kind: str) -> str:
    """By what the server tells the checkpoints of one kind, of one index, from all others."""
    return f"{shape.id}/{kind}" if kind else shape.id


def note(
    connection: psycopg.Connection[Any],
    shape: Shape,
    kind: str,
    number: int,
    texts: Sequence[str | None] | None,
    rows: int = 0,
) -> None:
    """Write a checkpoint. It comes first in the transaction of a load: a repeated attempt fails with CommitConflict
    before it loads."""
    try:
        connection.execute(
            f"INSERT INTO {CHUNKS} (id, chunk, upto, rows) VALUES (%s, %s, %s, %s)",
            (checkpoints_id(shape, kind), number, None if texts is None else list(texts), rows),
        )
    except errors.UniqueViolation as error:
        raise CommitConflict(f"a part of {shape.name} was filled before") from error


def _count(connection: psycopg.Connection[Any], shape: Shape, number: int, rows: int) -> None:
    connection.execute(f"UPDATE {CHUNKS} SET rows = %s WHERE id = %s AND chunk = %s", (rows, shape.id, number))


def _bad_row(
    connection: psycopg.Connection[Any], shape: Shape, where: str, values: dict[str, Any], error: psycopg.Error
) -> TidefillError:
    """The first row of the chunk whose key cannot be computed; NotYet if somebody has mended it meanwhile."""
    names = ", ".join(f"t.{escaped(identifier(column.name))}::text" for column in shape.primary_key)
    rows = f"SELECT {names} FROM {escaped(shape.base)} t WHERE {where}"
    for key in connection.execute(rows, values).fetchall():
        try:
            with connection.transaction():
                connection.execute(_at(shape), key)
        except BAD_KEY as reason:
            return unindexable(shape, key, reason)
    return NotYet(f"the index {shape.name} met a row that was mended meanwhile", detail=str(error))


def check_keys(
    session: IndexSession,
    control: Control,
    after: tuple[str, ...] | None,
    upto: tuple[str, ...] | None,
    error: TidefillError,
) -> None:
    """After a failed read of somebody else: KeyUnindexable if a key of that range cannot be computed, with its row."""
    shape = session.shape
    if shape.is_plain:
        return
    where, values = _range(shape, after, upto)
    entries = f"{_entries_of(shape)} AND {where}"
    with session.transaction(control) as connection:
        try:
            with connection.transaction():
                connection.execute(f"SELECT count(q::text) FROM ({entries}) q", values)
        except (psycopg.DataError, errors.RaiseException) as found:
            raise _bad_row(connection, shape, where, values, found) from error


def _at(shape: Shape) -> str:
    return f"SELECT * FROM {shape.function('at')} ({parameters(shape)})"
