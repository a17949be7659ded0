"""Topics of Kafka clusters, which replicas are made of: by connection and name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from tidefill.errors import BadInput, InvalidSetting, NotOurs, RetryLater, TidefillError, Unavailable
from tidefill.extras import with_extra
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.jobs.upsert import Upsert
from tidefill.kafka.message_keys import UPSERT_HINT, checked_key_format, key_columns, refuse_payload
from tidefill.kafka.messages import COLUMNS_HINT, DEBEZIUM, JSON, KEEP, RAW, STOP, checked_format, columns_of, included
from tidefill.kafka.settings import check_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidefill.core.version import Offsets
    from tidefill.kafka.look import TopicLook, TopicSetUp
    from tidefill.kafka.server import KafkaServer
    from tidefill.kafka.upsert import UpsertUpstream
    from tidefill.kafka.upstream import KafkaUpstream

PREFIX = "tidefill-"
EARLIEST = "earliest"
APPEND, UPSERT, ACCEPTED = "append", "upsert", "accepted"


@dataclass(frozen=True, slots=True)
class TopicWords:
    """How the messages of a topic shall become rows, in the words of the user."""

    format: str = ""
    columns: str = ""
    include: str = ""
    begin: str = ""
    on_bad_message: str = ""
    mode: str = ""
    key: str = ""
    key_format: str = ""
    incomplete: str = ""

    def __bool__(self) -> bool:
        """Whether anything was said."""
        return any(getattr(self, each.name) for each in fields(self))


def topic_words(options: Mapping[str, Any]) -> tuple[TopicWords, dict[str, Any]]:
    """What options say of a topic, and the other options."""
    known = {each.name for each in fields(TopicWords)}
    said = {name: str(value) for name, value in options.items() if name in known}
    return TopicWords(**said), {name: value for name, value in options.items() if name not in known}


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """What a topic looks like, and what it is set to keep."""

    look: TopicLook
    set_up: TopicSetUp


class Topics:
    """The Kafka connections of a project. `names`: theirs; `settings_of` gives the settings of the clients, with what
    is secret, when they are needed."""

    def __init__(self, names: Sequence[str], settings_of: Callable[[str], Mapping[str, str]]) -> None:
        self._names = tuple(names)
        self._settings_of = settings_of
        self._servers: dict[str, KafkaServer] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the connections."""
        return self._names

    def is_topic(self, name: str) -> bool:
        """Whether the name begins with one of the connections."""
        connection, dot, topic = name.partition(".")
        return bool(dot and topic) and connection in self._names

    def define(self, source: str, words: TopicWords) -> TopicReplicaDefinition:
        """What these words mean, over `connection.topic`. InvalidSetting if they mean nothing."""
        form = checked_format(words.format)
        columns = columns_of(words.columns)
        if (form != RAW) != bool(columns):
            fact = f"a replica of format {form} has {'columns' if form != RAW else 'no columns of its own'}"
            raise InvalidSetting(fact, hint=COLUMNS_HINT if form != RAW else "Leave columns out.")
        bad = words.on_bad_message.lower() or STOP
        if bad not in (STOP, KEEP) or (bad == KEEP and form != JSON):
            raise InvalidSetting(f"on_bad_message is {bad!r}", hint=f"There is: {STOP}, and {KEEP} for format {JSON}.")
        begin = words.begin.lower() if words.begin.lower() in (EARLIEST, "latest") else words.begin
        connection = source.partition(".")[0]
        defined = TopicReplicaDefinition(
            source, connection, form, columns, included(words.include), begin or EARLIEST, bad
        )
        return replace(defined, upsert=upsert_in(words, defined))

    def find(self, definition: TopicReplicaDefinition) -> FoundTopic:
        """Look at the topic. UpstreamUnfit, with what mends it, if there is none or if it cannot be followed."""
        with with_extra("kafka"):
            from tidefill.kafka.preflight import preflight
        return FoundTopic(*preflight(self.server(definition.connection), definition))

    def upstream(
        self, session: SparkSession, job: Job, definition: TopicReplicaDefinition
    ) -> KafkaUpstream[DataFrame] | UpsertUpstream[DataFrame]:
        """What the job's generation reads."""
        with with_extra("kafka"):
            from tidefill.kafka.newest import NewestReader
            from tidefill.kafka.reader import SparkReader
            from tidefill.kafka.upsert import UpsertUpstream
            from tidefill.kafka.upstream import KafkaUpstream
        server, topic = self.server(definition.connection), definition.topic
        group = f"{PREFIX}{job.id}-{job.generation}"
        reader = SparkReader(session, server, definition, group)
        log = KafkaUpstream(reader, server, topic, group, begin=definition.begin)
        if definition.upsert is None:
            return log
        return UpsertUpstream(log, NewestReader(reader, definition, definition.upsert), lambda: server.set_up(topic))

    def head(self, definition: TopicReplicaDefinition) -> Offsets:
        """The end of the topic now, up to the first open transaction."""
        return self.server(definition.connection).look(definition.topic).stable

    def remove(self, resource: Resource, job: Job) -> None:
        """Remove the consumer group of this job, if it is there. Unavailable while that cannot be done: it stays
        listed. NotOurs if its name is not one that a job gives: then it is left. With a job that ends, the groups of
        all its generations go: a runner that slept through a RESYNC may have written that of an older one again."""
        connection, _, group = resource.name.partition("/")
        if not re.fullmatch(rf"{PREFIX}{re.escape(job.id)}-[1-9][0-9]*", group):
            fact = f"the group {group} of {connection} is not removed"
            raise NotOurs(fact, detail=f"Its name is not {PREFIX}{job.id}-<generation>.")
        server = self.server(connection)
        try:
            ended = job.life in (Life.CANCELLING, Life.DROPPED)
            for each in server.groups(f"{PREFIX}{job.id}-") if ended else (group,):
                server.remove_group(each)
        except RetryLater:
            raise
        except TidefillError as error:
            raise Unavailable(f"the group {group} cannot be removed", detail=str(error)) from error

    def server(self, connection: str) -> KafkaServer:
        """The cluster of a connection. Raises BadInput if there is no such connection any more."""
        if connection not in self._names:
            raise BadInput(
                f"there is no connection {connection} any more",
                hint=f'Write a table [connections.{connection}] with kind = "kafka" into tidefill.toml.',
            )
        with with_extra("kafka"):
            from tidefill.kafka.server import KafkaServer
        if connection not in self._servers:
            settings = self._settings_of(connection)
            check_settings(connection, settings)
            self._servers[connection] = KafkaServer(connection, settings)
        return self._servers[connection]


