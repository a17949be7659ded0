"""The settings of a project: the environment over `tidefill.toml` over defaults.

The file is checked whole when it is read: a key that nobody knows, a value of the wrong type or broken TOML is
InvalidSetting with the file's path, and never a surprise later. What is secret is looked up only when it is needed, and
is masked wherever settings are shown.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidefill.errors import InvalidSetting, UntrustedConfig
from tidefill.jobs.amounts import seconds_of, seconds_text
from tidefill.store.place import is_url

FILE_NAME = "tidefill.toml"
FILE_VARIABLE = "TIDEFILL_CONFIG"
DEFAULT = "default"
FOLDERS = {"store": ".tidefill", "warehouse": "lake"}
KEYS = (*FOLDERS, "on_failure", "lag_bound", "spark", "connections")
CONNECTION_KEYS = ("kind", "url")
POSTGRES, KAFKA = "postgresql", "kafka"
CONNECTION_KINDS = (POSTGRES, KAFKA)
SPARK_REMOTE, SPARK_MASTER = "spark.remote", "spark.master"
SPARK_SHORT = {"remote": SPARK_REMOTE, "master": SPARK_MASTER}
FROM_VARIABLE = "env:"
MASK = "***"
LAG_BOUND_S = 600.0
"""How much longer than its target_lag a live job may lag before it counts as late: longer than a large step takes."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|signature|\bsig\b", re.IGNORECASE)
_NAMED = f"(?:{_SECRET_NAME.pattern})"
# In this order: a password in its place, parameters, and then a password that should have been percent-encoded. Where
# it is not clear how far a secret goes, too much is masked.
_SECRETS = (
    re.compile(r"(://[^:/?#\s]*:)[^/?#;]*(?=@)"),
    re.compile(rf"([?&][^=&?]*{_NAMED}[^=&?]*=)[^&]*", re.IGNORECASE),
    re.compile(rf"((?:^|[;\s])[\w.-]*{_NAMED}[\w.-]*\s*=\s*).*", re.IGNORECASE | re.DOTALL),
    re.compile(r"(://[^:/?#\s]*:).*(?=@)", re.DOTALL),
)
_KINDS = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A database, or a Kafka cluster, that replicas are made from. `url`, or `settings` of Kafka's clients by name, may
    hold a password, so they are never printed."""

    name: str
    url: str = field(repr=False, default="")
    kind: str = POSTGRES
    settings: tuple[tuple[str, str], ...] = field(repr=False, default=())

    @property
    def variable(self) -> str | None:
        """The environment variable that holds the URL; None if the file does."""
        return _variable(self.url)


@dataclass(frozen=True, slots=True)
class Config:
    """What was set. `path`: of the file, if there is one. `store` and the `warehouse` on a disk are absolute; `store`
    may be the URL of a database, or name the variable that holds it, and is never printed. `spark`: settings by their
    full names, sorted. `store_from` and `warehouse_from`: who set them. `on_failure`: the command that is called when a
    job fails or is late, empty if there is none; `lag_bound_s`: by how much a live job exceeds its target_lag then."""

    path: Path | None
    store: str = field(repr=False)
    warehouse: str
    spark: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    connections: tuple[Connection, ...] = ()
    store_from: str = DEFAULT
    warehouse_from: str = DEFAULT
    on_failure: str = field(default="", repr=False)
    lag_bound_s: float = LAG_BOUND_S

    @property
    def remote(self) -> str | None:
        """The URL of a Spark elsewhere; None if Spark runs in this process."""
        return dict(self.spark).get(SPARK_REMOTE)

    @property
    def is_store_elsewhere(self) -> bool:
        """Whether the store is in a database, and not in a folder."""
        return is_url(self.store) or self.store_variable is not None

    @property
    def store_variable(self) -> str | None:
        """The environment variable that holds the URL of the store, if one does."""
        return _variable(self.store)

    @property
    def log_folder(self) -> Path:
        """Where the log is: in the store, or where the store would be if it were not in a database."""
        if not self.is_store_elsewhere:
            return Path(self.store)
        return (self.path.parent if self.path else Path.cwd()) / FOLDERS["store"]

    def store_place(self, environ: Mapping[str, str] = os.environ) -> str:
        """The folder of the store, or the URL of its database, with what is secret in it. InvalidSetting if the
        variable that should hold the URL does not."""
        variable = self.store_variable
        if variable is None:
            return self.store
        if not environ.get(variable):
            fact = f"the store needs the environment variable {variable}, which is not set"
            raise InvalidSetting(fact, hint=_export(variable))
        if not is_url(environ[variable]):
            raise InvalidSetting(f"{variable} holds no URL of PostgreSQL for the store", hint=_export(variable))
        return environ[variable]

    def connection_url(self, name: str, environ: Mapping[str, str] = os.environ) -> str:
        """The URL to connect to, with what is secret in it. InvalidSetting if there is no such connection, or the
        variable that holds the URL is not set."""
        found = self._connection(name)
        if found.variable is None:
            return found.url
        if not environ.get(found.variable):
            raise InvalidSetting(
                f"the connection {name} needs the environment variable {found.variable}, which is not set",
                hint=_export(found.variable),
            )
        return environ[found.variable]

    def client_settings(self, name: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The settings of Kafka's clients, with what is secret in them. InvalidSetting if there is no such connection,
        or a variable that holds one of them is not set."""
        found = dict[str, str]()
        for setting, text in self._connection(name).settings:
            variable = _variable(text)
            if variable is not None and not environ.get(variable):
                fact = f"{setting} of the connection {name} needs the environment variable {variable}, which is not set"
                raise InvalidSetting(fact, hint=f"export {variable}=...")
            found[setting] = text if variable is None else environ[variable]
        return found

    def names_of(self, kind: str) -> list[str]:
        """The names of the connections of that kind."""
        return [connection.name for connection in self.connections if connection.kind == kind]

    def _connection(self, name: str) -> Connection:
        found = next((connection for connection in self.connections if connection.name == name), None)
        if found is None:
            raise InvalidSetting(f"there is no connection {name}", hint=self._hint_for(name))
        return found

    def _hint_for(self, name: str) -> str:
        names = [connection.name for connection in self.connections]
        if names:
            return _nearest(name, names)
        return f'Write a table [connections.{name}] with url = "env:VARIABLE" into {self.path or FILE_NAME}.'


