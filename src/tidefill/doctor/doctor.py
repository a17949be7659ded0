"""What is wrong here, and what to type about it.

Looking changes nothing: no store, folder or schema is made, nothing is downloaded, and Spark is not started. A check
that breaks is a finding like any other, so that one trouble never hides the rest.
"""

from __future__ import annotations

import operator
import os
import platform
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TypeAlias, assert_never

from tidefill.config import Config, Connection, masked
from tidefill.engine.engine import STORE_FILE
from tidefill.errors import InvalidSetting, RetryLater, TidefillError
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.postgres.connections import Databases
from tidefill.run.runner import LEASE_S
from tidefill.storage.local import local_path, why_not_made
from tidefill.store.faults import is_damaged, named
from tidefill.store.schema import SCHEMA_VERSION
from tidefill.store.sql_store import open_store, postgres_schema

PACKAGES = {  # and the module that each brings
    "pyspark": "pyspark",
    "delta-spark": "delta",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "sqlglot": "sqlglot",
}
JAVA_MIN = 17
JAVA_MODULE = "jdk.incubator.vector"
JAVA_S_MAX = 10  # it answers within a second; a stuck one must not keep the other findings back
BUSY_S = 2.0  # somebody waits for the answer
FREE_BYTES_MIN = 1 << 30  # a step writes hundreds of megabytes before it can commit
ALIKE_MAX = 20  # enough to see what is going on; a list has to stay readable

INSTALL = "pip install 'tidefill[spark]'"
INSTALL_JAVA = (
    "Install Java 17 or later (Debian: apt-get install default-jre-headless, macOS: brew install openjdk), or set "
    "JAVA_HOME to one."
)
MADE_BY_A_JOB = re.compile(r"[A-Za-z0-9_]+-[0-9a-f]{32}-[0-9]+")  # as `Lake.path` names it
_BOUNDS = {">=": operator.ge, "<": operator.lt}


class Verdict(Enum):
    """How bad it is: fine, worth knowing, or in the way."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and how it is. What is not fine has a remedy that a person can type."""

    what: str
    verdict: Verdict
    fact: str
    remedy: str = ""

    def __post_init__(self) -> None:
        assert self.remedy or self.verdict is Verdict.OK, self


@dataclass(frozen=True, slots=True)
class _Case:
    """All that a check may know."""

    config: Config
    environ: Mapping[str, str]
    now_s: float

    @property
    def store_file(self) -> Path:
        return Path(self.config.store) / STORE_FILE

    @property
    def store(self) -> str | Path:
        """What to open: the file, or the URL of the database. InvalidSetting if that is not known."""
        return self.config.store_place(self.environ) if self.config.is_store_elsewhere else self.store_file

    @property
    def has_store(self) -> bool:
        """Whether one is seen: no, too, where one may not look. A database that is named counts as one: it is asked
        only for what is in it."""
        return self.config.is_store_elsewhere or os.path.isfile(self.store_file)


_Check: TypeAlias = Callable[[_Case], Iterable[Finding]]


def examine(config: Config, environ: Mapping[str, str], now_s: float) -> list[Finding]:
    """All findings, in the order of CHECKS. Never raises."""
    case = _Case(config, environ, now_s)
    return [finding for what, check in CHECKS for finding in _findings(what, check, case)]


def _findings(what: str, check: _Check, case: _Case) -> Iterator[Finding]:
    """What the check finds, until it breaks."""
    try:
        yield from check(case)
    except TidefillError as error:
        yield _broke(what, _told(error.fact, error.detail), error.hint or _remedy(error))
    except OSError as error:
        yield _broke(what, str(error), "Check that you may read and write there: ls -ld FOLDER; id")
    except Exception as error:
        yield _broke(what, f"the check broke: {type(error).__name__}: {error}", "Please report it, with this line.")


def _broke(what: str, fact: str, remedy: str) -> Finding:
    """Errors of others may name what is secret."""
    return Finding(what, Verdict.BAD, masked(fact), remedy)


def _remedy(error: TidefillError) -> str:
    if isinstance(error, RetryLater):
        return "Try again in a minute: tidefill doctor"
    return f"Restore {STORE_FILE} from a backup, or report this line."


def _told(fact: str, detail: str) -> str:
    return f"{fact} ({detail.rstrip('.')})" if detail else fact


