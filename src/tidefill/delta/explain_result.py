"""What CREATE and EXPLAIN find out of a job before there is one. `explain_document` says it in words and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pyspark.sql.types import StructType

from tidefill.core.sizing import FIRST_ROWS, FIRST_ROWS_MAX, first_rows
from tidefill.delta.explain_document import facts_of
from tidefill.delta.inputs import Size
from tidefill.jobs.definitions import (
    FullViewDefinition,
    LakeDefinition,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.plain_text import FACTS, as_html, as_text
from tidefill.views.plan.drivers import Drivers
from tidefill.views.plan.plan import ViewPlan

CHUNKS_OF_UNCLUSTERED = 4


@dataclass(frozen=True, slots=True)
class Explained:
    """What a job will do, before it does it. `rows`: of what is walked. `plan` and `drivers`: of a query over several
    tables, or over groups. `inputs`: all that it reads. `slots_left`: replication slots, if it takes one.
    `parallelism`: how many chunks are taken at a time, if nobody says."""

    definition: LakeDefinition
    clustered: bool
    rows: int
    schema: StructType
    notices: tuple[str, ...] = ()
    plan: ViewPlan | None = None
    drivers: Drivers | None = None
    inputs: tuple[Size, ...] = ()
    slots_left: int | None = None
    parallelism: int = 1

    def __repr__(self) -> str:
        return as_text(FACTS, facts_of(self))

    def _repr_html_(self) -> str:
        return as_html(FACTS, facts_of(self))

    @property
    def chunk_rows(self) -> int | None:
        """The size of a chunk, where it should not be left to the clock: each chunk reads the whole table."""
        if self.clustered:
            return None
        return min(max(-(-self.rows // CHUNKS_OF_UNCLUSTERED), self.first_rows), FIRST_ROWS_MAX)

    @property
    def first_rows(self) -> int:
        """The size of the first chunk, where it is left to the clock."""
        return self.whole_rows if self.drivers is None or self.drivers.appends else FIRST_ROWS

    @property
    def whole_rows(self) -> int:
        """How many rows may be taken in at once, where that is left to the clock."""
        walked = _walked(self.definition)
        return first_rows(self.rows, sum(size.size_bytes or 0 for size in self.inputs if size.name in walked))


def _walked(definition: LakeDefinition) -> set[str]:
    """The names of what is walked. Of a view that is computed whole nothing is: its first table stands for it."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition() | RowViewDefinition():
            return {definition.input}
        case PlannedViewDefinition():
            return {part.table for part in definition.walked}
        case FullViewDefinition():
            return {definition.tables[0]}
        case never:
            assert_never(never)