def load(start: Path, explicit: str | None, environ: Mapping[str, str]) -> Config:
    """The settings for one who works in the folder `start`, which is absolute.

    The file is the one named by `explicit` (`--config`) or else by TIDEFILL_CONFIG, which has to be there; or else the
    first one upwards from `start`, which need not, and which nobody but the user and root may have written (else
    UntrustedConfig): the settings of Spark can run any program. Relative folders are relative to the file that names
    them, so that they are the same wherever one works; those in the environment are relative to `start`, as in a
    shell."""
    assert start.is_absolute(), start
    path = _named(start, explicit, environ) or _upwards(start)
    entries = {} if path is None else _read(path)
    _refuse_unknown(path, entries, KEYS)
    store, store_from = _folder("store", path, entries, start, environ)
    warehouse, warehouse_from = _folder("warehouse", path, entries, start, environ)
    _check_store(store)
    return Config(
        path, store, warehouse, _spark(path, entries), _connections(path, entries), store_from, warehouse_from,
        _on_failure(path, entries), _lag_bound_s(path, entries),
    )  # fmt: skip


def shown(config: Config) -> list[tuple[str, str, str]]:
    """Each setting, its value with all that is secret masked, and where it comes from: `default`, the name of the file,
    or the environment variable."""
    origin = config.path.name if config.path else DEFAULT
    return [
        ("store", masked(config.store), config.store_from),
        ("warehouse", masked(config.warehouse), config.warehouse_from),
        *([("on_failure", masked(config.on_failure), origin)] if config.on_failure else []),
        *([("lag_bound", seconds_text(config.lag_bound_s), origin)] if config.lag_bound_s != LAG_BOUND_S else []),
        *((name, MASK if _SECRET_NAME.search(name) else masked(value), origin) for name, value in config.spark),
        *(
            (f"connections.{each.name}.{name}", value, origin)
            for each in config.connections
            for name, value in _said(each)
        ),
    ]


def _said(connection: Connection) -> list[tuple[str, str]]:
    """The settings of a connection, masked."""
    if connection.kind == POSTGRES:
        return [("url", masked(connection.url))]
    settings = ((name, value) for name, value in connection.settings)
    return [
        ("kind", connection.kind),
        *((name, MASK if is_secret(name) and _variable(value) is None else masked(value)) for name, value in settings),
    ]


