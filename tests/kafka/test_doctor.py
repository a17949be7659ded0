"""What `tidefill doctor` finds of the connections to Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.harness import Kafka
from tidefill.config import KAFKA, Config, Connection
from tidefill.doctor.examine import examine
from tidefill.doctor.findings import Finding, Verdict

SERVERS = ("bootstrap.servers", "127.0.0.1:1")


def found(settings: tuple[tuple[str, str], ...], folder: Path) -> list[Finding]:
    connection = Connection("events", kind=KAFKA, settings=settings)
    config = Config(folder / "tidefill.toml", str(folder / "store"), str(folder / "lake"), connections=(connection,))
    return [each for each in examine(config, {}, 0.0) if "events" in each.what]


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ((), "has no bootstrap.servers"),
        ((SERVERS, ("group.id", "mine")), "group.id of the connection events is set by Tidefill"),
        ((SERVERS, ("sasl.password", "env:NOT_SET")), "needs the environment variable NOT_SET"),
    ],
)
def test_settings_that_cannot_be_used(settings: tuple[tuple[str, str], ...], fact: str, tmp_path: Path) -> None:
    (finding,) = found(settings, tmp_path)
    assert finding.verdict is Verdict.BAD
    assert fact in finding.fact


def test_a_cluster_that_answers_and_a_secret_in_the_file(kafka: Kafka, tmp_path: Path) -> None:
    servers = ("bootstrap.servers", kafka.broker.servers)
    settings, cluster = found((servers, ("sasl.password", "a word")), tmp_path)
    assert settings.verdict is Verdict.WARNING
    assert "a word" not in f"{settings.fact} {settings.remedy}"
    assert "env:VARIABLE" in settings.remedy
    assert cluster.verdict is Verdict.OK
    assert cluster.fact.endswith(", 1 broker")
