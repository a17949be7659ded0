"""A store in a SQLite file: the file, its connections and its backups."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tidefill.errors import BadInput, Unavailable
from tidefill.run.private import make_private
from tidefill.store.faults import NO_ROOM, disk_full, sqlite_code

BUSY_POLL_S = 0.02
BACKUPS_MAX = 100  # a migration that fails at every start shall not fill the disk


def make_file(file: Path) -> None:
    """An empty file that only its owner may read, in a directory made if it is missing. SQLite gives the files that it
    puts beside it the same mode. If the file was there, others lose what they may do to it and its backups."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        make_private(file)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise disk_full(str(file), f"{error.strerror}.") from error
        raise BadInput(
            f"the store {file} cannot be written",
            detail=f"{error.strerror}.",
            hint="Name a file on a local disk, in a directory that you may write.",
        ) from error


def sqlite_engine(file: Path, busy_s: float) -> sa.Engine:
    """What is special about SQLite. A connection lives for one call: an open one must not pass through a fork, and a
    file that was removed must not come back empty (`mode=rw`). Transactions are begun by us, for the driver would
    begin them too late."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode=rw", uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            _sqlite_use_wal(connection, busy_s)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN DEFERRED")

    return engine


def _sqlite_use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Readers and the writer do not wait for each other. The file remembers the mode; the one switch of its life does
    not heed the busy timeout, so the waiting is done here."""
    deadline_s = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if sqlite_code(error) != "SQLITE_BUSY" or time.monotonic() >= deadline_s:
                raise
        time.sleep(BUSY_POLL_S)


def sqlite_backup(file: Path, name: str) -> None:
    """A copy of the committed content beside the file; half a copy is removed, lest it be taken for a whole one."""
    copy = _new_file(file, name)
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as sink:
            source.backup(sink)
    except BaseException:
        copy.unlink()
        raise


def _new_file(beside: Path, name: str) -> Path:
    """An empty file that was not there before: if the name is in use, it gets a number."""
    for number in range(1, BACKUPS_MAX + 1):
        file = beside.with_name(name if number == 1 else f"{name}-{number}")
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
            return file
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno in NO_ROOM:
                raise disk_full(str(beside), f"{error.strerror}.") from error
            raise Unavailable(f"the backup {file} cannot be written", detail=f"{error.strerror}.") from error
    raise BadInput(f"there are {BACKUPS_MAX} backups beside {beside}", hint="Move those away that you do not need.")
