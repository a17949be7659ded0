"""The states of an index, as F1, CockroachDB and YugabyteDB have them, and the trigger body that each one needs.

The state is the BODY of the trigger function on the server. A transaction that began before a change of the body may
still run the old one, so each change is followed by a barrier: the runner waits until all transactions have ended that
wrote to the table when the change was committed. Then at any time writers run at most two adjacent bodies.
"""

from __future__ import annotations

from enum import Enum


class Method(Enum):
    """How an index is filled. BULK: writers only log which rows they change; the fill loads a table without a key, then
    builds the key, and merges what was logged. INITPUT: writers keep the entries from the start; the fill puts an entry
    only where there is none. BULK is faster; INITPUT needs no second table lock and refuses duplicates from the
    start."""

    BULK = "bulk"
    INITPUT = "initput"


class State(Enum):
    """Where an index is, by its control row on the server."""

    LOGGING = "LOGGING"
    DELETE_ONLY = "DELETE_ONLY"
    WRITE_AND_DELETE = "WRITE_AND_DELETE"
    BACKFILLING = "BACKFILLING"
    MERGING = "MERGING"
    DRAINING = "DRAINING"
    VALIDATING = "VALIDATING"
    READ_WRITE_AND_DELETE = "READ_WRITE_AND_DELETE"
    ABSENT = "ABSENT"


class Body(Enum):
    """What the trigger does with a changed row. LOGGING_1 and LOGGING_2 note its primary key and raw columns in one of
    the two logs. DELETE_ONLY removes entries and puts none. WRITE_AND_DELETE keeps entries, and leaves tombstones.
    DRAIN is the same while entries may be stale, so a snapshot that is older than the conflict cannot judge it.
    READ_WRITE_AND_DELETE keeps entries and leaves no tombstones where it can. ABSENT does nothing."""

    ABSENT = "ABSENT"
    LOGGING_1 = "LOGGING_1"
    LOGGING_2 = "LOGGING_2"
    DELETE_ONLY = "DELETE_ONLY"
    WRITE_AND_DELETE = "WRITE_AND_DELETE"
    DRAIN = "DRAIN"
    READ_WRITE_AND_DELETE = "READ_WRITE_AND_DELETE"

    @property
    def log(self) -> int | None:
        """The number of the log that it writes; None if it logs nothing."""
        return {Body.LOGGING_1: 1, Body.LOGGING_2: 2}.get(self)


def other_log(body: Body) -> Body:
    """The body that writes the other log."""
    return Body.LOGGING_2 if body is Body.LOGGING_1 else Body.LOGGING_1


def resting_log(body: Body) -> int:
    """The number of the log that is not written while writers run this body: the one that is drained."""
    return 2 if body is Body.LOGGING_1 else 1


FIRST: dict[Method, tuple[State, Body]] = {
    Method.BULK: (State.LOGGING, Body.LOGGING_1),
    Method.INITPUT: (State.DELETE_ONLY, Body.DELETE_ONLY),
}
"""State and body right after the install."""

STATES: dict[Method, tuple[State, ...]] = {
    Method.BULK: (
        State.LOGGING, State.BACKFILLING, State.MERGING, State.VALIDATING, State.READ_WRITE_AND_DELETE,
    ),
    Method.INITPUT: (
        State.DELETE_ONLY, State.WRITE_AND_DELETE, State.BACKFILLING, State.VALIDATING, State.READ_WRITE_AND_DELETE,
    ),
}  # fmt: skip
"""The states that an index goes through, in order. A cut-over that cannot have its lock adds DRAINING."""
