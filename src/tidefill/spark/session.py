"""What is asked of a Spark session and set on it: whether it has Delta, whether it is gone, one for each job, and the
settings that give a query its meaning.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from pyspark.errors import AnalysisException, PySparkAssertionError, PySparkException
from pyspark.sql import SparkSession

from tidefill.errors import BadInput, StateUnreadable, Unavailable
from tidefill.spark.faults import CAUSES_MAX

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Settings of the user's session that would speak in our commits: Delta silently skips a write whose number it has seen.
COMMIT_CONF = (
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
)
# Settings that let a scan skip what it cannot read, so that lost rows would look like deleted ones.
LOSSY_CONF = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
CONCLUSIONS = "spark.sql.constraintPropagation.enabled"
# Of a small step the jobs themselves cost most: one task, one job a statement, and no plan that is made anew after each
# shuffle. (A MERGE of three rows has 18 jobs, and 10 with these; a replaceWhere 8 and 5.)
SMALL_STEP = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.limit.initialNumPartitions": "1000",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def is_gone(spark: SparkSession, error: BaseException) -> bool:
    """Whether the error came because the session is of no use any more: its Java has ended, or its server does not
    answer or is another one now. Java is asked; a server that is away cannot be, so there the error decides."""
    if not hasattr(spark, "cloneSession"):
        try:
            _ = spark.version
        except Exception:
            return True
        return False
    if getattr(spark, "is_stopped", False):
        return True
    seen: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if seen is None or _is_of_a_lost_session(seen):
            return seen is not None
        seen = seen.__cause__ or seen.__context__
    return False


def _is_of_a_lost_session(error: Any) -> bool:
    """(An assertion of PySpark's client: the answer is of another session than the question.)"""
    if isinstance(error, PySparkException):
        lost = (error.getCondition() or "").startswith("INVALID_HANDLE.SESSION")
        return lost or isinstance(error, PySparkAssertionError) or _is_away(getattr(error, "getGrpcStatusCode", None))
    return type(error).__module__.startswith("grpc") and _is_away(getattr(error, "code", None))


def _is_away(status: Any) -> bool:
    return callable(status) and getattr(status(), "name", "") == "UNAVAILABLE"


def check_session(spark: SparkSession) -> SparkSession:
    """The same session, or BadInput with what to add to it: a table that is not there is asked for in Delta's own SQL,
    and who answers tells. Settings would not: some platforms have Delta built in and set none."""
    try:
        _ = spark.version
    except Exception as error:
        raise Unavailable("this Spark session does not answer", detail=first_line(error)) from error
    try:
        spark.sql("DESCRIBE DETAIL delta.`/tidefill/no-such-table`").collect()
    except Exception as error:
        condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
        if condition.startswith("DELTA_") and not condition.startswith("DELTA_CONFIGURE_"):
            return spark
        if is_gone(spark, error):
            raise Unavailable("this Spark session does not answer any more", detail=first_line(error)) from error
        raise BadInput(
            "this Spark session has no Delta, or only half of it",
            detail=f"asked for a Delta table it says: {first_line(error)}",
            hint="Start it with the jars of Delta (delta.configure_spark_with_delta_pip) and with "
            + " and ".join(f"{name}={value}" for name, value in DELTA_CONF.items())
            + ".",
        ) from error
    return spark


def first_line(error: Exception) -> str:
    """What went wrong, without the call that py4j puts before it and the stack behind it."""
    lines = [line.lstrip(": ") for line in str(error).splitlines() if not line.startswith("An error occurred while")]
    return lines[0] if lines else type(error).__name__


def job_session(spark: SparkSession) -> SparkSession:
    """A session for one job. It starts with the settings of the given one, and from then on the two are apart: what a
    job sets for its commits and its meaning is seen by nobody else."""
    if hasattr(spark, "cloneSession"):
        session: SparkSession = spark.cloneSession()
        if hasattr(spark, "client"):  # else the clone would look for its server for longer than the session
            session.client.set_retry_policies(spark.client.get_retry_policies())
        _collect_at_exit()
    else:
        session = spark.newSession()
        _copy_conf(spark, session)
    for name in COMMIT_CONF:
        session.conf.unset(name)
    return session


@contextmanager
def having_set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session has these settings, and afterwards those that it had. What it has already is not set: each setting is
    a call to Java, or to a server."""
    known = {name: spark.conf.get(name, None) for name in settings}
    others = {name: was for name, was in known.items() if was != settings[name]}
    try:
        for name in others:
            spark.conf.set(name, settings[name])
        yield
    finally:
        for name, was in others.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


def without_constraint_propagation(spark: SparkSession) -> AbstractContextManager[None]:
    """Statements are planned without a search for what must hold on one side of a join because it holds on the other.
    With many columns that takes longer than a small statement itself, and where its tables are bounded by constants
    there is little to find."""
    return having_set(spark, {CONCLUSIONS: "false"})


def small_step(spark: SparkSession, few: bool) -> AbstractContextManager[None]:
    """Statements over `few` rows are planned for one task. Not for statements that read a large table: those need the
    plan that is made anew when it is known how few rows one side of a join has."""
    return having_set(spark, SMALL_STEP) if few else nullcontext()


def make_active(spark: SparkSession) -> None:
    """Let this thread have the session, unless it has one: parts of the client of Spark Connect ask the thread for it,
    and only the thread that made a session has it by itself."""
    if hasattr(spark, "cloneSession"):
        type(spark)._set_default_and_active_session(spark)  # type: ignore[attr-defined]


@cache
def _collect_at_exit() -> None:
    """A session of Spark Connect that is still there when Python ends hangs up only then, and waits for a thread that
    is gone already, for ever. So what nobody refers to any more is collected before."""
    atexit.register(gc.collect)


def _copy_conf(source: SparkSession, session: SparkSession) -> None:
    """What was set after the start, such as the credentials of a file system, is not in a new session. What Spark does
    not let one set is the same in all sessions anyway."""
    there = session.conf.getAll
    for name, value in source.conf.getAll.items():
        if there.get(name) != value:
            with suppress(AnalysisException):
                session.conf.set(name, value)


@dataclass(frozen=True, slots=True)
class Semantics:
    """The settings under which a query was created. Every session that computes it applies them, so that it keeps its
    meaning whoever runs it."""

    ansi: str
    time_zone: str
    timestamp_type: str
    case_sensitive: str
    store_assignment: str

    @classmethod
    def of(cls, spark: SparkSession) -> Semantics:
        return cls(**{name: str(spark.conf.get(setting)) for name, setting in _SETTINGS.items()})

    def apply(self, spark: SparkSession) -> None:
        """Sets them, and forbids scans to skip what they cannot read."""
        for name, value in asdict(self).items():
            spark.conf.set(_SETTINGS[name], value)
        for setting in LOSSY_CONF:
            spark.conf.set(setting, "false")

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Semantics:
        """The inverse of `to_json`. Anything else raises StateUnreadable."""
        names = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) != names or not all(isinstance(v, str) for v in data.values()):
            raise StateUnreadable("the settings of a definition cannot be read", detail=repr(data))
        return cls(**data)


_SETTINGS = {
    "ansi": "spark.sql.ansi.enabled",
    "time_zone": "spark.sql.session.timeZone",
    "timestamp_type": "spark.sql.timestampType",
    "case_sensitive": "spark.sql.caseSensitive",
    "store_assignment": "spark.sql.storeAssignmentPolicy",
}
