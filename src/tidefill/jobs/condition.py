"""What is wrong with what a job has made although the job is well: a unique index has keys of several rows.

On a Delta table a condition belongs to one commit of the target: a runner that finds a newer commit counts again. On a
server the index itself keeps it: a runner reads it there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Condition:
    """`violated`: how many keys have several rows, after the commit of that step of that generation."""

    violated: int
    generation_uuid: str
    step: int

    def __str__(self) -> str:
        return f"VIOLATED ({self.violated} {'key' if self.violated == 1 else 'keys'})" if self.violated else ""


@dataclass(frozen=True, slots=True)
class Refused:
    """`rows`: how many rows of the table have no entry in the index on their server, because the index refuses them."""

    rows: int

    def __str__(self) -> str:
        return f"VIOLATED ({self.rows} row{'s' * (self.rows != 1)} without an entry)" if self.rows else ""


AnyCondition: TypeAlias = Condition | Refused


def condition_to_text(condition: AnyCondition) -> str:
    """The text for the job's row."""
    return json.dumps(asdict(condition), sort_keys=True)


def condition_from_text(text: str) -> AnyCondition | None:
    """The inverse of `condition_to_text`; None for what it cannot be: then it is counted again."""
    try:
        match json.loads(text) if text else None:
            case {"violated": int(violated), "generation_uuid": str(generation_uuid), "step": int(step)}:
                return Condition(violated, generation_uuid, step)
            case {"rows": int(rows)}:
                return Refused(rows)
    except ValueError:
        pass
    return None


def condition_of_commit(text: str) -> Condition | None:
    """The same, of an index on a Delta table alone."""
    found = condition_from_text(text)
    return found if isinstance(found, Condition) else None


def told(before: Condition | None, after: Condition) -> tuple[str, ...]:
    """The event that a change of the condition is; none if it stays violated, or clean."""
    if after.violated and not (before and before.violated):
        return (f"{after}: several rows have one key; SHOW VIOLATIONS lists them",)
    if before and before.violated and not after.violated:
        return ("clean again: no two rows have one key",)
    return ()
