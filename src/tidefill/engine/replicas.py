"""What a replica is of: a table of ours, a table of another database, or a topic, in the words of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidefill.engine.inputs import Inputs
from tidefill.errors import InvalidSetting
from tidefill.jobs.row import Settings
from tidefill.jobs.settings import changed_settings, check_use
from tidefill.jobs.wishes import Wish, wish_for_replica, wish_of
from tidefill.kafka.connections import Topics, TopicWords, refuse_words
from tidefill.postgres.connections import Databases

if TYPE_CHECKING:
    from tidefill.delta.explain_result import Explained
    from tidefill.engine.lakes import Lake


@dataclass(frozen=True, slots=True)
class ReplicaWords:
    """What is said of a replica beside its settings: of a table of another database, the publication and the slot that
    somebody made for it; of a topic, how its messages become rows."""

    publication: str
    slot: str
    topic: TopicWords


class ReplicaJobs:
    """Replicas of whatever has a name here. `lake` starts Spark if it has to."""

    def __init__(self, databases: Databases, topics: Topics, inputs: Inputs, lake: Callable[[], Lake]) -> None:
        self._databases = databases
        self._topics = topics
        self._inputs = inputs
        self._lake = lake

    def wish(self, source: str, words: ReplicaWords) -> Wish:
        """What is asked for."""
        if self._topics.is_topic(source):
            wish = wish_of(self._topics.define(source, words.topic))
            assert wish is not None, "it can be read"
            return wish
        elsewhere = self._databases.source(source, words.publication, words.slot)
        return wish_for_replica(source if elsewhere is None else elsewhere.name)

    def explain(self, source: str, words: ReplicaWords, settings: Mapping[str, Any]) -> Explained:
        """What a replica would do: key, walk and why, rows."""
        changed_settings(Settings(), settings)
        explained = self._explained(source, words)
        check_use(explained.definition, settings)
        return explained

    def _explained(self, source: str, words: ReplicaWords) -> Explained:
        elsewhere = self._databases.source(source, words.publication, words.slot)
        if elsewhere is None and (words.publication or words.slot):
            raise InvalidSetting(
                f"{source} is not of another database, so it has no publication and no slot",
                hint="Name a table as connection.schema.table, with a connection of tidefill.toml.",
            )
        if self._topics.is_topic(source):
            definition = self._topics.define(source, words.topic)
            return self._lake().topic_replicas.explain(definition)
        refuse_words(source, words.topic)
        if elsewhere is not None:
            return self._lake().replicas.explain(elsewhere)
        self._inputs.refuse_unknown_connection(source)
        found = self._inputs.keyed((source,))
        return self._lake().definer.explain_replica(found)
