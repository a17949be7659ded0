"""Starts a Spark: a local one that is tuned for one machine, or a session of a Spark Connect server. Ends it, too."""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import PySparkException, PySparkImportError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession, is_remote

from tidefill.errors import BadInput, MissingExtra, Unavailable
from tidefill.spark.jars import session_jars
from tidefill.spark.session import DELTA_CONF, check_session, first_line

# How often a call over Spark Connect is tried again while the server does not answer: 19 seconds in all. PySpark's own
# ten minutes would leave a job without a word for as long.
CONNECT_RETRIES: dict[str, Any] = {
    "max_retries": 7,
    "initial_backoff": 50,
    "backoff_multiplier": 4.0,
    "max_backoff": 5000,
}
CONNECT_PORT = 15002  # what Spark Connect takes a URL without one to mean
REACH_S_MAX = 5.0
END_S_MAX = 10  # Java ends within a second; a stuck one must not keep the caller from ending
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
HEAP_MIB_MIN, HEAP_MIB_MAX = 1024, 4096
# Each small table that a join sends to all tasks takes a page, and a statement of a view may have thirty of them. By
# default a page on two cores is a fiftieth of the heap. A task has 8192 pages at most, so it can still use 32 GiB.
PAGE_SIZE = "4m"

LOG_CONFIGURATION = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


@dataclass(frozen=True, slots=True)
class _Started:
    """A Java that this process has started, what PySpark has for it, and its folder."""

    gateway: Any
    context: Any
    folder: Path


_STARTED: list[_Started] = []


