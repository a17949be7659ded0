"""What a statement gives to the person or the program that wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidefill.jobs.plain_text import as_html, as_text
from tidefill.jobs.status import Status

if TYPE_CHECKING:
    from tidefill.delta.explain_document import Explanation
    from tidefill.engine.job import Job


class Until(Enum):
    """What is waited for, if somebody wants to wait."""

    NOTHING = "nothing"
    LIVE = "live"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gives: rows, or a message, or both. `jobs`: those of which something was asked, and `until` when
    that is done. `document`: what the rows tell, for a program."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    message: str = ""
    jobs: tuple[Job, ...] = ()
    until: Until = Until.NOTHING
    document: Explanation | dict[str, Any] | None = None

    def __repr__(self) -> str:
        return as_text(self.columns, self.rows, self.message)

    def _repr_html_(self) -> str:
        return as_html(self.columns, self.rows, self.message)


def waits(status: Status, condition: str = "") -> str:
    """Why a job failed; else what it waits for, after its condition, if that has no place of its own."""
    if status.failure is not None:
        return f"{status.failure.fact} [{status.failure.code}]"
    return ", ".join(filter(None, (condition, status.waiting)))