def is_secret(name: str) -> bool:
    """Whether a setting of that name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str) -> str:
    """The text without the passwords, tokens and keys of the URLs and options in it."""
    for secret in _SECRETS:
        text = secret.sub(rf"\g<1>{MASK}", text)
    return text


# The file.


def _named(start: Path, explicit: str | None, environ: Mapping[str, str]) -> Path | None:
    """The file that somebody has named; InvalidSetting if it is not there."""
    name, by = (explicit, "--config") if explicit else (environ.get(FILE_VARIABLE), FILE_VARIABLE)
    if not name:
        return None
    path = start / name
    if not os.path.exists(path):
        raise InvalidSetting(f"there is no file {path}", detail=f"{by} names it.", hint="Check how it is written.")
    return path


def _upwards(start: Path) -> Path | None:
    files = (folder / FILE_NAME for folder in (start, *start.parents))
    found = next((file for file in files if os.path.isfile(file)), None)
    if found is not None:
        _refuse_others(found)
    return found


def _refuse_others(file: Path) -> None:
    """UntrustedConfig if another user could have written the file, or put it there. In a folder like /tmp nobody can
    exchange the file of another."""
    real = file.resolve()
    for path in dict.fromkeys((real, real.parent, file.parent)):
        found = path.stat()
        exchangeable = path == real or not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()):
            raise _untrusted(file, f"{path} belongs to another user.")
        if found.st_mode & stat.S_IWOTH and exchangeable:
            raise _untrusted(file, f"{path}: everybody may write to it.")
    if file.lstat().st_uid not in (0, os.geteuid()):
        raise _untrusted(file, f"{file} is a link of another user.")


def _untrusted(file: Path, detail: str) -> UntrustedConfig:
    hint = f"Look at what is in it; then name it, with --config {file} or {FILE_VARIABLE}, or change owner and mode."
    return UntrustedConfig(f"{file} may have been written by another user", detail=detail, hint=hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read", detail=f"{error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidSetting(f"{path} is not UTF-8", detail=f"At line {line}.", hint="Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise InvalidSetting(
            f"{path} is not valid TOML", detail=f"{error}.", hint='A setting is a line such as store = ".tidefill".'
        ) from None


# Its settings. `file` is None only if there is nothing in it to complain about.


def _folder(
    name: str, file: Path | None, entries: Mapping[str, Any], start: Path, environ: Mapping[str, str]
) -> tuple[str, str]:
    """The folder, and who set it."""
    variable = f"TIDEFILL_{name.upper()}"
    if given := environ.get(variable):
        return _absolute(given, start, environ), variable
    base = start if file is None else file.parent
    if file is None or name not in entries:
        return _absolute(FOLDERS[name], base, environ), DEFAULT
    return _absolute(_text(file, name, entries[name]), base, environ), file.name


def _absolute(location: str, base: Path, environ: Mapping[str, str]) -> str:
    if _SCHEME.match(location):
        return location
    if location.startswith("~/") and environ.get("HOME"):
        return str(Path(environ["HOME"]) / location[2:])
    return str(base / location)


def _check_store(store: str) -> None:
    """A folder, the URL of a PostgreSQL database, or the name of a variable that holds one."""
    if is_url(store) or not _SCHEME.match(store):
        return
    variable = _variable(store)
    if not variable:
        fact = f"the store is {masked(store)}" if variable is None else "the store names no variable"
        raise InvalidSetting(fact, hint='Name a folder on a local disk, or a PostgreSQL database: "env:VARIABLE".')


def _variable(text: str) -> str | None:
    """The environment variable that is meant; None if the text is meant as it is."""
    return text.removeprefix(FROM_VARIABLE).strip() if text.startswith(FROM_VARIABLE) else None


def _export(variable: str) -> str:
    return f"export {variable}='postgresql://user:password@host:5432/database'"


def _on_failure(file: Path | None, entries: Mapping[str, Any]) -> str:
    """The command, whose words can be told apart."""
    if "on_failure" not in entries:
        return ""
    command = _text(file, "on_failure", entries["on_failure"])
    try:
        shlex.split(command)
    except ValueError as error:
        raise InvalidSetting(f"on_failure is no command in {file}", detail=f"{error}.") from None
    return command


def _lag_bound_s(file: Path | None, entries: Mapping[str, Any]) -> float:
    if "lag_bound" not in entries:
        return LAG_BOUND_S
    found_s = seconds_of(_text(file, "lag_bound", entries["lag_bound"]))
    if found_s is None:
        raise InvalidSetting(f"lag_bound is no time in {file}", hint='lag_bound = "10 minutes"')
    return found_s


def _spark(file: Path | None, entries: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    settings: dict[str, str] = {}
    for name, value in _flat(_table(file, "spark", entries.get("spark", {}))):
        full = SPARK_SHORT.get(name, name)
        if not full.startswith("spark."):
            raise _unknown(file, f"spark.{name}", _spark_hint(name))
        if full in settings:
            raise InvalidSetting(f"{full} is set twice in {file}", hint="Remove one of the two.")
        settings[full] = _spark_text(file, full, value)
    _check_where_spark_runs(file, settings)
    return tuple(sorted(settings.items()))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """To TOML the dots of an unquoted name are tables inside of tables; to Spark they are part of the name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _spark_text(file: Path | None, name: str, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise _wrong_type(file, name, value, f'Write it as a text: "{name}" = "...".')


def _check_where_spark_runs(file: Path | None, settings: Mapping[str, str]) -> None:
    if SPARK_REMOTE in settings and SPARK_MASTER in settings:
        raise InvalidSetting(f"spark has both remote and master in {file}", hint="Remove one of the two.")
    if not settings.get(SPARK_REMOTE, "sc://").startswith("sc://"):
        raise InvalidSetting(f"spark.remote is no URL of Spark Connect in {file}", hint='remote = "sc://host:15002"')


def _spark_hint(name: str) -> str:
    near = get_close_matches(name, (*SPARK_SHORT, *KEYS), n=1)
    if not near:
        return f'Names of Spark begin with spark, those of Hadoop with spark.hadoop, such as "spark.hadoop.{name}".'
    return f"Did you mean {near[0]}?" + (" It belongs above the line [spark]." if near[0] in KEYS else "")


def _connections(file: Path | None, entries: Mapping[str, Any]) -> tuple[Connection, ...]:
    tables = _table(file, "connections", entries.get("connections", {}))
    return tuple(_connection(file, name, tables[name]) for name in sorted(tables))


def _connection(file: Path | None, name: str, value: Any) -> Connection:
    key = f"connections.{name}"
    table = _table(file, key, value)
    kind = _text(file, f"{key}.kind", table.get("kind", POSTGRES))
    if kind not in CONNECTION_KINDS:
        raise InvalidSetting(f"{key}.kind is {kind} in {file}", hint=f"There is: {', '.join(CONNECTION_KINDS)}.")
    if kind == KAFKA:
        settings = _flat({each: text for each, text in table.items() if each != "kind"})
        texts = sorted((each, _spark_text(file, f"{key}.{each}", text)) for each, text in settings)
        return Connection(name, kind=KAFKA, settings=tuple(texts))
    _refuse_unknown(file, table, CONNECTION_KEYS, key)
    if "url" not in table:
        raise InvalidSetting(f"{key} has no url in {file}", hint='url = "env:VARIABLE"')
    connection = Connection(name, _text(file, f"{key}.url", table["url"]))
    if connection.variable == "":
        raise InvalidSetting(f"{key}.url names no variable in {file}", hint='url = "env:VARIABLE"')
    return connection


def _text(file: Path | None, key: str, value: Any) -> str:
    name = key.rpartition(".")[2]
    if not isinstance(value, str):
        raise _wrong_type(file, key, value, f'Write it as a text: {name} = "...".')
    if not value.strip() or "\0" in value:
        raise InvalidSetting(f"{key} is empty in {file}", hint=f"Remove the line, or complete it: {name} = ...")
    return value


def _table(file: Path | None, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(file, key, value, f"Write it as a table: a line [{key}], and its settings below.")
    return value


# What is wrong with it. Values are not repeated: they may be secret.


def _wrong_type(file: Path | None, key: str, value: Any, hint: str) -> InvalidSetting:
    return InvalidSetting(f"{key} is {_KINDS.get(type(value), 'a date')} in {file}", hint=hint)


def _refuse_unknown(file: Path | None, table: Mapping[str, Any], known: Sequence[str], inside: str = "") -> None:
    for key in table:
        if key not in known:
            misplaced = inside and key in KEYS
            hint = f"It belongs above the line [{inside}]." if misplaced else _nearest(key, known)
            raise _unknown(file, f"{inside}.{key}" if inside else key, hint)


def _unknown(file: Path | None, key: str, hint: str) -> InvalidSetting:
    return InvalidSetting(f"there is no setting {key}", detail=f"It stands in {file}.", hint=hint)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else f"There is: {', '.join(known)}."
