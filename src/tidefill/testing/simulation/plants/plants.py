"""Bugs that one could plausibly write, as patches. A simulator that does not find them proves nothing.

Each plant names the invariant that breaks. `with planted(plant): ...` puts the bug in and takes it out again.
"""

from __future__ import annotations

from tidefill.testing.simulation.plants.chunks import OF_CHUNKS
from tidefill.testing.simulation.plants.commits import OF_COMMITS
from tidefill.testing.simulation.plants.coverage import OF_COVERAGE
from tidefill.testing.simulation.plants.lifecycle import OF_LIFECYCLE
from tidefill.testing.simulation.plants.plant import Plant
from tidefill.testing.simulation.plants.replacing import OF_REPLACING
from tidefill.testing.simulation.plants.several import OF_SEVERAL
from tidefill.testing.simulation.plants.topics import OF_TOPICS
from tidefill.testing.simulation.plants.upserts import OF_UPSERTS
from tidefill.testing.simulation.plants.upstreams import OF_UPSTREAMS

PLANTS: tuple[Plant, ...] = (
    *OF_COVERAGE,
    *OF_COMMITS,
    *OF_CHUNKS,
    *OF_UPSTREAMS,
    *OF_LIFECYCLE,
    *OF_REPLACING,
    *OF_SEVERAL,
    *OF_TOPICS,
    *OF_UPSERTS,
)
