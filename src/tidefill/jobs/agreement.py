"""Which versions of its inputs a job takes, so that no view shows a mix of two versions of one table.

Correctness. A base is a table of others. Two inputs agree if they were computed from the same version of each base that
they have in common. Before a step `agree` picks the newest versions of the inputs that agree. What a view shows rests
on this alone.

Liveness. Ticks make sure that such versions exist. A tick is a row `base -> version` in the store, moved by
compare-and-set; it has no owner. Jobs whose outputs meet again in some view above them step only to tick versions. The
tick moves on when all of them have come to it. A job that stands still is not waited for: when it goes on, it goes to
the tick of that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidefill.core.state import Table
from tidefill.core.version import Version, bases_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause

Node: TypeAlias = str  # a job of ours, by its id, or a table of others
Readable: TypeAlias = Callable[[Table, Version], bool]
Reads: TypeAlias = Mapping[Node, Mapping[Table, Node]]  # what each of a job's tables is


@dataclass(frozen=True, slots=True)
class InStep:
    """How a job goes in step with others. `member`: others have to know every version that the job goes to. `allowed`:
    the versions that it may go to now, given the newest versions of its tables and which can be read. `read`: other
    jobs read what it makes."""

    member: bool
    allowed: Callable[[Mapping[Table, Version], Readable], Mapping[Table, Version]]
    read: bool = False


ALONE = InStep(False, lambda newest, readable: newest)


def _all_of_them(due: bool, newest: Mapping[Table, Version], readable: Readable) -> Mapping[Table, Version]:
    return newest


@dataclass(frozen=True, slots=True)
class Group:
    """A job among others. `member`: others have to know every version that the job goes to. `waited_for`: for each of
    its tables that has ticks, the jobs that must have come to the tick before the next one. `blocked_by`: a job below
    it that stands still. `target_lag_s`: the smallest target lag of all jobs that go in step with it. `read`: other
    jobs read what it makes. `allowed`: the versions that it may go to now, given whether it is time for the next ones
    (`due`), the newest versions, and which can be read."""

    member: bool = False
    waited_for: Mapping[Table, Sequence[Job]] = field(default_factory=dict)
    blocked_by: Job | None = None
    target_lag_s: float | None = None
    read: bool = False
    allowed: Callable[[bool, Mapping[Table, Version], Readable], Mapping[Table, Version]] = _all_of_them


def agree(
    heads: Mapping[Table, Version], before: Callable[[Table, str, int], Version | None]
) -> dict[Table, Version] | None:
    """The newest versions up to these heads that agree; None if there are none. `before(table, base, number)`: the
    newest version of the table that was computed from version `number` of `base` or older. In a table's history the
    versions of a base never go back, so the result does not depend on the order of the search."""
    now = dict(heads)
    while True:
        oldest: dict[str, int] = {}
        for version in now.values():
            for base, number in bases_of(version).items():
                oldest[base] = min(number, oldest.get(base, number))
        ahead = ((table, base) for table in now for base, at in bases_of(now[table]).items() if at > oldest[base])
        table, base = next(ahead, ("", ""))
        if not base:
            return now
        older = before(table, base, oldest[base])
        if older is None:
            return None
        now[table] = older


def bases(node: Node, reads: Reads) -> frozenset[Node]:
    """The bases of a table or a job: the tables of others that it is computed from. A job that reads nothing of ours is
    a base itself."""
    return frozenset(one for one in (node, *_all_below(node, reads)) if not reads.get(one))


def meets(job: Node, reads: Reads) -> frozenset[Node]:
    """The bases that two or more inputs of the job have in common."""
    found = Counter(base for below in set(reads[job].values()) for base in bases(below, reads))
    return frozenset(base for base, inputs in found.items() if inputs > 1)


def in_step(reads: Reads) -> dict[Node, frozenset[Node]]:
    """For each base, the jobs that go by its ticks: all that have the base and lie below a job in which it meets."""
    found: dict[Node, frozenset[Node]] = {}
    for job in reads:
        for base in meets(job, reads):
            members = {below for below in _all_below(job, reads) if below in reads and base in bases(below, reads)}
            found[base] = found.get(base, frozenset()) | (members - {base})
    return found


def _all_below(node: Node, reads: Reads) -> frozenset[Node]:
    """All tables and jobs below, however far. The search visits each once, however many ways lead to it."""
    found: set[Node] = set()
    ahead = [node]
    while ahead:
        new = set(reads.get(ahead.pop(), {}).values()) - found
        found |= new
        ahead += new
    return frozenset(found)


def stands(job: Job) -> str:
    """Why the job stands still now, in a word for a person; empty if it goes on."""
    if job.life is Life.LIVE and job.pause is not Pause.ALL and not job.wants_end and not job.wants_generation:
        return ""
    return Life.PAUSED.value if job.pause is Pause.ALL and job.life is Life.LIVE else job.life.value


def blocked_by(job: Node, reads: Reads, rows: Mapping[Node, Job]) -> Job | None:
    """A job below it, however far, that stands still; None if none does."""
    below = sorted(one for one in _all_below(job, reads) if one in rows)
    return next((rows[one] for one in below if stands(rows[one])), None)


def waited_for(members: Iterable[Node], reads: Reads, rows: Mapping[Node, Job]) -> list[Job]:
    """The members that will come to the tick by themselves: neither they nor a job below them stands still."""
    known = [rows[member] for member in sorted(members) if member in rows]
    return [job for job in known if not stands(job) and blocked_by(job.id, reads, rows) is None]
