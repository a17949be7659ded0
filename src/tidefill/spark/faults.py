"""What Spark and Delta raise, in words of our own tree. Everything that runs a query goes through `translated`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)

from tidefill.errors import (
    CommitConflict,
    DiskFull,
    HistoryGone,
    KeyNotUnique,
    QueryFailed,
    StateLost,
    TargetTouched,
    TidefillError,
    Unavailable,
    Unreadable,
    UpstreamReplaced,
)

KEY_NOT_UNIQUE = "TIDEFILL_KEY_NOT_UNIQUE"
SNAPSHOT_GONE = "TIDEFILL_SNAPSHOT_GONE"
REFUSALS = (AnalysisException, ArithmeticException, DateTimeException, NumberFormatException)

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
# The first line whose words are in the error decides; later lines are more general.
_KINDS: tuple[tuple[tuple[str, ...], type[TidefillError], str], ...] = (
    (("No space left on device", "Disk quota exceeded"), DiskFull, "a disk that Spark writes to is full"),
    ((KEY_NOT_UNIQUE,), KeyNotUnique, "several rows have one key"),
    (("DELTA_MULTIPLE_SOURCE_ROW_MATCHING",), KeyNotUnique, "several changes of one key in one step"),
    (
        (
            "DELTA_CONCURRENT",
            "ConcurrentAppendException",
            "ConcurrentTransactionException",
            "ConcurrentDeleteReadException",
            "ConcurrentDeleteDeleteException",
            "ConcurrentWriteException",
            "MetadataChangedException",
            "DELTA_METADATA_CHANGED",
            "ProtocolChangedException",
            "DELTA_PROTOCOL_CHANGED",
            "DELTA_PATH_EXISTS",
        ),
        CommitConflict,
        "somebody committed to the same table at the same moment",
    ),
    (("DELTA_MISSING_CHANGE_DATA",), HistoryGone, "changes were not recorded for a part of the history"),
    (
        ("BEYOND_DELETED_FILE_RETENTION_DURATION", "DELTA_VERSION_NOT_FOUND", "DELTA_VERSIONS_NOT_CONTIGUOUS"),
        HistoryGone,
        "history that is needed is gone",
    ),
    (("DELTA_LOG_FILE_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG"), HistoryGone, "the table's log was cleaned"),
    (("FILE_NOT_EXIST", "FileNotFoundException"), Unreadable, "files of that version are gone"),
    (
        (SNAPSHOT_GONE, "invalid snapshot identifier", "could not import the requested snapshot", 'ERROR: snapshot "'),
        Unreadable,
        "the snapshot is gone",
    ),
    (("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",), UpstreamReplaced, "the table's columns changed"),
    (
        _NO_TABLE,
        TargetTouched,
        "there is no table any more",
    ),
    (("DELTA_STATE_RECOVER",), StateLost, "the table's log cannot be read"),
    (
        (
            "Bad value for type BigDecimal",
            "cannot subtract infinite dates",
            "cannot convert infinity to bigint",
            "bigint out of range",
        ),
        QueryFailed,
        "a value of the source does not fit the type that its column becomes",
    ),
)
_HINTS: dict[type[TidefillError], str] = {
    CommitConflict: "",
    DiskFull: "Free space on the disks of the warehouse and of Spark's temporary files (spark.local.dir).",
    QueryFailed: "Mend the value, then RESUME the job.",
}


def translate(error: Exception, missing: type[TidefillError] = TargetTouched) -> TidefillError:
    """The error of ours. What Spark refuses stays refused; what else is not known is Unavailable: it is tried again.
    `missing`: what it means here that there is no table."""
    text = str(error)
    first_line = next((line for line in text.splitlines() if line.strip()), "")[:300]
    if missing is UpstreamReplaced and any(word in text for word in _GONE):
        return UpstreamReplaced("a table that the job reads is gone", detail=_told(text, _GONE), hint=PUT_BACK)
    if missing is UpstreamReplaced and any(word in text for word in _NO_COLUMN):
        fact = "a column that the job needs is gone from a table that it reads"
        return UpstreamReplaced(fact, detail=_told(text, _NO_COLUMN), hint=CREATE_AGAIN)
    for words, kind, fact in _KINDS:
        if any(word in text for word in words):
            meant = missing if kind is TargetTouched else kind
            return meant(fact, detail=_told(text, words), hint=_HINTS.get(kind, "RESYNC the job."))
    if isinstance(error, REFUSALS):
        return QueryFailed("Spark refuses the query", detail=first_line, hint="Mend the data or the query.")
    return Unavailable("Spark could not do it", detail=first_line)


def _told(text: str, words: tuple[str, ...]) -> str:
    """The line that says it; the first one may only say which task failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(line for line in lines if any(word in line for word in words))[:300]


@contextmanager
def translated(missing: type[TidefillError] = TargetTouched) -> Iterator[None]:
    """Errors of Spark inside become errors of ours. Classic Spark lets some of Java's through as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
            raise translate(error, missing) from error
        raise
