"""One tree of errors, grouped by what the one who catches them does about it.

Every error has a stable `code` and says three things: the fact, the detail, the hint. `docs/errors.md` lists the whole
tree and a test keeps the two in step.
"""

from __future__ import annotations

from typing import ClassVar


class TidefillError(Exception):
    """The root. `str(error)` is what a person reads: fact [CODE], then detail and hint on lines of their own."""

    code: ClassVar[str] = "ERROR"
    exit_code: ClassVar[int] = 1

    def __init__(self, fact: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.fact} [{self.code}]"]
        if self.detail:
            lines.append(f"Detail: {self.detail}")
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)


class RetryLater(TidefillError):
    """The world is in the way for now. The runner waits, says what for, and tries again from what is true then."""

    code = "RETRY_LATER"


class Unavailable(RetryLater):
    """A server, a disk or the store did not answer. Whether the last call had its effect is unknown."""

    code = "UNAVAILABLE"


class Unexplained(Unavailable):
    """A query failed for a reason that is not known to pass, nor to stay. A job that meets the same one again and again
    stops: KEEPS_FAILING."""

    code = "UNEXPLAINED"


class SparkLost(RetryLater):
    """The Spark session that was given to the engine is gone, so the run ends. The jobs go on when one runs them with
    another session."""

    code = "SPARK_LOST"


class DiskFull(RetryLater):
    """A disk has no room, or fails when it is written. What was there before is unharmed."""

    code = "DISK_FULL"


class CommitConflict(RetryLater):
    """Someone committed to the target at the same moment. Read the state again and plan again."""

    code = "COMMIT_CONFLICT"


class Unreadable(RetryLater):
    """The version can no longer be read (its head was dropped). The next step moves to a newer one."""

    code = "UNREADABLE"


class NotYet(RetryLater):
    """Something has to happen elsewhere first: an input to go live, an old transaction to end. (Exit code 4: to a
    command it is a conflict.)"""

    code = "NOT_YET"
    exit_code = 4


class BadInput(TidefillError):
    """The caller has to change what was asked for. Nothing was made."""

    code = "BAD_INPUT"
    exit_code = 2


class InvalidSetting(BadInput):
    """A setting is outside of what it can be."""

    code = "INVALID_SETTING"


class UntrustedConfig(BadInput):
    """A file of settings that was found, and not named by the user, could have been written by another user."""

    code = "UNTRUSTED_CONFIG"


class UnsupportedKey(BadInput):
    """A value or type that has no total order that every part agrees on cannot be a key or a walk column."""

    code = "UNSUPPORTED_KEY"


class UpstreamUnfit(BadInput):
    """A table cannot be read as it is; the hint says how to change that."""

    code = "UPSTREAM_UNFIT"


class UnknownJob(BadInput):
    """No job of that name."""

    code = "UNKNOWN_JOB"


class UnknownTable(BadInput):
    """No registered table of that name, and no job either where a job would do."""

    code = "UNKNOWN_TABLE"


class BadSql(BadInput):
    """The SQL cannot be read; the detail says where."""

    code = "BAD_SQL"


class UnsupportedQuery(BadInput):
    """The SQL can be read, but a view of that kind cannot be kept up to date exactly; the hint is a way around it."""

    code = "UNSUPPORTED_QUERY"


class QueryTooLarge(UnsupportedQuery):
    """The query would be compiled into statements that take Spark too long to read; the hint is a way around it."""

    code = "QUERY_TOO_LARGE"


class MissingExtra(BadInput):
    """A part that is installed separately is needed; the hint is the pip line."""

    code = "MISSING_EXTRA"


class JarChanged(BadInput):
    """A jar for the local Spark is not the one that was released."""

    code = "JAR_CHANGED"


class Conflict(TidefillError):
    """Somebody else was first, or the thing is in another state than the request needs."""

    code = "CONFLICT"
    exit_code = 4


class NameTaken(Conflict):
    """The name belongs to a job or a table with another definition, or to something else in the catalog."""

    code = "NAME_TAKEN"


