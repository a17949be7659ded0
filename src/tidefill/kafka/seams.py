"""What the upstreams of topics need of a cluster, and of whoever makes frames of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidefill.core.version import Offsets
from tidefill.core.walk import Range
from tidefill.kafka.look import TopicLook, TopicSetUp
from tidefill.kafka.spans import Span

F_co = TypeVar("F_co", covariant=True)
FEW_MESSAGES = 10_000  # that one task reads, decodes and writes to one file


class Reader(Protocol[F_co]):
    """Makes frames."""

    def read(self, spans: Sequence[Span]) -> F_co:
        """The rows of the messages in these spans, evaluated late."""


class LogReader(Reader[F_co], Protocol[F_co]):
    """Makes frames of a log, whose messages only ever come."""

    def came(self, spans: Sequence[Span]) -> F_co:
        """The rows of the messages in these spans, with the weight +1."""


class KeyReader(Reader[F_co], Protocol[F_co]):
    """Makes frames of what is newest. A key that has messages in two partitions of the spans is KeyNotUnique, when that
    is evaluated; a message without a key that can be read is BadMessage."""

    def newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> F_co:
        """The row of each key whose place lies in one of the ranges: of its newest message in these spans. None if that
        is a tombstone."""

    def net(self, spans: Sequence[Span], ranges: Sequence[Range]) -> F_co:
        """The same with the weight +1; and a row for each key whose newest message is a tombstone, with the weight
        -1."""

    def keys(self, spans: Sequence[Span], ranges: Sequence[Range]) -> F_co:
        """The keys, each once, with the weight -1."""

    def in_two_partitions(self, spans: Sequence[Span]) -> Sequence[str]:
        """Up to ten keys that have messages in two partitions, as a person reads them."""


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
