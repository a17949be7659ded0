"""One look at a topic: which one it is, and from where to where each of its partitions goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidefill.core.version import Offsets


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """`earliest`: the first offset that is still there. `stable`: the offset before which all transactions have ended.
    `high`: the offset of the next message. `epoch`: how often the partition has got a leader, as the leader says."""

    earliest: int
    stable: int
    high: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicLook:
    """`identity`: of the cluster and of the topic; a topic that was made again has another one."""

    identity: str
    partitions: Mapping[int, PartitionLook]

    @property
    def stable(self) -> Offsets:
        """The newest version that can be read: reading goes no further than the first open transaction."""
        return Offsets.of({number: each.stable for number, each in self.partitions.items()})

    @property
    def earliest(self) -> Offsets:
        """What is before it is gone."""
        return Offsets.of({number: each.earliest for number, each in self.partitions.items()})

    @property
    def epochs(self) -> dict[int, int]:
        """Of the leaders, by partition."""
        return {number: each.epoch for number, each in self.partitions.items()}


TOMBSTONES_MS = 86_400_000
"""What Kafka takes where nobody has said how long a tombstone stays."""


@dataclass(frozen=True, slots=True)
class TopicSetUp:
    """What the topic is set to keep. None: not known, as we may not ask. `retention_ms`: -1 for all time. Of a topic
    that is compacted: for how long a message replaces no other (`lag_ms`), and for how long a tombstone stays
    (`tombstones_ms`)."""

    compacted: bool | None = None
    deletes: bool | None = None
    retention_ms: int | None = None
    lag_ms: int = 0
    tombstones_ms: int = TOMBSTONES_MS
