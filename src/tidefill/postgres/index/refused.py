"""Rows of a public index that have no entry, because another row has their key or because their key cannot be computed.

Writers are refused such rows. A partition brings them along when it is attached: its rows are there already. Then the
index stays live with the condition VIOLATED. The primary keys of the rows wait in a log of the index, which writers of
a public index do not use, and are tried again now and then until the rows are mended. The control row has the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tidefill.errors import KeyUnindexable, NotYet
from tidefill.indexes.checking import DIFFERENCES_MAX, DUPLICATES_MAX
from tidefill.indexes.control import CONTROL, Control
from tidefill.indexes.shape import LOGS, Shape, as_texts, equal, listed, parameters
from tidefill.jobs.condition import Refused, condition_to_text
from tidefill.postgres.index.repair import duplicate_keys, is_put, is_put_right
from tidefill.postgres.index.session import BAD_KEY, IndexSession

BATCH = 200
"""Rows that are put right in one transaction: some 20 ms, for which their writers may wait."""

BATCH_LOCK_MS = 50
"""How long a batch waits for a writer's row, before it is cut in half."""

TRIED = 1000
"""Rows that are tried again in one turn."""


def put_rows(session: IndexSession, control: Control, keys: Sequence[Any]) -> list[Any]:
    """Have the entries of these base rows be what the rows are now; the primary keys of those that can have none. If
    the index is not public, such a row is DuplicateKeys or KeyUnindexable."""
    refused = list[Any]()
    for at in range(0, len(keys), BATCH):
        refused += _put_batch(session, control, keys[at : at + BATCH])
    return refused


def _put_batch(session: IndexSession, control: Control, keys: Sequence[Any]) -> list[Any]:
    """In one transaction, row by row under locks. (To put a batch where there is no entry would not do: a writer who
    deletes a row meanwhile leaves no tombstone behind.)"""
    if len(keys) == 1:
        return [] if _is_put_alone(session, control, keys[0]) else list(keys)
    try:
        refused = _put_together(session, control, keys)
    except (NotYet, *BAD_KEY):
        half = len(keys) // 2
        return _put_batch(session, control, keys[:half]) + _put_batch(session, control, keys[half:])
    if refused and not control.is_public:
        raise duplicate_keys(session)
    return refused


def _is_put_alone(session: IndexSession, control: Control, key: Any) -> bool:
    try:
        if is_put_right(session, control, key):
            return True
    except KeyUnindexable:
        if not control.is_public:
            raise
        return False
    if not control.is_public:
        raise duplicate_keys(session)
    return False


def _put_together(session: IndexSession, control: Control, keys: Sequence[Any]) -> list[Any]:
    shape = session.shape
    arrays = ", ".join("%s::text[]" for _ in shape.p)
    typed = ", ".join(f"r.{name}::{shape.type_of(name)}" for name in shape.p)
    query = (
        f"SELECT r.at FROM unnest({arrays}) WITH ORDINALITY AS r ({listed(shape.p)}, at) "
        f"WHERE {shape.function('slow')} ({typed}, false) IS NOT NULL"
    )
    with session.transaction(control) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{BATCH_LOCK_MS}ms'")
        columns = [list(column) for column in zip(*keys, strict=True)]
        return [keys[at - 1] for (at,) in connection.execute(query, columns).fetchall()]


def note(connection: psycopg.Connection[Any], shape: Shape, keys: Sequence[Any]) -> None:
    """Have these rows tried again."""
    if keys:
        statement = f"INSERT INTO {shape.log(1)} ({listed(shape.p)}) VALUES ({parameters(shape)})"
        connection.cursor().executemany(statement, keys)


def try_again(session: IndexSession, control: Control, after: Any) -> Any:
    """Put noted rows right that can be by now, and write the report of the others. `after`: the last primary key that
    was tried before. Returns the last one now; None if the next try begins with the first."""
    keys = _noted(session, after)
    for key in keys:
        try:
            is_put(session, control, key, True)
        except (NotYet, *BAD_KEY):
            continue
    write_report(session, control)
    return keys[-1] if len(keys) == TRIED else None


def _noted(session: IndexSession, after: Any = None) -> list[Any]:
    shape = session.shape
    where = "" if after is None else f"WHERE ({listed(shape.p)}) > ({parameters(shape)})"
    query = (
        f"SELECT {as_texts(shape.p)} FROM ({_logged(shape)}) q {where} ORDER BY {listed(shape.p, 'q.')} LIMIT {TRIED}"
    )
    return session.all(query, after or ())


def _logged(shape: Shape) -> str:
    """A query: the primary keys of all noted rows, each once."""
    return " UNION ".join(f"SELECT {listed(shape.p)} FROM {shape.log(number)}" for number in LOGS)


def condition_text(controls: Iterable[Control | None]) -> str:
    """For the job's row: how many rows these indexes refuse."""
    return condition_to_text(Refused(sum(control.refused for control in controls if control is not None)))


def write_report(session: IndexSession, control: Control) -> None:
    """The keys of noted rows, each with the rows that have it; no report if there are none."""
    shape = session.shape
    rows = int(session.one(f"SELECT count(*) FROM ({_logged(shape)}) q")[0])
    keys = _report(session) if rows else []
    report = Jsonb({"total": len(keys), "keys": keys[:DUPLICATES_MAX], "refused": rows}) if rows else None
    with session.transaction(control, "UPDATE") as connection:
        connection.execute(f"UPDATE {CONTROL} SET report = %s WHERE id = %s", (report, shape.id))


def _report(session: IndexSession) -> list[dict[str, Any]]:
    shape = session.shape
    owner = f"SELECT ROW({listed(shape.p, 'e.')})::text FROM {shape.entries} e WHERE {equal(shape.k, 'e.', 'b.')}"
    query = (
        f"SELECT ROW({listed(shape.k, 'b.')})::text, ({owner} LIMIT 1), ROW({listed(shape.p, 'b.')})::text "
        f"FROM {shape.function('at')} ({parameters(shape)}) b"
    )
    found = dict[str, list[str]]()
    for key in _noted(session):
        try:
            row = session.one(query, key)
        except BAD_KEY as error:
            row = (f"none: {str(error).strip().splitlines()[0]}", None, f"({','.join(key)})")
        if row is not None:
            text, its_owner, refused = row
            found.setdefault(text, [] if its_owner is None else [its_owner]).append(refused)
    return [{"key": key, "rows": rows[:DIFFERENCES_MAX], "count": len(rows)} for key, rows in found.items()]
