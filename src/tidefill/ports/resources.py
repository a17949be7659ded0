"""What jobs make outside of the store."""

from __future__ import annotations

from typing import Protocol

from tidefill.core.budget import Kept
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job


class Resources(Protocol):
    """Everything a job makes outside of the store, by name."""

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove it if it is there. Raises RetryLater if it cannot be reached, NotOurs if it is not what this job made:
        then it is left as it is, and stays listed as residue."""

    def kept(self, resource: Resource) -> Kept | None:
        """How much of an upstream's log it keeps, now; None if it is no part of a log, or is not there."""
