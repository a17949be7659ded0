"""What a plant is, and how it is put in and taken out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tidefill.testing.simulation.script import Script, script
from tidefill.testing.simulation.several.graphs import script_of_several

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: its name, what it breaks, the invariants that tell, a seed near which it shows, the patches, and whether
    it takes several jobs to show."""

    name: str
    breaks: str
    tells: tuple[str, ...]
    seed: int
    patches: tuple[Patch, ...]
    several: bool = False

    def script(self, seed: int) -> Script:
        """The history of that seed, of the kind that it takes."""
        return script_of_several(seed) if self.several else script(seed)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run with the bug."""
    with ExitStack() as stack:
        for where, name, bug in plant.patches:
            stack.enter_context(patch.object(where, name, bug))
        yield
