"""A Kafka broker of our own, of one node, from the jars of its release: its data is in the system's folder for
temporary files, and is gone when the broker is.

A process beside it waits until its standard input ends, which only the parent holds open, and takes the broker down: so
it ends with its parent, however that comes.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from tidefill.errors import Unavailable
from tidefill.local.kafka_jars import DIGESTS, KAFKA
from tidefill.local.sockets import free_port
from tidefill.spark.jars import SCALA, Jars, cached_jars

HOST = "127.0.0.1"
START_S_MAX, STOP_S_MAX = 90, 20
HEAP = "256m"
LOOK_S = 0.1
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    **{f"{topic}.replication.factor": "1" for topic in ("offsets.topic", "transaction.state.log")},
    **{f"{topic}.num.partitions": "1" for topic in ("offsets.topic", "transaction.state.log")},
    "transaction.state.log.min.isr": "1",
    **{f"num.{what}": "1" for what in ("network.threads", "replica.fetchers", "recovery.threads.per.data.dir")},
    "num.io.threads": "2",
    "background.threads": "1",
    "log.cleaner.threads": "1",
}
# Java's own logging of Spark, which Kafka logs through.
LOGGING = ("slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*", "scala-library-*")
LOG4J = """status = ERROR
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n%ex
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file
"""


def jars_of_broker() -> Jars:
    """The broker's jars, but for those that Spark has."""
    coordinates = f"org.apache.kafka:kafka_{SCALA}:{KAFKA}"
    return Jars("a Kafka broker", coordinates, f"jars-kafka-{KAFKA}", tuple(DIGESTS), "org.none:none", DIGESTS)


class LocalKafka:
    """A broker that runs."""

    def __init__(self, classes: str, folder: Path, settings: Mapping[str, str]) -> None:
        self._classes = classes
        self._folder = folder
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._controller_port = free_port(HOST), free_port(HOST)

    @property
    def servers(self) -> str:
        """The address, as clients want it."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The folder with the logs of the partitions."""
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """Of the broker's process."""
        assert self._process is not None, "it was not started"
        return self._process.pid

    def initialize(self) -> None:
        """Make the storage. The id of a cluster may not begin with a dash."""
        mark = next(text for text in iter(_cluster_id, "") if not text.startswith("-"))
        (self._folder / "log4j2.properties").write_text(LOG4J.format(file=self._folder / "log"), encoding="utf-8")
        address = f"{HOST}:{self._controller_port}"
        settings = {
            **self._settings,
            "controller.quorum.voters": f"1@{address}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{address}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "log.dirs": str(self.data),
        }
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        self._properties.write_text("".join(lines), encoding="utf-8")
        with self._said() as said:
            command = self._command("kafka.tools.StorageTool", "format", "-t", mark, "-c", str(self._properties))
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
        if done.returncode:
            raise Unavailable("the storage of the local Kafka cannot be made", detail=self._told())

    def start(self) -> None:
        """Until it answers. Unavailable, with the end of its log, if it does not."""
        with self._said() as said:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        (self._folder / "pid").write_text(str(self._process.pid), encoding="utf-8")
        deadline_s = time.monotonic() + START_S_MAX
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise Unavailable("the local Kafka does not start", detail=self._told())
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """Take it down."""
        assert self._process is not None, "it was not started"
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S_MAX)
        self.kill()

    def kill(self) -> None:
        """As if the power had failed."""
        assert self._process is not None, "it was not started"
        self._process.kill()
        self._process.wait()
        (self._folder / "pid").unlink(missing_ok=True)  # the number may be another process' by and by

    def reap(self) -> None:
        """Let the system forget a process that has ended."""
        if self._process is not None:
            self._process.wait(STOP_S_MAX)

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _command(self, program: str, *words: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        options = [
            f"-Xmx{HEAP}", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
        ]  # fmt: skip
        return [java, *options, "-cp", self._classes, program, *words]

    @contextmanager
    def _said(self) -> Iterator[int]:
        said = os.open(self._folder / "said", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            yield said
        finally:
            os.close(said)

    def _told(self) -> str:
        files = (self._folder / name for name in ("said", "log"))
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.exists()]
        return "".join(texts).strip()[-1000:]


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _answers(port: int) -> bool:
    """Whether a request for the versions of the protocol is answered. (key 18, version 0, number 7, no client id)"""
    request = b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"
    with suppress(OSError), socket.create_connection((HOST, port), timeout=2) as connection:
        connection.sendall(len(request).to_bytes(4, "big") + request)
        return connection.recv(8)[4:8] == request[4:8]
    return False


@contextmanager
def local_kafka(settings: Mapping[str, str] | None = None) -> Iterator[LocalKafka]:
    """A new broker without topics, with these settings beside ours."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    own = [jar for name in LOGGING for jar in sorted(spark_jars.glob(f"{name}.jar"))]
    classes = os.pathsep.join(map(str, [*own, *cached_jars(jars_of_broker())]))
    folder = Path(tempfile.mkdtemp(prefix="tidefill-kafka-"))
    watcher = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    broker = LocalKafka(classes, folder, settings or {})
    try:
        broker.initialize()
        broker.start()
        yield broker
    finally:
        if watcher.stdin is not None:
            watcher.stdin.close()
        watcher.wait()
        broker.reap()


def _watch(folder: Path) -> None:
    """Wait for the end of the parent, then take down what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError):
        os.kill(int((folder / "pid").read_text(encoding="utf-8")), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