class InUse(Conflict):
    """Jobs read what shall be removed, or replaced by what they could not read; the detail names them."""

    code = "IN_USE"


class WrongState(Conflict):
    """The job cannot do that in the state that it is in."""

    code = "WRONG_STATE"


class Fenced(Conflict):
    """Another runner has taken the job over. This one must let go of it."""

    code = "FENCED"


class Stopped(TidefillError):
    """The job cannot go on without a person. It is FAILED and resumable; nothing wrong was published."""

    code = "STOPPED"
    exit_code = 3


class HistoryGone(Stopped):
    """The upstream no longer has changes that the job has not taken in yet."""

    code = "HISTORY_GONE"


class LogGivenUp(Stopped):
    """A job that stood still kept more of a server's log than its `wal_limit`, so its slot was dropped."""

    code = "LOG_GIVEN_UP"


class UpstreamReplaced(Stopped):
    """Under the same name there is now another table, or its past was rewritten."""

    code = "UPSTREAM_REPLACED"


class TargetTouched(Stopped):
    """Somebody else changed the data of the target."""

    code = "TARGET_TOUCHED"


class StateLost(Stopped):
    """Neither the target's log nor the store says where the job is."""

    code = "STATE_LOST"


class StateUnreadable(Stopped):
    """The recorded state is damaged, or was written by a newer release."""

    code = "STATE_UNREADABLE"


class KeyNotUnique(Stopped):
    """Two rows have the declared key, or a key is NULL."""

    code = "KEY_NOT_UNIQUE"


class DuplicateKeys(Stopped):
    """Several rows of a table have one key of a unique index that was to be built. The detail names the first keys and
    their rows. Writers are not refused meanwhile: the index is gone until the job is resumed."""

    code = "DUPLICATE_KEYS"


class KeyUnindexable(Stopped):
    """A row can have no entry in an index: its key cannot be computed, or is wider than a btree entry."""

    code = "KEY_UNINDEXABLE"


class WaitedTooLong(Stopped):
    """Transactions of others did not end within the `wait_timeout` of an index; the detail names them. The index does
    nothing to writers until the job is resumed."""

    code = "WAITING_FOR_TRANSACTIONS"


class LogTooLarge(Stopped):
    """The log of changed rows, which writers keep while an index is built, is larger than its `log_limit`. The index
    does nothing to writers until the job is resumed."""

    code = "LOG_TOO_LARGE"


class IndexBroken(Stopped):
    """Somebody has disabled or removed a part of a live index on its server, so that it may have missed writes."""

    code = "INDEX_BROKEN"


class AllPartsFailed(Stopped):
    """None of the things that a job makes could be made; the detail has the reason of each."""

    code = "ALL_PARTS_FAILED"


class VerifyFailed(Stopped):
    """The target differs from a recompute."""

    code = "VERIFY_FAILED"


class NotOurs(Stopped):
    """What a job's row names to be removed is not, by its name and place, what the job made. It is left as it is."""

    code = "NOT_OURS"


class QueryFailed(Stopped):
    """Spark refuses the query, or a value in it; trying again gives the same."""

    code = "QUERY_FAILED"


class BadMessage(Stopped):
    """A message of a topic cannot be read as the replica's format and columns say; the detail names its partition and
    offset."""

    code = "BAD_MESSAGE"


class KeepsFailing(Stopped):
    """Again and again the job met the same error, of which nobody knows whether it will pass. The detail has it."""

    code = "KEEPS_FAILING"


class JobFailed(Stopped):
    """A job that was waited for has failed; its own code is in the detail."""

    code = "JOB_FAILED"


class StoreUnreadable(Stopped):
    """The store is damaged, or was written by a newer release."""

    code = "STORE_UNREADABLE"


class TimedOut(TidefillError):
    """What was waited for did not happen in time; it may yet."""

    code = "TIMED_OUT"
    exit_code = 5


class Bug(TidefillError):
    """An assumption of ours does not hold. Please report it with the log."""

    code = "BUG"
