"""What an upstream needs of a cluster, and of whoever makes frames of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidefill.core.version import Offsets
from tidefill.kafka.look import TopicLook, TopicSetUp
from tidefill.kafka.spans import Span

F_co = TypeVar("F_co", covariant=True)
FEW_MESSAGES = 10_000  # that one task reads, decodes and writes to one file


class Reader(Protocol[F_co]):
    """Makes frames."""

    def read(self, spans: Sequence[Span]) -> F_co:
        """The rows of the messages in these spans, evaluated late."""

    def came(self, spans: Sequence[Span]) -> F_co:
        """The same rows, with the weight of rows that came."""


class Cluster(Protocol):
    """The brokers, as the control client asks them."""

    @property
    def name(self) -> str:
        """Of the connection."""

    def look(self, topic: str) -> TopicLook:
        """Where the topic's partitions begin and end now. UpstreamReplaced if there is no such topic."""

    def set_up(self, topic: str) -> TopicSetUp:
        """What the topic is set to keep; nothing is known if we may not ask."""

    def offsets_at(self, topic: str, numbers: list[int], moment_ms: int) -> dict[int, int]:
        """The first offset of each partition whose message is not older; a partition without one is left out."""

    def still_has(self, topic: str, partition: int, offset: int, epoch: int) -> bool:
        """Whether the log up to this offset, as it was under the leader of that epoch, is still the log's beginning."""

    def write_offsets(self, group: str, topic: str, at: Offsets) -> None:
        """Note in the group how far the topic was read."""
