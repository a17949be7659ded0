"""Jobs as lines, for where nothing can be repainted: one for each job that has changed."""

from __future__ import annotations

from collections.abc import Sequence

from tidefill.cli.render.cells import clean
from tidefill.cli.render.job_facts import job_facts
from tidefill.jobs.status import Status


def changes(before: Sequence[Status], now: Sequence[Status], *, ascii: bool = False) -> list[str]:
    """For where nothing can be repainted: a line for every job whose state or whole percent is another than before, and
    for every job that is gone."""
    names = {status.name for status in now}
    told = [one_line(status, ascii=ascii) for status in changed(before, now)]
    return told + [f"{clean(each.name, ascii=ascii)}: gone" for each in before if each.name not in names]


def changed(before: Sequence[Status], now: Sequence[Status]) -> list[Status]:
    """Those whose state or whole percent is another than before."""
    known = {status.name: _gist(status) for status in before}
    return [status for status in now if known.get(status.name) != _gist(status)]


def _gist(status: Status) -> tuple[object, ...]:
    return status.state, status.percent, status.failure


def one_line(status: Status, *, ascii: bool = False) -> str:
    """The job on one line, however long."""
    failure = [f"{status.failure.fact} [{status.failure.code}]"] if status.failure is not None else []
    parts = [f"{status.name}: {status.state} {status.percent} %", *failure, *job_facts(status)]
    return clean(", ".join(parts), ascii=ascii)
