"""Keeps jobs in step whose outputs meet again: who they are, by the store's rows, and the ticks that they go to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from tidefill.core.confirm import anchor_from_text
from tidefill.core.state import Table
from tidefill.core.version import Number, Version, bases_of_all
from tidefill.errors import StateUnreadable
from tidefill.jobs import agreement as ticks
from tidefill.jobs.agreement import Group, Readable
from tidefill.jobs.graph import Graph
from tidefill.jobs.row import Job
from tidefill.ports.store import Store

ANCHORS_MAX = 1024  # of as many jobs it is known without a parse from which versions they come


class Ticking:
    """Moves the ticks of this store, and says how far a job may go by them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def group(self, job: Job, graph: Graph) -> Group:
        """The job among all others."""
        rows, reads = graph.by_id, graph.reads_in_step
        read = job.id in graph.are_read
        if not reads.get(job.id):
            return Group(read=read)
        blocked_by = ticks.blocked_by(job.id, reads, rows)
        members = {base: those for base, those in graph.members.items() if job.id in those}
        if not members:
            return Group(blocked_by=blocked_by, read=read)
        waited_for = {
            table: ticks.waited_for(members[node], reads, rows)
            for table, node in reads[job.id].items()
            if node in members
        }
        together = {one for those in members.values() for one in those}
        together |= {one for one in reads if not ticks.meets(one, reads).isdisjoint(members)}
        target_lag_s = min(rows[one].settings.target_lag_s for one in together)
        return Group(True, waited_for, blocked_by, target_lag_s, read, partial(self.allowed, waited_for))

    def allowed(
        self,
        waited_for: Mapping[Table, Sequence[Job]],
        due: bool,
        newest: Mapping[Table, Version],
        readable: Readable,
    ) -> dict[Table, Version]:
        """The versions that a job may go to: the newest of each table, but none beyond the tick of the table. If there
        is a newer version than the tick, the tick moves to it when it is time (`due`) and all of `waited_for` have come
        to the tick, or when the version of the tick cannot be read any more."""
        return {
            table: self._up_to_tick(version, waited_for[table], due, partial(readable, table))
            if table in waited_for
            else version
            for table, version in newest.items()
        }

    def _up_to_tick(
        self, newest: Version, waited_for: Sequence[Job], due: bool, readable: Callable[[Version], bool]
    ) -> Version:
        assert isinstance(newest.point, Number)
        base, number, tick = newest.identity, newest.point.number, self._store.tick(newest.identity)
        if tick is None:
            tick = self._store.open_tick(base, None, number)
        elif number > tick:
            all_came = due and all(_has_come(job, base, tick) for job in waited_for)
            if all_came or not readable(Version(base, Number(tick))):
                tick = self._store.open_tick(base, tick, number)
        return newest if number <= tick else Version(base, Number(tick))

    def tidy(self) -> None:
        """Remove the ticks of bases that no job was computed from."""
        self._store.keep_ticks({base for job in self._store.jobs() for base in _bases(job)})


def _has_come(job: Job, base: str, tick: int) -> bool:
    """Whether the job has come to the tick. True for a job that was not computed from this base: its table was
    replaced, which its own next turn finds."""
    return _bases(job).get(base, tick) >= tick


def _bases(job: Job) -> dict[str, int]:
    return _bases_in(job.anchor)


@lru_cache(ANCHORS_MAX)
def _bases_in(anchor_text: str) -> dict[str, int]:
    """The base versions in the anchor; none if there is no anchor, or if this release cannot read it: then the job
    stops in its own turn."""
    try:
        anchor = anchor_from_text(anchor_text)
    except StateUnreadable:
        return {}
    return {} if anchor is None else bases_of_all(anchor.state.versions.values())
