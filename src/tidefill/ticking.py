"""Keeps jobs in step whose outputs meet again: who they are, by the store's rows, and the ticks that they go to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tidefill.core import ticks
from tidefill.core.confirm import anchor_from_text
from tidefill.core.jobs import Job
from tidefill.core.lifecycle import Life
from tidefill.core.state import Table
from tidefill.core.ticks import Readable, Reads
from tidefill.core.version import Number, Version, bases_of_all
from tidefill.errors import StateUnreadable
from tidefill.ports import Store


@dataclass(frozen=True, slots=True)
class Group:
    """A job among others. `waited_for`: of each of its tables that has ticks, the jobs that are to be there before the
    next. `member`: others need to know every version that it goes to. `blocked_by`: a job below it that stands still.
    `target_lag_s`: the smallest that any of those has who go with it. `read`: others read what it makes."""

    member: bool = False
    waited_for: Mapping[Table, Sequence[Job]] = field(default_factory=dict)
    blocked_by: Job | None = None
    target_lag_s: float | None = None
    read: bool = False


class Ticking:
    """`reads`: what each of these jobs reads."""

    def __init__(self, store: Store, reads: Callable[[Sequence[Job]], Reads]) -> None:
        self._store = store
        self._reads = reads

    def group(self, job: Job) -> Group:
        """The job among all others, as they are now."""
        rows = {row.id: row for row in self._store.jobs() if row.life is not Life.DROPPED}
        reads = self._reads(list(rows.values()))
        read = any(job.id in below.values() for below in reads.values())
        if not reads.get(job.id):
            return Group(read=read)
        blocked_by = ticks.blocked_by(job.id, reads, rows)
        members = {base: those for base, those in ticks.in_step(reads).items() if job.id in those}
        if not members:
            return Group(blocked_by=blocked_by, read=read)
        waited_for = {
            table: ticks.waited_for(members[node], reads, rows)
            for table, node in reads[job.id].items()
            if node in members
        }
        together = {one for those in members.values() for one in those}
        together |= {one for one in reads if not ticks.meets(one, reads).isdisjoint(members)}
        return Group(True, waited_for, blocked_by, min(rows[one].settings.target_lag_s for one in together), read)

    def allowed(
        self, group: Group, due: bool, newest: Mapping[Table, Version], readable: Readable
    ) -> dict[Table, Version]:
        """These versions, none beyond the tick of its table. The next tick is opened if there is something newer, and
        either it is time (`due`) and all have come to the last, or that one cannot be read any more."""
        return {
            table: self._up_to_tick(version, group.waited_for[table], due, partial(readable, table))
            if table in group.waited_for
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
        """Forget the ticks of tables that no job comes from."""
        self._store.keep_ticks({base for job in self._store.jobs() for base in _bases(job)})


def _has_come(job: Job, base: str, tick: int) -> bool:
    """One that comes from another table of that name (it will notice) is not waited for."""
    return _bases(job).get(base, tick) >= tick


def _bases(job: Job) -> dict[str, int]:
    """What cannot be read is told to whoever runs that job; to others it says nothing."""
    try:
        anchor = anchor_from_text(job.anchor)
    except StateUnreadable:
        return {}
    return {} if anchor is None else bases_of_all(anchor.state.versions.values())
