"""Where things are kept: the store, the warehouse, and the disks below them."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from tidefill.config import masked
from tidefill.doctor.case import Case
from tidefill.doctor.findings import Finding, Verdict, remedy_for, with_detail
from tidefill.doctor.reading import BUSY_S, read_sqlite_schema
from tidefill.errors import RetryLater, TidefillError
from tidefill.storage.local import local_path
from tidefill.store.faults import is_damaged, named
from tidefill.store.schema import SCHEMA_VERSION
from tidefill.store.sql_store import postgres_schema

FREE_BYTES_MIN = 1 << 30  # a step writes hundreds of megabytes before it can commit


def check_store(case: Case) -> Iterator[Finding]:
    """Whether the store can be opened, and its disk has room."""
    if case.config.is_store_elsewhere:
        yield from _store_elsewhere(case)
        return
    file = case.store_file
    if trouble := _trouble("store", file.parent):
        yield trouble
        return
    if case.has_store:
        yield Finding("store", Verdict.OK, str(file.parent))
        yield from _database(file)
    else:
        yield _none_yet("store", file.parent)
    yield _free_space("store", file.parent)


def _store_elsewhere(case: Case) -> Iterator[Finding]:
    """In a database. Its log is in a folder all the same."""
    url = case.config.store_place(case.environ)
    if case.config.store_variable is None and masked(url) != url:
        place = case.config.path or case.config.store_from
        remedy = 'Put the URL into an environment variable, and in its place write store = "env:VARIABLE"'
        yield Finding("store", Verdict.WARNING, f"its password is in {place}", remedy)
    try:
        schema = postgres_schema(url, busy_s=BUSY_S)
    except TidefillError as error:
        yield Finding(
            "store", Verdict.BAD, masked(with_detail(error.fact, error.detail)), error.hint or remedy_for(error)
        )
        return
    yield Finding("store", Verdict.OK, masked(url))
    yield _schema_found(schema, "pg_dump -n tidefill URL > backup.sql; tidefill status, which migrates it")
    if trouble := _trouble("store", case.config.log_folder):
        yield trouble


def check_warehouse(case: Case) -> Iterator[Finding]:
    """Whether the warehouse can be used, and its disk has room."""
    folder = local_path(case.config.warehouse)
    if trouble := _trouble("warehouse", folder):
        yield trouble
        return
    if folder.is_dir():
        yield Finding("warehouse", Verdict.OK, str(folder))
    else:
        yield _none_yet("warehouse", folder)
    yield _free_space("warehouse", folder)


def _trouble(setting: str, folder: Path) -> Finding | None:
    """Why the folder cannot be used, or made."""
    near = nearest(folder)
    if not near.is_dir():
        remedy = f"Set {setting} in tidefill.toml, or TIDEFILL_{setting.upper()}, to another folder."
        return Finding(setting, Verdict.BAD, f"{near} is not a folder", remedy)
    if not os.access(near, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"chmod u+rwx {quote(str(near))}"
        return Finding(setting, Verdict.BAD, f"you may not read and write in {near}", remedy)
    return None


def _none_yet(setting: str, folder: Path) -> Finding:
    return Finding(setting, Verdict.OK, f"no {setting} yet: {folder} will be made when it is needed")


def nearest(path: Path) -> Path:
    """The path, or the first folder above it that is there. A link to nothing is there, and in the way."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if os.path.lexists(each))


def _database(file: Path) -> Iterator[Finding]:
    shown = quote(str(file))
    if not os.access(file, os.R_OK | os.W_OK):
        yield Finding("store", Verdict.BAD, f"you may not read and write {file}", f"chmod 600 {shown}")
        return
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        fact = f"others may read or write {file}: its mode is {mode:04o}"
        yield Finding("store", Verdict.WARNING, fact, f"chmod 600 {shown}")
    try:
        yield _schema_found(read_sqlite_schema(file))
    except sqlite3.DatabaseError as error:
        yield Finding("store", Verdict.BAD, *_unusable(file, error))


def _unusable(file: Path, error: sqlite3.DatabaseError) -> tuple[str, str]:
    """The fact and the remedy. Only a file that SQLite itself calls damaged may be moved aside: a store on a full disk,
    or one that somebody has locked, is unharmed."""
    fact = f"{file} cannot be read: {error}"
    if is_damaged(error):
        moved = f"mv {quote(str(file))} {quote(f'{file}.damaged')}"
        return fact, f"Restore it from a backup, or begin with an empty one: {moved}"
    trouble = named(error, str(file))
    if isinstance(trouble, RetryLater):
        return with_detail(trouble.fact, trouble.detail), trouble.hint or remedy_for(trouble)
    return fact, "Restore it from a backup, or set store in tidefill.toml, or TIDEFILL_STORE, to another folder."


def _schema_found(schema: int | None, migrate: str = "tidefill status, which migrates it after a backup") -> Finding:
    if schema is None:
        return Finding("store", Verdict.OK, "nothing is in it yet")
    if schema > SCHEMA_VERSION:
        fact = f"a newer release wrote it: schema {schema}, this one knows {SCHEMA_VERSION}"
        return Finding("store", Verdict.BAD, fact, "pip install --upgrade tidefill")
    if schema < SCHEMA_VERSION:
        fact = f"an older release wrote it: schema {schema}, this one writes {SCHEMA_VERSION}"
        return Finding("store", Verdict.WARNING, fact, migrate)
    return Finding("store", Verdict.OK, f"schema {schema}")


def _free_space(setting: str, folder: Path) -> Finding:
    near = nearest(folder)
    free = shutil.disk_usage(near).free
    fact = f"{free / (1 << 30):,.1f} GiB free at {near}"
    if free >= FREE_BYTES_MIN:
        return Finding(f"{setting} disk", Verdict.OK, fact)
    remedy = f"Make room there (df -h {quote(str(near))}), or set {setting} in tidefill.toml to a folder elsewhere."
    return Finding(f"{setting} disk", Verdict.WARNING, fact, remedy)
