"""What the suite of machines needs of a machine: one job, its source, and everybody else who has to do with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tidefill.jobs.row import Job
from tidefill.ports.machine import Machine


class MachineHarness(Protocol):
    """One job. Every call of `machine` is another process that knows nothing but the job's row."""

    job: Job

    def machine(self) -> Machine[Any]:
        """The machine of the job's generation."""

    def grow(self) -> None:
        """Somebody adds to the source."""

    def spoil(self) -> None:
        """Somebody spoils what was made, so that a comparison has to fail."""

    def made(self) -> object:
        """What was made so far, as a value that can be compared with ==."""

    def is_shown(self) -> bool:
        """Whether it can be found under the job's name."""

    def take_name(self) -> None:
        """Somebody else shows something under the job's name."""


MachineTest: TypeAlias = Callable[[MachineHarness], None]
