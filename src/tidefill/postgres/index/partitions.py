"""Follows the partitions of a table that come and go while it has an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import errors

from tidefill.errors import NotYet, QueryFailed
from tidefill.indexes import leaves
from tidefill.indexes.bodies import always, truncate_trigger
from tidefill.indexes.control import LOCK_MS, Control
from tidefill.indexes.states import State
from tidefill.postgres.index import refused
from tidefill.postgres.index.session import IndexSession, told

TAKEN = 2000
"""Rows of a new partition that are put right in one turn of the runner; a restart repeats no more."""


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


@dataclass(frozen=True, slots=True)
class Taken:
    """How many rows of a partition are in the index by now. `event`: what a person is told when all of them are."""

    rows: int
    event: str = ""


def take_in(session: IndexSession, control: Control, leaf: str, row_trigger: int) -> Taken:
    """Have the next rows of a new partition in the index: what was in it before it was attached had no trigger. Where
    writers log, all of its rows are logged at once. Else some are put right, in the order of the primary key, with a
    checkpoint. Of a public index a row whose key another row has gets no entry; else DuplicateKeys."""
    with _if_there(leaf):
        upto, rows = session.one(leaves.reached(session.shape, row_trigger)) or (None, 0)
        if upto is None:
            _make_truncate_trigger(session, leaf)
        if control.body.log is None:
            return _put_next(session, control, leaf, row_trigger, upto, rows)
        with session.transaction(control) as connection:
            rows = connection.execute(leaves.log_all(session.shape, leaf, control.body.log)).rowcount
            connection.execute(leaves.remember(session.shape, leaf, row_trigger))
        return Taken(rows, f"the partition {leaf} was taken in")


@contextmanager
def _if_there(leaf: str) -> Iterator[None]:
    """NotYet if the partition has been dropped: the next look does not find it."""
    try:
        with told(f"the partition {leaf}"):
            yield
    except QueryFailed as error:
        if isinstance(error.__cause__, errors.UndefinedTable):
            raise NotYet(f"the partition {leaf} is gone again") from error
        raise


def _make_truncate_trigger(session: IndexSession, leaf: str) -> None:
    statements = (truncate_trigger(session.shape, leaf), always(session.shape, leaf))
    if not all(session.locked(statement) for statement in statements):
        raise NotYet(f"the partition {leaf} is busy")


def _put_next(
    session: IndexSession, control: Control, leaf: str, row_trigger: int, upto: list[str] | None, before: int
) -> Taken:
    """The checkpoint comes after the rows, together with those that got no entry: a repeated put changes nothing."""
    shape = session.shape
    keys = session.all(leaves.rows_of(shape, leaf, upto is not None, TAKEN), upto or ())
    without = refused.put_rows(session, control, keys)
    rows, is_last = before + len(keys), len(keys) < TAKEN
    with session.transaction(control) as connection:
        refused.note(connection, shape, without)
        if is_last:
            connection.execute(leaves.forget_reached(shape, row_trigger))
            connection.execute(leaves.remember(shape, leaf, row_trigger))
            connection.execute(leaves.suspect_orphans(shape, leaf))
        else:
            connection.execute(leaves.note_reached(shape, row_trigger), (list(keys[-1]), rows))
    return Taken(rows, f"the partition {leaf} was taken in" if is_last else "")


def remove_orphans(session: IndexSession, control: Control) -> int:
    """Remove the entries of partitions that are gone; how many. Entries that writers keep are locked first, and the
    base is looked at once more in a new statement."""
    shape, removed = session.shape, 0
    if control.state is State.MERGING:  # nobody else writes entries, and whatever writers do meanwhile is merged
        with session.transaction(control, isolation="REPEATABLE READ") as connection:
            removed = connection.execute(f"DELETE FROM {shape.entries} e WHERE {leaves.is_orphan(shape)}").rowcount
            connection.execute(leaves.forget_lost(shape))
        return removed
    for block in range(0, session.one(leaves.blocks(shape))[0], leaves.BLOCKS):
        found = [place for (place,) in session.all(leaves.orphans(shape, block))]
        for at in range(0, len(found), leaves.ORPHANS):
            removed += _remove_places(session, control, found[at : at + leaves.ORPHANS])
    with session.transaction(control) as connection:
        connection.execute(leaves.forget_lost(shape))
    return removed


def _remove_places(session: IndexSession, control: Control, places: list[str]) -> int:
    shape, here = session.shape, "e.ctid = ANY (%s::tid[])"
    with session.transaction(control) as connection:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MS}ms'")
        connection.execute(f"SELECT 1 FROM {shape.entries} e WHERE {here} FOR UPDATE", (places,))
        gone = f"DELETE FROM {shape.entries} e WHERE {here} AND {leaves.is_orphan(shape)}"
        return connection.execute(gone, (places,)).rowcount
