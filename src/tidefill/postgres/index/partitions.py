"""Follows the partitions of a table that come and go while it has an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import errors

from tidefill.errors import KeyUnindexable, NotYet, QueryFailed
from tidefill.indexes import leaves
from tidefill.indexes.bodies import always, truncate_trigger
from tidefill.indexes.control import Control
from tidefill.indexes.states import State
from tidefill.postgres.index.repair import duplicate_keys, is_put_right
from tidefill.postgres.index.session import IndexSession, told

FETCHED = 1000
"""Primary keys that are held in memory at a time."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """What has changed since the index knows its partitions. `new`: the name of one in SQL; empty if there is none.
    `row_trigger`: its. `lost`: one is gone."""

    new: str = ""
    row_trigger: int = 0
    lost: bool = False


def changed_leaves(session: IndexSession) -> Leaves:
    """What has changed."""
    new, row_trigger, lost = session.one(leaves.changed(session.shape))
    return Leaves(new or "", row_trigger or 0, lost)


def take_in(session: IndexSession, control: Control, leaf: str, row_trigger: int) -> str:
    """Have the rows of a new partition in the index: what was in it before it was attached had no trigger. Returns what
    happened, for a person. Of a public index a row whose key another row has gets no entry; else DuplicateKeys."""
    shape = session.shape
    trigger = truncate_trigger(shape, leaf)
    try:
        with told(f"the partition {leaf}"):
            if not (session.locked(trigger) and session.locked(always(shape, leaf))):
                raise NotYet(f"the partition {leaf} is busy")
    except QueryFailed as error:
        if isinstance(error.__cause__, errors.UndefinedTable):
            raise NotYet(f"the partition {leaf} is gone again") from error
        raise
    log, refused = control.body.log, 0
    if log is None:
        refused = _put_all(session, control, leaf)
    with session.transaction(control) as connection:
        if log is not None:
            connection.execute(leaves.log_all(shape, leaf, log))
        connection.execute(leaves.remember(shape, leaf, row_trigger))
    return f"the partition {leaf} was taken in" + (
        f"; {refused} rows of it have keys of others, or none, and so no entry" if refused else ""
    )


def _put_all(session: IndexSession, control: Control, leaf: str) -> int:
    refused = 0
    for key in _keys(session, leaf):
        try:
            if is_put_right(session, control, key):
                continue
            if not control.is_public:
                raise duplicate_keys(session)
        except KeyUnindexable:
            if not control.is_public:
                raise
        refused += 1
    return refused


def _keys(session: IndexSession, leaf: str) -> Iterator[Any]:
    """The primary keys of a partition, some at a time, through a cursor that the server keeps between transactions."""
    with told(f"the partition {leaf}"):
        session.connection.execute(
            f"DECLARE tf_leaf NO SCROLL CURSOR WITH HOLD FOR {leaves.rows_of(session.shape, leaf)}"
        )
    try:
        while found := session.all(f"FETCH {FETCHED} FROM tf_leaf"):
            yield from found
    finally:
        if not (session.connection.closed or session.connection.broken):
            session.connection.execute("CLOSE tf_leaf")


def remove_orphans(session: IndexSession, control: Control) -> int:
    """Remove the entries of partitions that are gone; how many. Entries that writers keep are locked first, and the
    base is looked at once more in a new statement."""
    shape, removed = session.shape, 0
    if control.state is State.MERGING:  # nobody else writes entries, and whatever writers do meanwhile is merged
        with session.transaction(control, isolation="REPEATABLE READ") as connection:
            removed = connection.execute(f"DELETE FROM {shape.entries} e WHERE {leaves.is_orphan(shape)}").rowcount
            connection.execute(leaves.forget_lost(shape))
        return removed
    while found := [place for (place,) in session.all(leaves.orphans(shape))]:
        with session.transaction(control) as connection:
            connection.execute("SET LOCAL lock_timeout = '200ms'")
            here = "e.ctid = ANY (%s::tid[])"
            connection.execute(f"SELECT 1 FROM {shape.entries} e WHERE {here} FOR UPDATE", (found,))
            gone = f"DELETE FROM {shape.entries} e WHERE {here} AND {leaves.is_orphan(shape)}"
            removed += connection.execute(gone, (found,)).rowcount
    with session.transaction(control) as connection:
        connection.execute(leaves.forget_lost(shape))
    return removed
