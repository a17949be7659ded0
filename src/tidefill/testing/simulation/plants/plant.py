"""What a plant is, and how it is put in and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tidefill.testing.simulation.script import Script, script

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: its name, what it breaks, the invariants that tell, a seed near which it shows, the patches, and the
    histories in which it shows."""

    name: str
    breaks: str
    tells: tuple[str, ...]
    seed: int
    patches: tuple[Patch, ...]
    script_of: Callable[[int], Script] = script


def plant_in(
    name: str, breaks: str, tells: Sequence[str], seed: int, *patches: Patch, script_of: Callable[[int], Script]
) -> Plant:
    """A bug that shows in these histories."""
    return Plant(name, breaks, tuple(tells), seed, patches, script_of)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run with the bug."""
    with ExitStack() as stack:
        for where, name, bug in plant.patches:
            stack.enter_context(patch.object(where, name, bug))
        yield
