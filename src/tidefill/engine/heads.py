"""The newest versions of what a job reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from tidefill.core.version import Number, Point
from tidefill.engine.inputs import Inputs
from tidefill.errors import NotYet, TidefillError
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.graph import definition_of
from tidefill.jobs.row import Job
from tidefill.kafka.connections import Topics
from tidefill.postgres.connections import Databases
from tidefill.run.catch_up import NEVER

if TYPE_CHECKING:
    from tidefill.engine.lakes import Lake


def heads_of_inputs(
    databases: Databases, topics: Topics, inputs: Inputs, lake: Callable[[], Lake], row: Job
) -> dict[str, Point] | None:
    """The newest versions of what the job reads; None if one of them is not live, and so (its turn came first) will not
    be soon. Whatever else is wrong with them, the runner says."""

    def head_of(table: str) -> Number:
        return Number(lake().tables.head(inputs.live(table).location))

    try:
        definition = definition_of(row)
        match definition:
            case ServerReplicaDefinition():
                return {"": databases.head(definition)}
            case TopicReplicaDefinition():
                return {"": topics.head(definition)}
            case ReplicaDefinition() | RowViewDefinition():
                return {"": head_of(definition.input)}
            case PlannedViewDefinition() | FullViewDefinition():
                return {table: head_of(table) for table in definition.tables}
            case IndexDefinition() | IndexesDefinition():
                return {}
            case never:
                assert_never(never)
    except NotYet:
        return None
    except TidefillError:
        return {"": NEVER}
