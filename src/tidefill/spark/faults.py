"""What Spark and Delta raise, in words of our own tree. Everything that runs a query goes through `translated`.

An error is told by its condition and SQLSTATE, then by the class of the exception. A message may hold values of the
user's rows, so a text decides only where it stands at the beginning of a message, and somebody else than a row wrote
that beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)

from tidefill.errors import (
    BadMessage,
    CommitConflict,
    DiskFull,
    HistoryGone,
    KeyNotUnique,
    QueryFailed,
    StateLost,
    TargetTouched,
    TidefillError,
    Unavailable,
    Unexplained,
    Unreadable,
    UpstreamReplaced,
)

KEY_NOT_UNIQUE = "TIDEFILL_KEY_NOT_UNIQUE"
SNAPSHOT_GONE = "TIDEFILL_SNAPSHOT_GONE"
BAD_MESSAGE = "TIDEFILL_BAD_MESSAGE"
REFUSALS = (AnalysisException, ArithmeticException, DateTimeException, NumberFormatException)
CAUSES_MAX = 20  # a chain of causes is short; one that refers to itself must end
DETAIL_MAX = 300

PUT_BACK = (
    "It was renamed, moved or dropped. Put the table back and RESUME the job; or DROP the job, UNREGISTER the table, "
    "REGISTER it where it is now, and create the job again."
)

CREATE_AGAIN = "Drop the job and create it anew from the columns that there are."
_NO_TABLE = (
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_ONLY_OPERATION",
    "PATH_NOT_FOUND",
)
_GONE = (*_NO_TABLE, "TABLE_OR_VIEW_NOT_FOUND")  # of an upstream, which is read by its place
_NO_COLUMN = ("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")  # of a query that Spark took when the job was created
_MISSING = (
    (_GONE, "a table that the job reads is gone", PUT_BACK),
    (_NO_COLUMN, "a column that the job needs is gone from a table that it reads", CREATE_AGAIN),
)


@dataclass(frozen=True, slots=True)
class _Link:
    """An error of Java, or the cause of one: its condition and SQLSTATE (empty if it has none), class and message."""

    condition: str
    state: str
    java: str
    message: str


# The first line of these with which a link of the chain agrees decides; later lines are more general.
_BY_CONDITION: tuple[tuple[tuple[str, ...], type[TidefillError], str], ...] = (
    (("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",), KeyNotUnique, "several changes of one key in one step"),
    (
        ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED", "DELTA_PATH_EXISTS"),
        CommitConflict,
        "somebody committed to the same table at the same moment",
    ),
    (("DELTA_MISSING_CHANGE_DATA",), HistoryGone, "changes were not recorded for a part of the history"),
    (
        (
            "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
            "DELTA_VERSION_NOT_FOUND",
            "DELTA_VERSIONS_NOT_CONTIGUOUS",
        ),
        HistoryGone,
        "history that is needed is gone",
    ),
    (("DELTA_LOG_FILE_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG"), HistoryGone, "the table's log was cleaned"),
    (("FAILED_READ_FILE.FILE_NOT_EXIST",), Unreadable, "files of that version are gone"),
    (("KAFKA_DATA_LOSS", "KAFKA_START_OFFSET"), Unreadable, "messages that are needed are gone from the topic"),
    (("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",), UpstreamReplaced, "the table's columns changed"),
    (
        _NO_TABLE,
        TargetTouched,
        "there is no table any more",
    ),
    (("DELTA_STATE_RECOVER",), StateLost, "the table's log cannot be read"),
)
# Delta's exceptions have a condition, but not where Delta's own Python package has replaced them by others.
_CONFLICTS = re.compile(r"(io\.)?delta\.exceptions\.(captured\.)?(Delta)?(Concurrent|MetadataChanged|ProtocolChanged)")
_OF_FILES = ("java.io.", "java.nio.", "org.apache.hadoop.")
_DISK_FULL = re.compile(r"(No space left on device|Disk quota exceeded)$")  # after a path, which is no data
_FILE_GONE = re.compile(r".*FileNotFoundException")
_RAISED = "USER_RAISED_EXCEPTION"
# What Tidefill itself says by `raise_error`: Spark puts only the condition before it.
_OUR_KEYS = f"[{_RAISED}] [{KEY_NOT_UNIQUE}] "
_OUR_MESSAGES = f"[{_RAISED}] [{BAD_MESSAGE}] "
# The client of Kafka in Spark has no condition.
_KAFKA = "org.apache.kafka.common.errors."
_TOPIC_GONE = ("UnknownTopicOrPartitionException", "UnknownTopicIdException")
_MESSAGES_GONE = ("OffsetOutOfRangeException", "LogTruncationException")
# The driver of PostgreSQL has no condition, and over Spark Connect no SQLSTATE either. The server's words come before
# any value; what stands first in quotes is what Tidefill let the server convert.
_POSTGRES = "org.postgresql.util.PSQLException"
_SNAPSHOT_GONE = re.compile(
    r'ERROR: (invalid snapshot identifier|could not import the requested snapshot|snapshot "|'
    rf'[^"]*"{SNAPSHOT_GONE} )'
)
_UNFIT_VALUE = re.compile(
    "Bad value for type |ERROR: (cannot subtract infinite|cannot convert infinity|bigint out of range)"
)
# SQLSTATE: 21 and 23, several rows or keys where one may be; 22, a value; P0, raise_error; 42, the query. Delta uses 22
# and 42 for its settings and tables too, so of its own conditions only those count that are about a value.
_VALUE_STATES = ("21", "22", "23", "P0")
_QUERY_STATE = "42"
_VALUES_OF_DELTA = ("DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT")
_VALUE_CLASSES = ("java.lang.ArithmeticException", "java.lang.NumberFormatException", "java.time.DateTimeException")
# These tell of memory, a disk, a network or a store: trying again helps when that is well again.
_OUTSIDE_STATES = ("08", "53", "57", "58", "82")
_WRITING = "TASK_WRITE_FAILED"  # its cause tells why, and may be a value
_OUTSIDE_CONDITIONS = (
    "INTERNAL_ERROR_BROADCAST", "INTERNAL_ERROR_EXECUTOR", "INTERNAL_ERROR_MEMORY", "INTERNAL_ERROR_NETWORK",
    "INTERNAL_ERROR_SHUFFLE", "INTERNAL_ERROR_STORAGE", "SPARK_JOB_CANCELLED", "OPERATION_CANCELED",
)  # fmt: skip
_OUTSIDE_CLASSES = (
    "java.io.", "java.net.", "java.nio.", "java.sql.", "java.lang.OutOfMemoryError", "java.lang.InterruptedException",
    "java.util.concurrent.TimeoutException", "javax.net.", "io.grpc.", "io.netty.", "com.amazonaws.", "com.azure.",
    "com.google.cloud.", "com.microsoft.", "software.amazon.", "org.apache.hadoop.", "org.apache.http.",
    "org.apache.spark.memory.", "org.apache.spark.network.", "org.apache.spark.rpc.", "org.apache.spark.shuffle.",
    "org.postgresql.", "org.apache.kafka.",
)  # fmt: skip
_HINTS: dict[type[TidefillError], str] = {
    CommitConflict: "",
    BadMessage: (
        "A message cannot be mended where it is. DROP the replica and create it WITH (on_bad_message = 'keep'), which "
        "keeps such messages beside the others, or with columns that fit."
    ),
    DiskFull: "Free space on the disks of the warehouse and of Spark's temporary files (spark.local.dir).",
    QueryFailed: (
        "Mend the value, then RESUME the job. Or DROP the job and create it with a query that gives NULL for such a "
        "value: try_cast, try_divide, try_element_at, get, try_to_number and others that begin with try_."
    ),
}


def translate(error: Exception, missing: type[TidefillError] = TargetTouched) -> TidefillError:
    """The error of ours. What Spark refuses stays refused. What comes from outside of the query is Unavailable, what
    else is not known Unexplained: both are tried again. `missing`: what it means here that there is no table."""
    links = list(_links(error))
    gone = _gone(links) if missing is UpstreamReplaced else None
    known = gone or _known(links, missing)
    if known is not None:
        return known
    for link in links:
        if _is_about_a_value(link):
            return _made(QueryFailed, "the query fails at a value of its data", link)
    for link in links:
        if link.state.startswith(_QUERY_STATE) and not link.condition.startswith("DELTA_"):
            return _made(QueryFailed, "Spark refuses the query", link)
    if isinstance(error, REFUSALS):
        return QueryFailed(
            "Spark refuses the query", detail=_first_line(str(error)), hint="Mend the data or the query."
        )
    told = [link for link in links if link.condition or not link.java.startswith("org.apache.spark.SparkException")]
    detail = _first_line(next((link.message for link in reversed(told) if link.message), "") or str(error))
    if not told or any(_is_outside(link) for link in links):
        return Unavailable("Spark could not do it", detail=detail)
    return Unexplained(f"Spark could not do it: {told[-1].condition or told[-1].java}", detail=detail)


def _gone(links: list[_Link]) -> UpstreamReplaced | None:
    """A table, or a column, that was there when the job was created."""
    for conditions, fact, hint in _MISSING:
        for link in links:
            if link.condition.startswith(conditions):
                return UpstreamReplaced(fact, detail=_detail(link.message), hint=hint)
    return None


def _known(links: list[_Link], missing: type[TidefillError]) -> TidefillError | None:
    """What Tidefill and Delta mean by an error of their own."""
    for conditions, kind, fact in _BY_CONDITION:
        for link in links:
            if link.condition.startswith(conditions):
                return _made(missing if kind is TargetTouched else kind, fact, link, _HINTS.get(kind))
    for agrees, kind, fact in _BY_CLASS:
        for link in links:
            if agrees(link):
                return _made(kind, fact, link)
    return None


def _is_conflict(link: _Link) -> bool:
    return _CONFLICTS.match(link.java) is not None


def _is_disk_full(link: _Link) -> bool:
    return link.java.startswith(_OF_FILES) and _DISK_FULL.search(_first_line(link.message)) is not None


def _is_file_gone(link: _Link) -> bool:
    return _FILE_GONE.fullmatch(link.java) is not None


def _is_snapshot_gone(link: _Link) -> bool:
    return link.java == _POSTGRES and _SNAPSHOT_GONE.match(link.message) is not None


def _is_unfit_value(link: _Link) -> bool:
    return link.java == _POSTGRES and (link.state.startswith("22") or _UNFIT_VALUE.match(link.message) is not None)


def _is_topic_gone(link: _Link) -> bool:
    return link.java.startswith(_KAFKA) and link.java.endswith(_TOPIC_GONE)


def _are_messages_gone(link: _Link) -> bool:
    return link.java.startswith((_KAFKA, "org.apache.kafka.clients.consumer.")) and link.java.endswith(_MESSAGES_GONE)


_BY_CLASS: tuple[tuple[Callable[[_Link], bool], type[TidefillError], str], ...] = (
    (lambda link: link.message.startswith(_OUR_KEYS), KeyNotUnique, "several rows have one key"),
    (lambda link: link.message.startswith(_OUR_MESSAGES), BadMessage, "a message of the topic cannot be read"),
    (_is_topic_gone, Unreadable, "the topic is gone"),
    (_are_messages_gone, Unreadable, "messages that are needed are gone from the topic"),
    (_is_disk_full, DiskFull, "a disk that Spark writes to is full"),
    (_is_conflict, CommitConflict, "somebody committed to the same table at the same moment"),
    (_is_file_gone, Unreadable, "files of that version are gone"),
    (_is_snapshot_gone, Unreadable, "the snapshot is gone"),
    (_is_unfit_value, QueryFailed, "a value of the source does not fit the type that its column becomes"),
)


def _is_about_a_value(link: _Link) -> bool:
    if not link.condition:
        return link.java in _VALUE_CLASSES
    if link.condition.startswith("DELTA_"):
        return link.condition in _VALUES_OF_DELTA or link.state.startswith("23")
    return link.condition == _RAISED or link.state.startswith(_VALUE_STATES)


def _is_outside(link: _Link) -> bool:
    told = link.condition.startswith(_OUTSIDE_CONDITIONS) or link.java.startswith(_OUTSIDE_CLASSES)
    return told or (link.state.startswith(_OUTSIDE_STATES) and link.condition != _WRITING)


def _made(kind: type[TidefillError], fact: str, link: _Link, hint: str | None = None) -> TidefillError:
    return kind(fact, detail=_detail(link.message), hint=_HINTS.get(kind, "RESYNC the job.") if hint is None else hint)


def _detail(message: str) -> str:
    """The first line, and the part of the query that it is about, which Spark shows below it."""
    shown = re.search(r"^== SQL .*==\n(.*)\n", message, re.MULTILINE)
    place = f" In: {shown[1].strip()}" if shown else ""
    return _first_line(message)[: DETAIL_MAX - min(len(place), DETAIL_MAX // 2)] + place[: DETAIL_MAX // 2]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:DETAIL_MAX]


def _links(error: Exception) -> Iterator[_Link]:
    """The error and its causes, the outermost first."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        yield from _links_of_java(java)
    elif isinstance(error, PySparkException):
        stack = getattr(error, "getStackTrace", lambda: None)()
        if stack is None:
            yield _Link(*_told(error), f"{type(error).__module__}.{type(error).__name__}", str(error))
        else:
            yield from _links_of_stack(error, stack)


