"""A topic as what a job reads."""

from __future__ import annotations

from tidefill.delta.inputs import Input
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.kafka.messages import output_columns


def topic_input(definition: TopicReplicaDefinition) -> Input:
    """Its columns, and what identifies a row."""
    return Input(definition.input, "", definition.key, columns=output_columns(definition))
