"""Which consumer groups are removed with a job."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ListConsumerGroupsResult

from tidefill.errors import NotOurs, Unavailable
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.kafka.connections import Topics
from tidefill.kafka.server import KafkaServer


class Groups:
    def __init__(self) -> None:
        self.left = ["tidefill-j1-1", "tidefill-j1-2", "tidefill-j1-10", "tidefill-j10-1"]

    def groups(self, prefix: str) -> list[str]:
        return [group for group in self.left if group.startswith(prefix)]

    def remove_group(self, group: str) -> None:
        self.left.remove(group)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    found = Groups()
    monkeypatch.setattr(Topics, "server", lambda self, connection: found)
    return found


def remove(life: Life, **of_resource: Any) -> None:
    resource = Resource("group", of_resource.get("name", "events/tidefill-j1-1"))
    Topics(("events",), lambda name: {}).remove(resource, Job("j1", "clicks", "{}", life=life))


def test_a_generation_that_is_over_leaves_those_of_others(groups: Groups) -> None:
    remove(Life.LIVE)
    assert groups.left == ["tidefill-j1-2", "tidefill-j1-10", "tidefill-j10-1"]


@pytest.mark.parametrize("life", [Life.CANCELLING, Life.DROPPED])
def test_with_a_job_the_groups_of_all_its_generations_go(life: Life, groups: Groups) -> None:
    remove(life)
    assert groups.left == ["tidefill-j10-1"]


def test_a_group_of_somebody_else_is_left(groups: Groups) -> None:
    with pytest.raises(NotOurs):
        remove(Life.DROPPED, name="events/tidefill-j10-1")
    assert len(groups.left) == 4


class StartingBroker:
    """Has not read yet which groups there are. The client hands out what it has, with an error beside it."""

    def list_consumer_groups(self, request_timeout: float) -> Future[ListConsumerGroupsResult]:
        told: Future[ListConsumerGroupsResult] = Future()
        error = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
        told.set_result(ListConsumerGroupsResult(valid=[], errors=[error]))
        return told


def test_a_list_of_groups_that_may_lack_some_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    # R26
    server = KafkaServer("events", {})
    monkeypatch.setattr(server, "_admin", StartingBroker())
    with pytest.raises(Unavailable):
        server.groups("tidefill-")
    with pytest.raises(Unavailable):
        server.remove_group("tidefill-j1-1")
