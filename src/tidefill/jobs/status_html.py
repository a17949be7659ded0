"""Statuses as the markup that a notebook shows: a bar for each job. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tidefill.jobs.amounts import duration_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.status import Status

_COLOURS = {Life.LIVE.value: "#1c7a4a", Life.FAILED.value: "#b3261e", Life.PAUSED.value: "#9a5b00"}
_OTHERS = "#1583a8"


def statuses_html(statuses: Sequence[Status]) -> str:
    """A table with a line for each job."""
    if not statuses:
        return "<div>no jobs</div>"
    return f"<table>{''.join(map(_line, statuses))}</table>"


def _line(status: Status) -> str:
    """Name, state, bar, and what there is to say. The state is told in words beside the colour of the bar."""
    colour = _COLOURS.get(status.state, _OTHERS)
    filled = f"<div style='width:{status.share * 100:.1f}%;height:10px;background:{colour}'></div>"
    bar = f"<div style='width:200px;background:#8885;border-radius:5px;overflow:hidden'>{filled}</div>"
    cells = (f"<b>{escape(status.name)}</b>", escape(status.state), bar, f"{status.percent}&nbsp;%")
    told = escape(" · ".join(_told(status)))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}<td style='text-align:left'>{told}</td></tr>"


def _told(status: Status) -> Iterator[str]:
    filling = status.state == Life.BACKFILLING.value and status.runs
    if status.condition:
        yield status.condition
    if filling and status.rows_per_s >= 0.1:
        yield f"{status.rows_per_s:,.0f} rows/s"
    if filling and status.eta_s is not None:
        yield f"{duration_text(status.eta_s)} left"
    if status.doing is not None:
        yield f"{status.doing} for {duration_text(status.doing.for_s)}"
    if status.failure is not None:
        yield f"{status.failure.fact} [{status.failure.code}]"
    elif status.waiting:
        yield status.waiting
    if status.lag_versions:
        yield f"{status.lag_versions} version{'s' * (status.lag_versions != 1)} behind"