def _links_of_java(java: Any) -> Iterator[_Link]:
    """Classic Spark lets through as they are those errors of Java that Python has no class for. Only some of them have
    a condition; SQL's own errors spell their SQLSTATE otherwise. (If Java is gone, nothing more can be asked.)"""
    with suppress(OSError, _py4j_error()):
        for _ in range(CAUSES_MAX):
            if java is None:
                return
            name, message = java.getClass().getName(), java.getMessage()
            condition = _asked(java, "getCondition")
            state = _asked(java, "getSqlState" if condition else "getSQLState")
            yield _Link(condition, state, name, message or "")
            java = java.getCause()


def _py4j_error() -> type[Exception]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    kind: type[Exception] = Py4JError
    return kind


def _asked(java: Any, method: str) -> str:
    """What the method says; empty if there is no such method."""
    with suppress(_py4j_error()):
        return getattr(java, method)() or ""
    return ""


def _links_of_stack(error: PySparkException, stack: str) -> Iterator[_Link]:
    """Over Spark Connect a cause is only a line in the text of the stack. The first line of a cause comes before any
    message that may hold values, so it can be believed, and the ones after it cannot."""
    outer, _, rest = stack.partition("\n")
    condition, state = _told(error)
    yield _Link(condition, state, outer, str(error).removeprefix(f"({outer}) "))
    cause = re.search(r"^Caused by: ([\w.$]+)(?:: )?((?:.*)(?:\n(?!\tat |Caused by: ).*)*)", rest, re.MULTILINE)
    if cause is not None:
        of_spark = cause[1].startswith(("org.apache.spark.", "io.delta."))
        said = re.match(r"\[([A-Z0-9_.]+)\] ", cause[2]) if of_spark else None
        states = re.findall(r"SQLSTATE: ([0-9A-Z]{5})", cause[2]) if said else []
        yield _Link(said[1] if said else "", states[-1] if states else "", cause[1], cause[2])


def _told(error: PySparkException) -> tuple[str, str]:
    """Its condition and SQLSTATE, if it has them."""
    with suppress(OSError, AssertionError):
        return error.getCondition() or "", error.getSqlState() or ""
    return "", ""


@contextmanager
def translated(missing: type[TidefillError] = TargetTouched) -> Iterator[None]:
    """Errors of Spark inside become errors of ours. Classic Spark lets some of Java's through as they are, and those of
    the connection to a Java that is gone; Spark Connect does so too where it clones a session."""
    try:
        yield
    except Exception as error:
        of_spark = isinstance(error, (PySparkException, ConnectionError))
        if of_spark or type(error).__module__.startswith(("py4j", "grpc")):
            raise translate(error, missing) from error
        raise