def local_session(
    *, app_name: str = "tidefill", cores: int | None = None, extra_conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark in this process, tuned for one machine, that writes nothing to the terminal or the working directory.

    A process has one Spark. If there is one already, or the process was started by one, it is returned as it is, if it
    has Delta."""
    try:
        from pyspark import SparkContext as _  # noqa: F401
    except ImportError:  # the client for Spark Connect alone
        raise MissingExtra("a local Spark is not installed", hint="pip install 'tidefill[spark]'") from None
    _forget_what_has_ended()
    if runs_here():
        return check_session(SparkSession.builder.getOrCreate())
    _require_java()
    _silence_errors_we_handle()
    jars = session_jars()
    folder = _own_folder()
    try:
        return _start(_local_conf(app_name, cores or os.cpu_count() or 1, jars, folder, extra_conf or {}), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def runs_here() -> bool:
    """Whether this process has a Spark, or was started by one."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return is_remote()
    return is_remote() or SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def remote_session(url: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of the Spark Connect server at the URL, with these settings."""
    _require_reachable(url)
    try:
        session = SparkSession.builder.remote(url).config(map=dict(settings)).getOrCreate()
        _retry_for_a_short_time(session)
        return check_session(session)
    except (ImportError, PySparkImportError) as error:
        raise MissingExtra(
            "the client of Spark Connect is not installed",
            detail=first_line(error),
            hint="pip install 'pyspark[connect]'",
        ) from error
    except PySparkException as error:
        raise Unavailable("the Spark Connect server does not answer", detail=first_line(error)) from error


def _require_reachable(url: str) -> None:
    """Unavailable if nobody listens there: the client would look for ten minutes before it said so. Through a proxy
    only the client knows the way."""
    if any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        return
    address = urlsplit(url)
    try:
        where = (address.hostname or "", address.port or CONNECT_PORT)
        socket.create_connection(where, REACH_S_MAX).close()
    except (OSError, ValueError) as error:
        raise Unavailable("the Spark Connect server does not answer", detail=f"{url}: {error}") from error


def _retry_for_a_short_time(session: Any) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(**CONNECT_RETRIES)])


def forget(spark: SparkSession) -> None:
    """Let go of a session that is gone, so that the next one that is asked for is a new one."""
    remote: Any = spark
    if hasattr(remote, "cloneSession"):
        remote.release_session_on_close = False  # nobody is there to be told
        _stop(remote)
        return
    for started in _STARTED:
        started.gateway.proc.kill()  # it does not answer, so it may be about to end
        started.gateway.proc.wait()
    _forget_what_has_ended()


def _forget_what_has_ended() -> None:
    """PySpark keeps the Spark of a process for ever and would give a dead one to the next who asks, so it is made to
    forget one that was started here. (It has no public way for that.)"""
    from pyspark import SparkContext

    for started in tuple(_STARTED):
        if started.gateway.proc.poll() is None:
            continue
        _STARTED.remove(started)
        for _ in range(2):  # the first time it fails to tell Java, the second time it ends what it has here
            with suppress(Exception):
                started.context.stop()
        _end(started.gateway, started.folder)
        if SparkContext._gateway is started.gateway:
            SparkContext._gateway = SparkContext._active_spark_context = None
            SparkContext._jvm = None  # of a Java that has ended
            SparkSession._instantiatedSession = SparkSession._activeSession = None


def _start(settings: Mapping[str, str], folder: Path) -> SparkSession:
    """Java's own output goes to a file: some of what it says at its start no setting can silence. The settings, which
    may hold keys and passwords, reach Java in a file that only its owner can read: all users can read a command
    line."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers run whatever `python3` is
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    output = folder / "output"
    with output.open("wb") as file, _uninterrupted(), _submitted_with(settings, folder):
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
        except PySparkException:
            raise _did_not_start(output.read_text(errors="replace")) from None
        atexit.register(_end, gateway, folder)
    context = SparkContext(conf=conf, gateway=gateway)
    session = SparkSession(context)
    atexit.register(_stop, session)
    _STARTED.append(_Started(gateway, context, folder))
    return session


@contextmanager
def _submitted_with(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """A Spark that is started inside has these settings, from a file that is gone afterwards."""
    file, before = folder / "settings.properties", os.environ.get(SUBMIT_ARGUMENTS)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as properties:
        properties.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())
    given = f"--load-spark-defaults --properties-file {shlex.quote(str(file))} "
    os.environ[SUBMIT_ARGUMENTS] = given + (before or "pyspark-shell")
    try:
        yield
    finally:
        file.unlink()
        if before is None:
            del os.environ[SUBMIT_ARGUMENTS]
        else:
            os.environ[SUBMIT_ARGUMENTS] = before


def _escaped(text: str) -> str:
    """As a name or a value in a file of Java's properties."""
    for sign in "\\ =:#!":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C counts only when this is over: a Java that nobody knows of yet would stay, and write into its folder."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if came:
        raise KeyboardInterrupt


def _silence_errors_we_handle() -> None:
    """PySpark prints every error of a query, with its stack, before it raises it. The connection to Java does so too,
    where nobody has said where logs go."""
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _stop(session: SparkSession) -> None:
    """Both sides hang up before Java ends, else pyspark prints that it lost the other."""
    with suppress(Exception):
        session.stop()


def _end(gateway: Any, folder: Path) -> None:
    """Java ends when its input does, and is waited for, because it writes into the folder until then."""
    with suppress(Exception):
        gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()
    with suppress(TimeoutExpired):
        gateway.proc.wait(END_S_MAX)
    shutil.rmtree(folder, ignore_errors=True)


def _local_conf(
    app_name: str, cores: int, jars: Sequence[Path], folder: Path, extra_conf: Mapping[str, str]
) -> dict[str, str]:
    """Spark's defaults are for clusters: 200 and 50 tasks for each small question cost seconds here."""
    conf = {
        **DELTA_CONF,
        "spark.master": f"local[{cores}]",
        "spark.app.name": app_name,
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.sql.files.maxPartitionBytes": "64m",  # three tasks on two cores take as long as four: more, smaller ones
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_heap_mib()}m",
        "spark.buffer.pageSize": PAGE_SIZE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **extra_conf,
    }
    properties = {
        "log4j2.configurationFile": folder / "log4j2.properties",
        "derby.system.home": folder,
        "java.io.tmpdir": folder,
    }
    options = " ".join(f'-D{name}="{value}"' for name, value in properties.items())
    return {**conf, JAVA_OPTIONS: f"{options} {conf.get(JAVA_OPTIONS, '')}".strip()}


def _heap_mib() -> int:
    """A quarter of the machine's memory, from Spark's own default of a gigabyte up to four: above that nothing here
    gets faster, and below two an aggregation of millions of keys goes to disk."""
    try:
        memory_mib = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
    except (ValueError, OSError):
        return HEAP_MIB_MIN
    return min(max(memory_mib // 4, HEAP_MIB_MIN), HEAP_MIB_MAX)


def _own_folder() -> Path:
    """Where this Spark keeps its log and whatever else it would leave in the working directory."""
    folder = Path(tempfile.mkdtemp(prefix="tidefill-spark-"))
    (folder / "log4j2.properties").write_text(LOG_CONFIGURATION.format(folder=folder), encoding="utf-8")
    return folder


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        raise _no_java(f"JAVA_HOME={home} has no bin/java" if home else "there is no `java` on the PATH")


def _no_java(detail: str) -> BadInput:
    return BadInput(
        "Spark needs Java 17 or later",
        detail=detail,
        hint="Install it (Debian: apt-get install default-jre-headless, macOS: brew install openjdk) or set JAVA_HOME.",
    )


def _did_not_start(output: str) -> BadInput | Unavailable:
    """What a Java that gave up said first; the rest would be a stack trace."""
    if "UnsupportedClassVersionError" in output or "jdk.incubator.vector not found" in output:
        return _no_java("the Java that was found is older, or not complete")
    said = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("WARNING")]
    return Unavailable("Spark did not start", detail=said[0] if said else "Java ended without a word")
