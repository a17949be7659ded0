"""Whether a topic can be followed: asked before anything is made. Each refusal says what mends it."""

from __future__ import annotations

from difflib import get_close_matches

from tidefill.errors import UpstreamReplaced, UpstreamUnfit
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.kafka.look import TopicLook, TopicSetUp
from tidefill.kafka.server import KafkaServer
from tidefill.kafka.upstream import EARLIEST, LATEST, moment_ms

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


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
    set_up = server.set_up(definition.topic)
    if definition.upsert is not None and not definition.upsert.incomplete:
        _refuse_incomplete(definition.topic, look, set_up)
    return look, set_up


def _refuse_incomplete(topic: str, look: TopicLook, set_up: TopicSetUp) -> None:
    """UpstreamUnfit if the newest message of a key may be gone."""
    hint = "Set incomplete = 'accepted' to take what there is."
    if set_up.compacted is None:
        raise UpstreamUnfit(
            f"whether the topic {topic} keeps the newest message of each key is not known",
            detail="The user of the connection may not ask what the topic is set to keep.",
            hint=f"Give it the right DescribeConfigs on the topic. {hint}",
        )
    gone = sum(offset for _, offset in look.earliest.next)
    if gone and not (set_up.compacted and not set_up.deletes):
        raise UpstreamUnfit(
            f"the topic {topic} has forgotten {gone:,} offsets, and with them perhaps rows",
            detail="A topic with cleanup.policy = compact keeps the newest message of each key.",
            hint=hint,
        )


def notices_of(look: TopicLook, set_up: TopicSetUp, *, upsert: bool) -> list[str]:
    """What a person should know before a replica of the topic is made."""
    found = []
    gone = sum(offset for _, offset in look.earliest.next)
    if gone:
        found.append(f"the topic has forgotten {gone:,} offsets already: the replica begins after them")
    if set_up.compacted and upsert:
        found += _of_compacted(set_up)
    elif set_up.compacted:
        found.append("the topic is compacted: it may lose any message but the newest of a key, before it is taken in")
    elif set_up.compacted is None:
        found.append("what the topic is set to keep is not known: the user of the connection may not ask")
    if set_up.deletes and set_up.retention_ms is not None and set_up.retention_ms >= 0:
        days = set_up.retention_ms / DAY_MS
        found.append(f"the topic keeps a message for {days:,.1f} days: what expires before it is filled is left out")
    return found


def _of_compacted(set_up: TopicSetUp) -> list[str]:
    """What the settings of a compacted topic mean for a replica of its newest messages."""
    found = []
    if set_up.lag_ms < HOUR_MS:
        found.append(
            f"min.compaction.lag.ms is {set_up.lag_ms:,}: a message may replace another while that is being read, and "
            "the row is then there, or as it should be, one step later. 3600000 or more rules it out"
        )
    stays_h = set_up.tombstones_ms / HOUR_MS
    found.append(
        f"the topic keeps deletes for {stays_h:,.1f} hours: if nobody runs the job for half of that, its rows are read "
        "once more"
    )
    return found