# What has to be installed.


def _python(case: _Case) -> Iterator[Finding]:
    release, needed = platform.python_version(), _python_needed()
    if _fits(release, needed):
        yield Finding("python", Verdict.OK, release)
    else:
        yield Finding("python", Verdict.BAD, f"{release}, but it has to be {needed}", "uv venv --python 3.12")


def _python_needed() -> str:
    try:
        return str(metadata("tidefill")["Requires-Python"])
    except PackageNotFoundError:  # run from its sources: nobody says
        return ""


def _packages(case: _Case) -> Iterator[Finding]:
    for package, module in PACKAGES.items():
        yield _package(package, module)


def _package(package: str, module: str) -> Finding:
    if not _is_importable(module):
        return Finding(package, Verdict.BAD, "not installed", INSTALL)
    try:
        release = version(package)
    except PackageNotFoundError:  # a platform that brings its own
        return Finding(package, Verdict.OK, "installed, of an unknown release")
    needed = _needed(package)
    if _fits(release, needed):
        return Finding(package, Verdict.OK, release)
    return Finding(package, Verdict.WARNING, f"{release}, but it should be {needed}", INSTALL)


def _is_importable(module: str) -> bool:
    """Asked without importing it. A mere folder of that name, such as a user's own, has no origin."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None


def _needed(package: str) -> str:
    """The releases that are known to work, as pip writes it: `<4.3,>=4.2`. Empty if nobody says."""
    try:
        lines = requires("tidefill") or []
    except PackageNotFoundError:
        return ""
    found = (re.match(rf"{re.escape(package)}(?:\[.*\])?\s*([^;\w\s-][^;]*)", line) for line in lines)
    return next((match[1].strip() for match in found if match), "")


def _fits(release: str, needed: str) -> bool:
    return all(
        _BOUNDS[bound](_numbers(release), _numbers(limit)) for bound, limit in re.findall(r"(>=|<)\s*([\d.]+)", needed)
    )


def _numbers(release: str) -> tuple[int, ...]:
    """The release without what marks a preview: 4.2.0.dev1 is (4, 2, 0)."""
    leading = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def _java(case: _Case) -> Iterator[Finding]:
    if case.config.remote:
        yield Finding("java", Verdict.OK, "not needed: Spark runs elsewhere")
        return
    home = case.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin") if home else case.environ.get("PATH", os.defpath)
    java = shutil.which("java", path=path)
    if java is None:
        fact = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        yield Finding("java", Verdict.BAD, fact, INSTALL_JAVA)
        return
    try:
        yield _java_found(java, case.environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("java", Verdict.BAD, f"{java} does not work: {error}", INSTALL_JAVA)


def _java_found(java: str, environ: Mapping[str, str]) -> Finding:
    told = re.search(r'version "(?:1\.)?(\d+)[^"]*"', _answer(java, "-version", environ))
    if told is None:
        return Finding("java", Verdict.BAD, f"{java} does not tell its version", INSTALL_JAVA)
    release = int(told[1])
    if release < JAVA_MIN:
        return Finding("java", Verdict.BAD, f"{java} is Java {release}, too old for Spark", INSTALL_JAVA)
    if f"{JAVA_MODULE}@" not in _answer(java, "--list-modules", environ):
        return Finding("java", Verdict.BAD, f"{java} is not complete: Spark needs {JAVA_MODULE}", INSTALL_JAVA)
    return Finding("java", Verdict.OK, f"Java {release}: {java}")


def _answer(java: str, question: str, environ: Mapping[str, str]) -> str:
    """Java tells its version on one channel and its modules on the other."""
    done = subprocess.run(
        [java, question],
        env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=JAVA_S_MAX, check=False,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def _jars(case: _Case) -> Iterator[Finding]:
    """Only a Spark of our own needs them, and only the two packages say which they are."""
    if case.config.remote or not (_is_importable("pyspark") and _is_importable("delta")):
        return
    from tidefill.spark.jars import JARS_VARIABLE, MOVE_CACHE, looked_for

    folder, missing = looked_for(case.environ)
    if not missing:
        yield Finding("jars", Verdict.OK, str(folder))
    elif case.environ.get(JARS_VARIABLE):
        fact = f"{JARS_VARIABLE}={folder} has no {', '.join(missing)}"
        yield Finding("jars", Verdict.BAD, fact, f"unset {JARS_VARIABLE}, to have them downloaded")
    elif not os.access(near := _nearest(folder), os.W_OK | os.X_OK) or not near.is_dir():
        yield Finding("jars", Verdict.BAD, f"not in {folder}, and nothing can be put there", MOVE_CACHE)
    else:
        remedy = f"The first start of Spark downloads them. Without a network: export {JARS_VARIABLE}=FOLDER_OF_JARS"
        yield Finding("jars", Verdict.WARNING, f"not in {folder} yet", remedy)


# The store and the warehouse.


def _store(case: _Case) -> Iterator[Finding]:
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


def _store_elsewhere(case: _Case) -> Iterator[Finding]:
    """In a database. Its log is in a folder all the same."""
    url = case.config.store_place(case.environ)
    if case.config.store_variable is None and masked(url) != url:
        place = case.config.path or case.config.store_from
        remedy = 'Put the URL into an environment variable, and in its place write store = "env:VARIABLE"'
        yield Finding("store", Verdict.WARNING, f"its password is in {place}", remedy)
    try:
        schema = postgres_schema(url, busy_s=BUSY_S)
    except TidefillError as error:
        yield Finding("store", Verdict.BAD, masked(_told(error.fact, error.detail)), error.hint or _remedy(error))
        return
    yield Finding("store", Verdict.OK, masked(url))
    yield _schema_found(schema, "pg_dump -n tidefill URL > backup.sql; tidefill status, which migrates it")
    if trouble := _trouble("store", case.config.log_folder):
        yield trouble


def _warehouse(case: _Case) -> Iterator[Finding]:
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
    near = _nearest(folder)
    if not near.is_dir():
        remedy = f"Set {setting} in tidefill.toml, or TIDEFILL_{setting.upper()}, to another folder."
        return Finding(setting, Verdict.BAD, f"{near} is not a folder", remedy)
    if not os.access(near, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"chmod u+rwx {quote(str(near))}"
        return Finding(setting, Verdict.BAD, f"you may not read and write in {near}", remedy)
    return None


def _none_yet(setting: str, folder: Path) -> Finding:
    return Finding(setting, Verdict.OK, f"no {setting} yet: {folder} will be made when it is needed")


def _nearest(path: Path) -> Path:
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
        yield _schema_found(_schema(file))
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
        return _told(trouble.fact, trouble.detail), trouble.hint or _remedy(trouble)
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


def _schema(file: Path) -> int | None:
    """The schema, asked for without `open_store`, which would migrate it; None if there are no tables yet."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)) as connection:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            return None
        row = connection.execute("SELECT schema_version FROM meta").fetchone()
    if row is None or not isinstance(row[0], int):
        raise sqlite3.DatabaseError("it does not tell its schema")
    return row[0]


