"""What a check says: a finding with its verdict and its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tidefill.engine.engine import STORE_FILE
from tidefill.errors import RetryLater, TidefillError

ALIKE_MAX = 20  # enough to see what is going on; a list has to stay readable


class Verdict(Enum):
    """How bad it is: fine, worth knowing, or in the way."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and how it is. What is not fine has a remedy that a person can type."""

    what: str
    verdict: Verdict
    fact: str
    remedy: str = ""

    def __post_init__(self) -> None:
        assert self.remedy or self.verdict is Verdict.OK, self


def not_too_many(what: str, findings: Sequence[Finding]) -> Iterator[Finding]:
    """As many as one can read."""
    yield from findings[:ALIKE_MAX]
    if len(findings) > ALIKE_MAX:
        fact = f"and {len(findings) - ALIKE_MAX} more of this kind"
        yield Finding(what, Verdict.WARNING, fact, "Mend these first, then: tidefill doctor")


def with_detail(fact: str, detail: str) -> str:
    """The fact, with the detail behind it if there is one."""
    return f"{fact} ({detail.rstrip('.')})" if detail else fact


def remedy_for(error: TidefillError) -> str:
    """What to do about an error of the store that has no hint."""
    if isinstance(error, RetryLater):
        return "Try again in a minute: tidefill doctor"
    return f"Restore {STORE_FILE} from a backup, or report this line."