def upsert_in(words: TopicWords, defined: TopicReplicaDefinition) -> Upsert | None:
    """What the words say of the newest message of a key; None if each message is a row."""
    mode = words.mode.lower() or (UPSERT if defined.format == DEBEZIUM else APPEND)
    if mode not in (APPEND, UPSERT) or (mode == APPEND and defined.format == DEBEZIUM):
        hint = f"There is: {APPEND}, {UPSERT}; {UPSERT} alone with format {DEBEZIUM}."
        raise InvalidSetting(f"mode is {words.mode!r}", hint=hint)
    if mode == APPEND:
        if words.key or words.key_format or words.incomplete:
            raise InvalidSetting("each message is a row, so no key is needed", hint=UPSERT_HINT)
        return None
    bad = ("on_bad_message", defined.on_bad_message, STOP)
    if defined.format == RAW:
        raise InvalidSetting(f"format is {RAW!r}", hint=f"With mode = '{UPSERT}' it can be {JSON}, {DEBEZIUM}.")
    for name, said, only in (("from", defined.begin, EARLIEST), bad):
        if said != only:
            raise InvalidSetting(f"{name} is {said!r}", hint=f"With mode = '{UPSERT}' it can only be {only}.")
    if words.incomplete.lower() not in ("", ACCEPTED):
        raise InvalidSetting(f"incomplete is {words.incomplete!r}", hint=f"There is: {ACCEPTED}. Or leave it out.")
    key = key_columns(words.key, defined.columns)
    if defined.format == DEBEZIUM:
        refuse_payload(key)
    wanted = words.key_format or (JSON if defined.format == DEBEZIUM else "")
    return Upsert(key, checked_key_format(wanted, key, defined.columns), bool(words.incomplete))


def refuse_words(source: str, words: TopicWords) -> None:
    """InvalidSetting if what is not a topic shall be read like one."""
    if words:
        raise InvalidSetting(
            f"{source} is no topic, so its rows have a format already",
            hint='Name a topic as connection.topic, with a connection of kind = "kafka" in tidefill.toml.',
        )


def _no_settings(connection: str) -> Mapping[str, str]:
    raise AssertionError(f"there is no connection {connection}")


NO_TOPICS = Topics((), _no_settings)