def _free_space(setting: str, folder: Path) -> Finding:
    near = _nearest(folder)
    free = shutil.disk_usage(near).free
    fact = f"{free / (1 << 30):,.1f} GiB free at {near}"
    if free >= FREE_BYTES_MIN:
        return Finding(f"{setting} disk", Verdict.OK, fact)
    remedy = f"Make room there (df -h {quote(str(near))}), or set {setting} in tidefill.toml to a folder elsewhere."
    return Finding(f"{setting} disk", Verdict.WARNING, fact, remedy)


def _connections(case: _Case) -> Iterator[Finding]:
    for connection in case.config.connections:
        yield _connection(case, connection)


def _connection(case: _Case, connection: Connection) -> Finding:
    what = f"connection {connection.name}"
    variable = connection.variable
    if variable is None:
        if masked(connection.url) == connection.url:
            return Finding(what, Verdict.OK, f"its URL is in {case.config.path}")
        remedy = 'Put the URL into an environment variable, and in its place write url = "env:VARIABLE"'
        return Finding(what, Verdict.WARNING, f"its password is in {case.config.path}", remedy)
    try:
        case.config.connection_url(connection.name, case.environ)
    except InvalidSetting as error:
        return Finding(what, Verdict.BAD, error.fact, error.hint)
    return Finding(what, Verdict.OK, f"{variable} is set")


