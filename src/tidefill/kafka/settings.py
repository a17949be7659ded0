"""The settings of Kafka's clients: users write them by their names in librdkafka, and Spark's client, which is the one
of Java, gets what they mean there.

A setting that only Spark's client knows is written with `java.` before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidefill.errors import InvalidSetting

SERVERS = "bootstrap.servers"
JAVA = "java."
OURS = frozenset(
    (
        "group.id", "isolation.level", "enable.auto.commit", "auto.offset.reset", "enable.auto.offset.store",
        "transactional.id", "key.deserializer", "value.deserializer", "enable.partition.eof", "group.instance.id",
    )
)  # fmt: skip
"""Those that Tidefill sets itself: with others in their place messages could be lost or read twice."""

SAME = frozenset(
    (
        SERVERS, "client.id", "client.rack", "client.dns.lookup", "metadata.max.age.ms", "reconnect.backoff.ms",
        "reconnect.backoff.max.ms", "retry.backoff.ms", "connections.max.idle.ms", "fetch.min.bytes",
        "fetch.max.bytes", "max.partition.fetch.bytes", "check.crcs", "sasl.kerberos.service.name",
        "ssl.key.password", "ssl.cipher.suites",
    )
)  # fmt: skip
RENAMED = {
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
FILES = {  # Java's client takes the text of these files
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
LIBRDKAFKA_ALONE = frozenset(("log_level", "debug", "statistics.interval.ms", "broker.address.family"))
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def check_settings(connection: str, settings: Mapping[str, str]) -> None:
    """InvalidSetting for what cannot be set of a connection, before a secret is looked up."""
    if SERVERS not in settings:
        hint = f'"{SERVERS}" = "host:9092"'
        raise InvalidSetting(f"the connection {connection} has no {SERVERS}", hint=hint)
    for name in settings:
        if name.removeprefix(JAVA) in OURS:
            raise InvalidSetting(f"{name} of the connection {connection} is set by Tidefill", hint="Remove the line.")
        known = {*SAME, *RENAMED, *FILES, *LIBRDKAFKA_ALONE, *_AUTH}
        if name not in known and not name.startswith(JAVA):
            raise InvalidSetting(
                f"{name} of the connection {connection} has no known name for Spark's client",
                hint=f'If Spark needs it, give it by its name there: "{JAVA}{name}" = "..."; else remove it.',
            )


_AUTH = (
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "ssl.endpoint.identification.algorithm",
)  # fmt: skip


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """What the control client gets."""
    return {name: value for name, value in settings.items() if not name.startswith(JAVA)}


def for_java(
    settings: Mapping[str, str], read: Callable[[str], str] = lambda path: Path(path).read_text()
) -> dict[str, str]:
    """What Spark's client gets, by the names of Java. `read` gives the text of a file with a certificate."""
    found = {name: value for name, value in settings.items() if name in SAME}
    found |= {RENAMED[name]: value for name, value in settings.items() if name in RENAMED}
    found |= {java: read(settings[name]) for name, java in FILES.items() if name in settings}
    for store in ("truststore", "keystore"):
        if any(name.startswith(f"ssl.{store}.") for name in found):
            found[f"ssl.{store}.type"] = "PEM"
    if "security.protocol" in settings:
        found["security.protocol"] = settings["security.protocol"].upper()
    if (check := settings.get("ssl.endpoint.identification.algorithm")) is not None:
        found["ssl.endpoint.identification.algorithm"] = "" if check == "none" else check
    found |= _login(settings)
    return found | {name.removeprefix(JAVA): value for name, value in settings.items() if name.startswith(JAVA)}


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    """User and password: Java's client wants them in one line."""
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")).upper()
    if not mechanism:
        return {}
    found = {"sasl.mechanism": mechanism}
    if mechanism in _LOGIN and "sasl.username" in settings:
        user, password = (_quoted(settings.get(f"sasl.{name}", "")) for name in ("username", "password"))
        found["sasl.jaas.config"] = f"{_LOGIN[mechanism]} required username={user} password={password};"
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
