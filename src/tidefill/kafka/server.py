"""The control client: asks a cluster for its topics, offsets and groups, and writes the offsets of a group.

No message is read here but to find out whether a log was cut. Each call has a deadline; what a broker does not answer
is Unavailable, and is asked again later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from tidefill.core.version import Offsets
from tidefill.errors import TidefillError, Unavailable, UpstreamReplaced, UpstreamUnfit
from tidefill.kafka.look import PartitionLook, TopicLook, TopicSetUp
from tidefill.kafka.settings import for_java, for_librdkafka

ANSWER_S = 15.0  # a broker that is well answers in milliseconds; one that is down must not hold the runner up
CHECK_S = 20.0
GROUP_TRIES, GROUP_RETRY_S = 5, 0.2  # a group that was just written may not be found at once

_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION,
)  # fmt: skip
_CUT = (KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


class KafkaServer:
    """The cluster of a connection. `settings`: of the clients, by their names in librdkafka."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        self.name = name
        self._settings = dict(settings)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._librdkafka())

    def _librdkafka(self) -> dict[str, Any]:
        """It says nothing on the terminal: what is wrong comes as an error of a call."""
        return {**for_librdkafka(self._settings), "log_level": 0, "error_cb": lambda error: None}

    def spark_options(self) -> dict[str, str]:
        """The options with which Spark's readers reach the cluster."""
        return {f"kafka.{name}": value for name, value in for_java(self._settings).items()}

    # The cluster.

    def answer(self) -> tuple[str, int]:
        """The cluster's id, and how many brokers it has."""
        with translated(f"the cluster of {self.name}"):
            found = self._admin.list_topics(timeout=ANSWER_S)
            return str(found.cluster_id), len(found.brokers)

    def topics(self) -> list[str]:
        """The names of the topics that we may see."""
        with translated(f"the cluster of {self.name}"):
            return sorted(name for name in self._admin.list_topics(timeout=ANSWER_S).topics if name[:2] != "__")

    # A topic.

    def look(self, topic: str) -> TopicLook:
        """Where the topic's partitions begin and end now. UpstreamReplaced if there is no such topic."""
        with translated(f"the topic {topic}"):
            cluster = self._admin.list_topics(topic, timeout=ANSWER_S).cluster_id
            (told,) = self._admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_S).values()
            found = told.result()
            numbers = [partition.id for partition in found.partitions]
            ask = [
                self._ask(topic, numbers, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
                self._ask(topic, numbers, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
                self._ask(topic, numbers, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
            ]
            earliest, stable, high = ({number: each.result() for number, each in one.items()} for one in ask)
        epochs = {number: max(0, told.leader_epoch or 0) for number, told in stable.items()}
        partitions = {
            number: PartitionLook(earliest[number].offset, stable[number].offset, high[number].offset, epochs[number])
            for number in numbers
        }
        return TopicLook(f"{cluster}/{found.topic_id}", partitions)

    def _ask(self, topic: str, numbers: list[int], what: OffsetSpec, isolation: IsolationLevel) -> dict[int, Any]:
        wanted = {TopicPartition(topic, number): what for number in numbers}
        asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=ANSWER_S)
        return {place.partition: future for place, future in asked.items()}

    def offsets_at(self, topic: str, numbers: list[int], moment_ms: int) -> dict[int, int]:
        """The first offset of each partition whose message is not older; a partition without one is left out."""
        with translated(f"the topic {topic}"):
            asked = self._ask(topic, numbers, OffsetSpec.for_timestamp(moment_ms), IsolationLevel.READ_UNCOMMITTED)
            found = {number: each.result().offset for number, each in asked.items()}
        return {number: offset for number, offset in found.items() if offset >= 0}

    def set_up(self, topic: str) -> TopicSetUp:
        """What the topic is set to keep; nothing is known if we may not ask."""
        try:
            with translated(f"the topic {topic}"):
                asked = self._admin.describe_configs(
                    [ConfigResource(ResourceType.TOPIC, topic)], request_timeout=ANSWER_S
                )
                (entries,) = (each.result() for each in asked.values())
        except UpstreamUnfit:
            return TopicSetUp()
        policy = entries["cleanup.policy"].value
        times = (int(entries[name].value) for name in ("retention.ms", "min.compaction.lag.ms", "delete.retention.ms"))
        return TopicSetUp("compact" in policy, "delete" in policy, *times)

    def still_has(self, topic: str, partition: int, offset: int, epoch: int) -> bool:
        """Whether the log up to this offset, as it was under the leader of that epoch, is still the log's beginning. A
        consumer that begins there asks the leader for just that."""
        settings = {
            **self._librdkafka(), "group.id": "tidefill-check", "enable.auto.commit": False,
            "auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 10,
        }  # fmt: skip
        with translated(f"the topic {topic}"), closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset, leader_epoch=epoch)])
            deadline_s = time.monotonic() + CHECK_S
            while time.monotonic() < deadline_s:
                message = consumer.poll(1.0)
                error = None if message is None else message.error()
                if error is not None and error.code() in _CUT:
                    return False
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return True
                if message is not None and error is None:
                    return True
        raise Unavailable(f"the topic {topic} does not tell whether partition {partition} was cut")

    # A group.

    def write_offsets(self, group: str, topic: str, at: Offsets) -> None:
        """Note in the group how far the topic was read: for people who look at groups, not for us."""
        places = [TopicPartition(topic, partition, offset) for partition, offset in at.next]
        if not places:
            return
        with translated(f"the group {group}"):
            asked = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, places)], request_timeout=ANSWER_S
            )
            for each in asked.values():
                each.result()

    def remove_group(self, group: str) -> None:
        """Remove the group, if it is there. A group that was written a moment ago may be told as not found."""
        for _ in range(GROUP_TRIES):
            with translated(f"the group {group}"):
                if group not in self.groups(group):
                    return
                (asked,) = self._admin.delete_consumer_groups([group], request_timeout=ANSWER_S).values()
                try:
                    asked.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                        raise
            time.sleep(GROUP_RETRY_S)
        if group in self.groups(group):
            raise Unavailable(f"the group {group} is still there")

    def groups(self, prefix: str) -> list[str]:
        """The groups whose names begin like this. Unavailable while a broker does not say which groups it has: one that
        was just started reads that first."""
        with translated(f"the cluster of {self.name}"):
            found = self._admin.list_consumer_groups(request_timeout=ANSWER_S).result()
            if found.errors:
                raise found.errors[0]
            return sorted(each.group_id for each in found.valid if each.group_id.startswith(prefix))


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of the client inside become errors of ours."""
    try:
        yield
    except KafkaException as error:
        raise _of_ours(what, error.args[0]) from error


def _of_ours(what: str, error: KafkaError) -> TidefillError:
    if error.code() in _UNKNOWN_TOPIC:
        return UpstreamReplaced(
            f"{what} is not there",
            detail=error.str(),
            hint="It was deleted. Make it again and RESYNC the job, or drop the job.",
        )
    if error.code() in _FORBIDDEN:
        return UpstreamUnfit(
            f"{what} may not be read with the settings of the connection",
            detail=error.str(),
            hint="The user needs the rights Describe and Read on the topic, and Read and Delete on groups that begin "
            "with tidefill-.",
        )
    return Unavailable(f"{what} does not answer", detail=error.str())
