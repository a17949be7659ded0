"""Registered tables, and the rules of the namespace that they share with jobs.

A name belongs to one table or to one job that is not dropped, and to nobody else. A job that makes several things has
a name for each; it takes all of them in one transaction. A store asks these rules inside the
transaction that makes a name, needs it or takes it away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, assert_never

from tidefill.errors import (
    InUse,
    NameTaken,
    StoreUnreadable,
    TidefillError,
    UnknownTable,
    UnsupportedQuery,
    WrongState,
)
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, check_name, name_key

USERS_NAMED_MAX = 10  # enough to see which they are; a message has to stay readable


@dataclass(frozen=True, slots=True)
class Registered:
    """A table that a user has named. Its `definition` is JSON text that belongs to others, who alone read it."""

    name: str
    definition: str

    def __post_init__(self) -> None:
        check_name(self.name)


Holder: TypeAlias = Job | Registered
NamesRead: TypeAlias = Callable[[Job], Collection[str]]
"""The names that a job reads, by its definition."""

Definitions: TypeAlias = tuple[str, str]
"""The texts of a job's definition and of the newest one that was wished for."""

N = TypeVar("N", Job, Registered)


def attached(new: N, holder: Holder | None) -> N | None:
    """The holder of the name, if it is of the same kind with an equal definition; None if the name is free; else
    NameTaken."""
    if holder is None or (isinstance(holder, type(new)) and _newest(holder) == new.definition):
        return holder
    raise _taken(new, holder)


def _newest(holder: Holder) -> str:
    return holder.newest_definition if isinstance(holder, Job) else holder.definition


def check_free(new: Job, name: str, holder: Holder | None) -> None:
    """NameTaken if somebody has the name of a part of the new job."""
    if holder is not None:
        raise _taken(replace(new, name=name, part_names=()), holder)


def _taken(new: Holder, holder: Holder) -> NameTaken:
    """Jobs and tables differ in what one does to free the name."""
    kind, remove = ("job", "drop") if isinstance(holder, Job) else ("table", "unregister")
    state = f", which is {holder.life.value}," if isinstance(holder, Job) else ""
    alike = type(holder) is type(new)
    return NameTaken(
        f"{new.name} is already the name of {'another' if alike else 'a'} {kind}",
        detail=f"The {kind} {holder.name}{state} has another definition."
        if alike
        else "Jobs and tables share one namespace.",
        hint=f"Choose another name, or {remove} {holder.name} first.",
    )


def ends(job: Job) -> bool:
    """Whether it is to be dropped: it reads nothing any more."""
    return job.wants_end or job.life in (Life.CANCELLING, Life.DROPPED)


def check_needed(name: str, holder: Holder | None) -> None:
    """Raise if a new job cannot read what has the name: UnknownTable, or WrongState if it is a job that is to end."""
    match holder:
        case None:
            raise UnknownTable(f"there is no table {name}", hint="Register it, or create the job that makes it, first.")
        case Job(wants_end=True) | Job(life=Life.CANCELLING):
            raise WrongState(f"{holder.name} is being dropped", hint="Create it anew when it is gone.")
        case Job() | Registered():
            return
        case _:
            assert_never(holder)


def check_unused(name: str, jobs: Iterable[Job], reads: NamesRead, *, hint: str = "") -> None:
    """InUse, with the names of the jobs that read what has the name, if there are any."""
    names = sorted(job.name for job in jobs if _is_read_by(name, job, reads))
    if names:
        more = f" and {len(names) - USERS_NAMED_MAX} more" if len(names) > USERS_NAMED_MAX else ""
        raise InUse(
            f"{name} is in use",
            detail=f"Read by {', '.join(names[:USERS_NAMED_MAX])}{more}.",
            hint=hint or "Drop what reads it first.",
        )


def readers_of(job: Job, jobs: Iterable[Job], reads: NamesRead) -> dict[str, Definitions]:
    """The jobs that read this one and are not to end, by id, each with the definitions that it may be run by."""
    others = (other for other in jobs if other.id != job.id and not ends(other))
    found = (other for other in others if any(_is_read_by(name, other, reads) for name in job.names()))
    return {other.id: (other.definition, other.newest_definition) for other in found}


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a wish for another definition comes with: the names that this `needs`, what EXPLAIN says of it (JSON), and
    the readers that were `checked`, by id, for whether they can go on. `reads`: what each job reads or is to read."""

    needs: Sequence[str]
    reads: NamesRead
    checked: Mapping[str, Definitions]
    explained: str = ""


def check_replaced(job: Job, jobs: Sequence[Job], told: Replacement) -> None:
    """Raise if the job cannot become this row, which has another wish: UnsupportedQuery if it would read itself,
    however far below; WrongState if a job reads it now that is not one of those that were `checked`."""
    rows = {name_key(name): row for row in (*jobs, job) for name in row.names()}
    path = _path_back(job, rows, told.reads)
    if path:
        raise UnsupportedQuery(
            f"{job.name} would read itself",
            detail=" reads ".join(path) + ".",
            hint=f"Write the query over what {job.name} is made from, or create a view of another name.",
        )
    unchecked = [one for one, known in readers_of(job, jobs, told.reads).items() if told.checked.get(one) != known]
    if unchecked:
        raise WrongState(f"a job that reads {job.name} was created or changed meanwhile", hint="Try again.")


def _path_back(job: Job, rows: Mapping[str, Job], reads: NamesRead) -> list[str]:
    """The names along a way from the job down to itself; empty if there is none."""
    ahead, seen = [[job]], set[str]()
    while ahead:
        path = ahead.pop()
        for row in (rows[key] for key in map(name_key, reads(path[-1])) if key in rows):
            if row.id == job.id:
                return [each.name for each in (*path, job)]
            if row.id not in seen:
                seen.add(row.id)
                ahead.append([*path, row])
    return []


def ending(job: Job, jobs: Iterable[Job], reads: NamesRead, *, cascade: bool) -> Sequence[Job]:
    """What ends if the job does: the job first, then, with `cascade`, by name all that read it or read one of those.
    Without it nobody may: InUse, unless they are ending too. A dropped job has no name by which it could be read."""
    others = [] if job.life is Life.DROPPED else [other for other in jobs if other.id != job.id]
    if not cascade:
        hint = "Drop what reads it first, or add CASCADE: then that is dropped too."
        for name in job.names():
            check_unused(name, (other for other in others if not ends(other)), reads, hint=hint)
        return (job,)
    found, queue = dict[str, Job](), [job]
    while queue:
        names = queue.pop().names()
        readers = (other for other in others if any(_is_read_by(name, other, reads) for name in names))
        above = [other for other in readers if other.id not in found]
        found |= {other.id: other for other in above}
        queue += above
    return (job, *sorted(found.values(), key=lambda other: name_key(other.name)))


def _is_read_by(name: str, job: Job, reads: NamesRead) -> bool:
    return name_key(name) in map(name_key, reads(job))


def table_to_json(table: Registered) -> dict[str, Any]:
    """The table as JSON data."""
    return {"name": table.name, "definition": table.definition}


def table_from_json(data: Any) -> Registered:
    """The inverse of `table_to_json`; StoreUnreadable for what it cannot be."""
    try:
        return Registered(data["name"], data["definition"])
    except (KeyError, TypeError, AttributeError, TidefillError) as error:
        raise StoreUnreadable(
            "a table in the store cannot be read", detail=f"{type(error).__name__}: {error}"
        ) from error
