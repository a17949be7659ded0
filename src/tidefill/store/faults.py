"""What SQLAlchemy and the drivers raise, as errors of our own tree."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from tidefill.errors import BadInput, Bug, Conflict, DiskFull, StoreUnreadable, TidefillError, Unavailable

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named_errors(place: str) -> Iterator[None]:
    """Errors of the database as errors of our own tree; everything else passes."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise named(error, place) from error
    except UnicodeDecodeError as error:  # the driver's own, of a name in the file that is not Unicode any more
        raise _unreadable(place, f"{error}.") from error


def named(error: SQLAlchemyError | sqlite3.Error, file: str) -> TidefillError:
    """The error of our own tree that says what the database said of the store."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if type(cause).__module__.startswith("psycopg"):
        return _postgres_named(cause, file)
    detail = f"{type(cause).__name__}: {cause}."
    match sqlite_code(cause).removeprefix("SQLITE_").partition("_")[0]:
        case "BUSY" | "LOCKED":
            return Unavailable(f"the store {file} is locked by another process", detail=detail)
        case "READONLY" | "PERM" | "AUTH":
            return BadInput(f"the store {file} cannot be written", detail=detail, hint="Check who may write the file.")
        case "FULL" | "IOERR":  # IOERR: SQLite says so, too, when a file beside the store cannot grow
            return disk_full(file, detail)
        case "CONSTRAINT":
            return Conflict(f"the store {file} has such a row already", detail=detail)
        case "NOTADB" | "CORRUPT" | "ERROR":  # ERROR: a table or a column that should be there is not
            return _unreadable(file, detail)
        case "" if isinstance(cause, sqlite3.OperationalError):  # the driver's own: a text that is not Unicode
            return _unreadable(file, detail)
    if isinstance(cause, sqlite3.OperationalError):
        return Unavailable(f"the store {file} does not answer", detail=detail)
    return Bug(f"the store {file} cannot do what was asked", detail=detail)


def _postgres_named(cause: BaseException | None, place: str) -> TidefillError:
    """By the SQLSTATE."""
    detail = f"{type(cause).__name__}: {str(cause).strip().splitlines()[0] if str(cause).strip() else ''}"
    match str(getattr(cause, "sqlstate", None) or "")[:2]:
        case "23":
            return Conflict(f"the store {place} has such a row already", detail=detail)
        case "53" if getattr(cause, "sqlstate", "") == "53100":
            hint = "Free space on the disk of the server. The store is unharmed."
            return DiskFull(f"the disk of the store {place} is full", detail=detail, hint=hint)
        case "42" if getattr(cause, "sqlstate", "") == "42501":
            return BadInput(
                f"the store {place} cannot be written", detail=detail, hint="Let the role create in the database."
            )
        case "42":
            return _unreadable(place, detail)
        case "":
            return Unavailable(
                f"the store {place} cannot be reached",
                detail=detail,
                hint="Check the URL, that the server runs, and that it lets you in.",
            )
    return Unavailable(f"the store {place} does not answer", detail=detail)


def sqlite_code(error: BaseException | None) -> str:
    """SQLite's name of the error, such as SQLITE_BUSY; empty if it has none."""
    return str(getattr(error, "sqlite_errorname", ""))


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether SQLite found the file itself to be wrong: not a database, or malformed."""
    return sqlite_code(error).startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def disk_full(file: str, detail: str) -> DiskFull:
    """The disk of that file has no room, or cannot be written."""
    folder = Path(file).parent
    return DiskFull(
        f"the disk of the store {file} is full, or cannot be written",
        detail=detail,
        hint=f"Free space on the disk of {folder} (df -h {quote(str(folder))}). The store is unharmed.",
    )


def _unreadable(file: str, detail: str) -> StoreUnreadable:
    return StoreUnreadable(
        f"the store {file} cannot be read",
        detail=detail,
        hint="It is damaged or no store. Restore it from a backup, or move it away to begin with an empty one.",
    )
