"""Keeps the condition of a unique index that refuses nobody's write beside its commits.

The condition is known after a commit, and the store is told with the report of that commit. Whoever finds a commit that
the store's condition does not belong to counts all keys: a runner died between commit and report, or all rows were
written anew.
"""

from __future__ import annotations

from tidefill.core.confirm import Truth
from tidefill.core.step import Step, Write
from tidefill.jobs.condition import Condition, condition_of_commit, condition_to_text, told
from tidefill.jobs.row import Job
from tidefill.ports.uniqueness import Uniqueness


class Watch:
    """Of one generation of one index."""

    def __init__(self, uniqueness: Uniqueness) -> None:
        self._uniqueness = uniqueness
        self._known: Condition | None = None

    def recovered(self, job: Job, truth: Truth) -> tuple[bool, tuple[str, ...]]:
        """Whether it had to be counted again, and the events that follow."""
        noted = condition_of_commit(job.condition)
        if not truth.state.finished() or _is_of(self._known, job, truth):
            return False, ()
        if _is_of(noted, job, truth):
            self._known = noted
            return False, ()
        return True, self._found(job, truth, self._uniqueness.violated(truth.checked))

    def committed(self, job: Job, before: Truth, step: Step, after: Truth) -> tuple[str, ...]:
        """The events that follow from a commit. Nothing is counted before everything is filled."""
        if not after.state.finished():
            return ()
        known = self._known if _is_of(self._known, job, before) else None
        if known is None or step.write is Write.REPLACE or step.chunks:
            return self._found(job, after, self._uniqueness.violated(after.checked))
        violated = self._uniqueness.violated_after(known.violated, before.checked, after.checked)
        return self._found(job, after, violated)

    def _found(self, job: Job, truth: Truth, violated: int) -> tuple[str, ...]:
        before = condition_of_commit(job.condition)
        self._known = Condition(violated, job.generation_uuid, truth.state.step)
        return told(before, self._known)

    def text(self, job: Job, truth: Truth) -> str:
        """What the store shall keep; empty if nothing is known of this commit."""
        return condition_to_text(self._known) if self._known and _is_of(self._known, job, truth) else ""


def _is_of(condition: Condition | None, job: Job, truth: Truth) -> bool:
    found = condition and (condition.generation_uuid, condition.step)
    return found == (job.generation_uuid, truth.state.step)