def _servers(case: _Case) -> Iterator[Finding]:
    """Those that can be asked: what is wrong with a connection's settings is found by `_connections`."""
    if not case.config.connections:
        return
    listed = {resource.rpartition("/")[2] for row in _rows(case) or () for resource in row.resources}
    for connection in case.config.connections:
        with suppress(InvalidSetting):
            yield from _server(case, connection.name, case.config.connection_url(connection.name, case.environ), listed)


def _server(case: _Case, name: str, url: str, listed: set[str]) -> Iterator[Finding]:
    what, store_id = f"server of {name}", _store_id(case)
    try:
        answer = Databases([name], lambda _: url, lambda: store_id).answer(name)
    except TidefillError as error:
        remedy = error.hint or "Check the URL, that the server runs, and that it lets you in: psql URL"
        yield Finding(what, Verdict.BAD, masked(_told(error.fact, error.detail)), remedy)
        return
    yield Finding(what, Verdict.OK, f"PostgreSQL {answer.release} answers, {_slots(answer.slots_left)}")
    if answer.slots_left < 1:
        remedy = "Drop a slot that nobody uses (pg_replication_slots), or raise max_replication_slots and restart it."
        yield Finding(what, Verdict.WARNING, "no more replicas can be made: it has no free replication slot", remedy)
    orphans = [slot for slot in answer.slots if slot not in listed] if store_id else []
    yield from _some(what, [_orphaned_slot(what, slot) for slot in orphans])


def _slots(left: int) -> str:
    return "1 replication slot is left" if left == 1 else f"{left} replication slots are left"


def _orphaned_slot(what: str, slot: str) -> Finding:
    fact = f"no job of this store knows the slot {slot}, which keeps the log of the server"
    return Finding(what, Verdict.WARNING, fact, f"SELECT pg_drop_replication_slot('{slot}')")


# The jobs.


def _store_id(case: _Case) -> str:
    """Empty if there is no store that can be opened."""
    if _rows(case) is None:
        return ""
    with open_store(case.store, busy_s=BUSY_S) as store:
        return store.store_id()


def _rows(case: _Case) -> Sequence[Job] | None:
    """Every row; None if there is no store that can be opened without changing it. What is wrong with it then is found
    by `_store`."""
    if case.config.is_store_elsewhere:
        with suppress(TidefillError):
            if postgres_schema(str(case.store), busy_s=BUSY_S) == SCHEMA_VERSION:
                return _rows_of(case)
        return None
    file = case.store_file
    with suppress(sqlite3.DatabaseError):
        if case.has_store and os.access(file, os.R_OK | os.W_OK) and _schema(file) == SCHEMA_VERSION:
            return _rows_of(case)
    return None


def _rows_of(case: _Case) -> Sequence[Job]:
    with open_store(case.store, busy_s=BUSY_S) as store:
        return store.jobs()


def _jobs(case: _Case) -> Iterator[Finding]:
    dropped = [row for row in _rows(case) or () if _has_residue(row, case.now_s)]
    yield from _some("jobs", [_residue(row, case.config.warehouse) for row in dropped])
    rows = [row for row in _rows(case) or () if row.life is not Life.DROPPED]
    if not rows:
        return
    alive = any(_is_run(row, case.now_s) for row in rows)
    count = "1 job" if len(rows) == 1 else f"{len(rows)} jobs"
    yield Finding("jobs", Verdict.OK, f"{count}, {'and a runner is alive' if alive else 'and no runner is alive'}")
    yield from _some("jobs", [_failed(row) for row in rows if row.life is Life.FAILED and not _is_wished(row)])
    if not alive:  # one that is alive comes to every job in time
        yield from _some("jobs", [_left_alone(row) for row in rows if _has_work(row)])


def _has_residue(row: Job, now_s: float) -> bool:
    """Whether something of a dropped job could not be removed at the time when it should have been."""
    return row.life is Life.DROPPED and bool(row.resources) and now_s > row.ended_at_s + 2 * LEASE_S


def _residue(row: Job, warehouse: str) -> Finding:
    """What a runner cannot remove, because it is not in the warehouse or not what the job made, a person has to."""
    fact = f"dropped, but not everything of it is removed yet: {', '.join(row.resources)}"
    paths = [resource.removeprefix("path:") for resource in row.resources if resource.startswith("path:")]
    reasons = [f"{path}: {why}" for path in paths if (why := why_not_made(warehouse, path, row.id))]
    remedy = "tidefill run (it is tried again as long as that runs)"
    if reasons:
        remedy = f"remove it by hand if it is not needed, or set the warehouse back ({'; '.join(reasons)})"
    return Finding(f"job {row.name}", Verdict.WARNING, fact, remedy)


