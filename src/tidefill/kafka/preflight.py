"""Whether a topic can be followed: asked before anything is made. Each refusal says what mends it."""

from __future__ import annotations

from difflib import get_close_matches

from tidefill.errors import UpstreamReplaced, UpstreamUnfit
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.kafka.look import TopicLook, TopicSetUp
from tidefill.kafka.server import KafkaServer
from tidefill.kafka.upstream import EARLIEST, LATEST, moment_ms

DAY_MS = 86_400_000


def preflight(server: KafkaServer, definition: TopicReplicaDefinition) -> tuple[TopicLook, TopicSetUp]:
    """What the topic is, and what it is set to keep; UpstreamUnfit if there is none, or if we may not read it."""
    if definition.begin not in (EARLIEST, LATEST):
        moment_ms(definition.begin)
    try:
        look = server.look(definition.topic)
    except UpstreamReplaced as error:
        near = get_close_matches(definition.topic, server.topics(), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Make it first; Tidefill makes no topics."
        fact = f"there is no topic {definition.topic} in the cluster of {server.name}"
        raise UpstreamUnfit(fact, hint=hint) from error
    return look, server.set_up(definition.topic)


def notices_of(look: TopicLook, set_up: TopicSetUp) -> list[str]:
    """What a person should know before a replica of the topic is made."""
    found = []
    gone = sum(offset for _, offset in look.earliest.next)
    if gone:
        found.append(f"the topic has forgotten {gone:,} offsets already: the replica begins after them")
    if set_up.compacted:
        found.append(
            "the topic is compacted: it may lose any message but the newest of a key, and replicas of it are not tested"
        )
    elif set_up.compacted is None:
        found.append("what the topic is set to keep is not known: the user of the connection may not ask")
    if set_up.deletes and set_up.retention_ms is not None and set_up.retention_ms >= 0:
        days = set_up.retention_ms / DAY_MS
        found.append(f"the topic keeps a message for {days:,.1f} days: what expires before it is filled is left out")
    return found
