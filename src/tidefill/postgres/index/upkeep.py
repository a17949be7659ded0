"""Keeps an index right when its surroundings change: partitions that come and go, rows that had no entry, another owner
of the table, tombstones."""

from __future__ import annotations

from typing import Any, assert_never

from tidefill.indexes.control import Control
from tidefill.indexes.next_action import GrantToOwner, RemoveOrphans, Sweep, TakeIn, TryRefused, Upkeep
from tidefill.ports.clock import Clock
from tidefill.postgres.index import looking, partitions, refused
from tidefill.postgres.index.session import IndexSession

LOOK_S = 30.0
"""How often a live index is looked at: whether its parts are all there, and whether refused rows can be put now."""


class Keeper:
    """Remembers between two turns how far it is. `taken`: rows of the partition that is being taken in."""

    def __init__(self, session: IndexSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._tried_s: float | None = None
        self._tried: Any = None
        self.taken = 0

    def next(self) -> Upkeep | None:
        """What a live index needs; None if all is well."""
        if looking.lacks_grants(self._session):
            return GrantToOwner()
        leaves = partitions.changed_leaves(self._session)
        if leaves.new:
            return TakeIn(leaves.new, leaves.row_trigger)
        if leaves.lost:
            return RemoveOrphans()
        if looking.has_tombstones(self._session):
            return Sweep()
        return TryRefused() if self._is_due() and any(looking.logged(self._session, 1)) else None

    def _is_due(self) -> bool:
        return self._tried_s is None or not 0.0 <= self._clock.now_s() - self._tried_s < LOOK_S

    def act(self, control: Control, action: Upkeep) -> tuple[str, ...]:
        """Do it; what happened, for the job's list of events."""
        match action:
            case TakeIn(leaf, row_trigger):
                return self._take_in(control, leaf, row_trigger)
            case RemoveOrphans():
                removed = partitions.remove_orphans(self._session, control)
                return (f"a partition is gone, or was emptied; {removed} entries of it were removed",)
            case TryRefused():
                return self._try_refused(control)
            case GrantToOwner():
                looking.grant_owner(self._session, control)
            case Sweep():
                looking.sweep(self._session, control)
            case never:
                assert_never(never)
        return ()

    def _take_in(self, control: Control, leaf: str, row_trigger: int) -> tuple[str, ...]:
        taken = partitions.take_in(self._session, control, leaf, row_trigger)
        self.taken = 0 if taken.event else taken.rows
        if not taken.event:
            return ()
        return (taken.event, *(self._try_refused(control) if control.is_public else ()))

    def _try_refused(self, control: Control) -> tuple[str, ...]:
        """Try rows again that have no entry. Told if there are more of them than before, or fewer."""
        self._tried_s = self._clock.now_s()
        self._tried = refused.try_again(self._session, control, self._tried)
        after = self._session.control()
        rows = 0 if after is None else after.refused
        return (f"{rows} rows have keys of others, or none, and so no entry",) if rows != control.refused else ()