def _is_run(row: Job, now_s: float) -> bool:
    """Whether the lease holds. One that ends further ahead than any lease does was written by a wrong clock."""
    return row.lease.owner != "" and now_s < row.lease.until_s <= now_s + 2 * LEASE_S


def _is_wished(row: Job) -> bool:
    return row.wants_end or row.wants_resync or row.wants_resume


def _has_work(row: Job) -> bool:
    """Whether it waits for a runner. A live job does not, unless its runner died: between two runs of
    `tidefill run --once` nobody is meant to hold it."""
    match row.life:
        case Life.CREATED | Life.BACKFILLING | Life.VERIFYING | Life.PAUSED:
            return row.pause is not Pause.ALL or _is_wished(row)
        case Life.LIVE:
            return row.lease.owner != "" or _is_wished(row)
        case Life.FAILED:
            return _is_wished(row)
        case Life.CANCELLING:
            return True
        case Life.DROPPED:
            return False
        case never:
            assert_never(never)


def _failed(row: Job) -> Finding:
    failure = row.failure
    fact = "it has failed" if failure is None else _told(f"{failure.fact} [{failure.code}]", failure.detail)
    hint = f"{failure.hint.rstrip('.')}. Then: " if failure is not None and failure.hint else ""
    return Finding(f"job {row.name}", Verdict.BAD, fact, f"{hint}tidefill resume {quote(row.name)}")


def _left_alone(row: Job) -> Finding:
    why = "its runner died" if row.lease.owner else "nobody runs it"
    return Finding(f"job {row.name}", Verdict.WARNING, f"{row.life.value}, but {why}", "tidefill run")


def _orphans(case: _Case) -> Iterator[Finding]:
    """Folders of jobs that no row lists. They are looked for before the rows: a row lists a folder before it is made.
    Names are compared and not paths, as a warehouse can be reached by several."""
    folders = _made_by_jobs(case.config.warehouse)
    if folders and not case.has_store:
        yield _without_store(folders)
        return
    rows = _rows(case) if folders else None
    if rows is None:
        return
    listed = {resource.rpartition("/")[2] for row in rows for resource in row.resources}
    yield from _some("orphan", [_orphan(path) for path in folders if path.name not in listed and path.exists()])


def _made_by_jobs(warehouse: str) -> list[Path]:
    try:
        folder = local_path(warehouse).absolute()
        entries = list(os.scandir(folder))
    except (InvalidSetting, FileNotFoundError, NotADirectoryError):
        return []
    names = (each.name for each in entries if each.is_dir(follow_symlinks=False))
    return [folder / name for name in sorted(names) if MADE_BY_A_JOB.fullmatch(name)]


def _orphan(path: Path) -> Finding:
    remedy = f"If no other store has this warehouse: rm -r {quote(str(path))}"
    return Finding("orphan", Verdict.WARNING, f"no job of this store knows {path}", remedy)


def _without_store(folders: Sequence[Path]) -> Finding:
    """Then the store is more likely to be elsewhere than the folders are to be of no use: nothing is to be deleted."""
    fact = f"{folders[0].parent} holds what jobs made ({folders[0].name}), but no store is seen"
    remedy = "Set store in tidefill.toml, or TIDEFILL_STORE, to the folder where their store is."
    return Finding("orphan", Verdict.WARNING, fact, remedy)


def _some(what: str, findings: Sequence[Finding]) -> Iterator[Finding]:
    """As many as one can read."""
    yield from findings[:ALIKE_MAX]
    if len(findings) > ALIKE_MAX:
        fact = f"and {len(findings) - ALIKE_MAX} more of this kind"
        yield Finding(what, Verdict.WARNING, fact, "Mend these first, then: tidefill doctor")


CHECKS: tuple[tuple[str, _Check], ...] = (
    ("python", _python),
    ("packages", _packages),
    ("java", _java),
    ("jars", _jars),
    ("store", _store),
    ("warehouse", _warehouse),
    ("connections", _connections),
    ("servers", _servers),
    ("jobs", _jobs),
    ("orphans", _orphans),
)
