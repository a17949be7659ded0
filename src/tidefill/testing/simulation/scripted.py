"""A world in which the acts of a script happen, each at its effect."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tidefill.testing.memory.world import World
from tidefill.testing.simulation.script import Act, Script

FEW_ROWS = 5  # that are merged whatever they are a share of; the tables are small


class Scripted(ABC):
    """`acts`: those to come, the next one last. Without `faults_on` only writers act."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.setup = script.setup
        self.world = World()
        self.faults_on = True
        self.acts = list(reversed(script.acts))
        self.world.on_due = self._due
        self._set_next_due()

    def _set_next_due(self) -> None:
        self.world.next_due = self.acts[-1].at if self.acts else 1 << 60

    def _due(self, name: str) -> None:
        while self.acts and self.acts[-1].at <= self.world.effects:
            act = self.acts.pop()
            self._set_next_due()
            if self.faults_on or act.kind == "write":
                self._act(act, name)

    @abstractmethod
    def _act(self, act: Act, where: str) -> None:
        """Let it happen, in the effect of that name."""

    def end_faults(self) -> None:
        """Nothing more happens by script."""
        self.faults_on = False
        self.acts.clear()
        self._set_next_due()
