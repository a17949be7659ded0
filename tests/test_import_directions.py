"""Who may import whom, and what the pure parts must not touch.

A part may import parts of lower levels and itself. Imports count wherever they stand: inside a function, under
TYPE_CHECKING, or as `import_module("...")`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = "__init__"
LEVELS: tuple[set[str], ...] = (
    {"errors"},
    {"extras"},
    {"core"},
    {"jobs"},
    {"views", "indexes"},
    {"ports"},
    {"run"},
    {"store", "storage", "spark"},
    {"config", "local"},
    {"delta"},
    {"postgres", "kafka", "changelog"},
    {"testing"},
    {"engine"},
    {"sql", "doctor", "metrics"},
    {ROOT},
    {"web"},
    {"cli", "__main__"},
)
LEVEL_OF = {part: level for level, parts in enumerate(LEVELS) for part in parts}
# `Engine.execute` is where the API leads up to its own face.
ALLOWED_SIDEWAYS = {("__main__", "cli"), ("engine", "sql")}
MAY_IMPORT_PYSPARK = {"spark", "delta", "postgres", "kafka", "engine", "local"}

PURE = {"core", "jobs", "indexes"}
IMPURE_MODULES = {
    "asyncio", "importlib", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil",
    "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
IMPURE_NAMES = re.compile(r"(^|\.)(datetime\.(now|utcnow|today)|date\.today|uuid[14])$")
# But for the place that makes PySpark forget a Java that has ended: a new one cannot be started before.
NOT_ON_CONNECT = re.compile(r"_jvm(?! = None  # of a Java that has ended)|_jdf|sparkContext|\.rdd")

SOURCES = Path(__file__).parent.parent / "src" / "tidefill"


def test_the_sources_keep_the_directions() -> None:
    assert list(violations(SOURCES)) == []


def test_nothing_reaches_behind_spark_connect() -> None:
    assert list(connect_violations(SOURCES)) == []


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        ("core/step.py", "from tidefill.ports import Target", "core must not import ports"),
        ("core/step.py", "from ..run.runner import run", "core must not import run"),
        ("core/step.py", "def f():\n    from tidefill import store", "core must not import store"),
        ("jobs/row.py", "import time", "jobs must not import time"),
        ("core/step.py", "if TYPE_CHECKING:\n    import tidefill.sql", "core must not import sql"),
        ("core/step.py", "import sqlalchemy", "core must not import sqlalchemy"),
        ("core/step.py", "import time", "core must not import time"),
        ("core/step.py", "from datetime import datetime\nx = datetime.now()", "core must not use datetime.now"),
        ("core/step.py", "from uuid import uuid4", "core must not use uuid.uuid4"),
        ("views/lower.py", "from tidefill.indexes import states", "views must not import indexes"),
        ("ports/target.py", "from ..run import backfill", "ports must not import run"),
        ("store/schema.py", "import tidefill.testing.simulation.simulate", "store must not import testing"),
        ("run/runner.py", "from pyspark.sql import DataFrame", "run must not import pyspark"),
        ("store/sql_store.py", "importlib.import_module('pyspark')", "store must not import pyspark"),
        ("engine/job.py", "from tidefill import __version__", "engine must not import __init__"),
        ("config.py", "from tidefill.engine.engine import connect", "config must not import engine"),
        ("engine/job.py", "from tidefill.doctor.examine import examine", "engine must not import doctor"),
        ("doctor/places.py", "from tidefill.cli import main", "doctor must not import cli"),
        ("doctor/places.py", "import pyspark", "doctor must not import pyspark"),
        ("helpers.py", "", "helpers has no level"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, path: str, source: str, reason: str) -> None:
    write_tree(tmp_path, {path: source})
    assert list(violations(tmp_path)) == [f"{path}: {reason}"]


def test_what_is_allowed(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "core/step.py": "import datetime\nfrom .walk import Key\nfrom tidefill.errors import Bug\nlater = seen.now",
            "testing/memory.py": "from tidefill.store.sql_store import Store\nfrom tidefill import run",
            "spark/session.py": "from pyspark.sql import SparkSession",
            "cli/__init__.py": "from tidefill import __version__, engine\nfrom . import picture",
        },
    )
    assert list(violations(tmp_path)) == []


def test_reaching_behind_spark_connect_is_found(tmp_path: Path) -> None:
    write_tree(tmp_path, {"spark/session.py": "spark._jvm.x()", "engine/job.py": "frame.rdd"})
    assert list(connect_violations(tmp_path)) == ["engine/job.py: .rdd", "spark/session.py: _jvm"]


def violations(package: Path) -> Iterator[str]:
    """Every broken rule as `file: reason`."""
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package)
        part = inside.parts[0].removesuffix(".py")
        if part not in LEVEL_OF:
            yield f"{inside}: {part} has no level"
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        reasons = [reason for name in imports(tree, inside) if (reason := import_violation(part, name))]
        if part in PURE:
            reasons += [f"{part} must not use {name}" for name in dotted_names(tree) if IMPURE_NAMES.search(name)]
        yield from (f"{inside}: {reason}" for reason in reasons)


def connect_violations(package: Path) -> Iterator[str]:
    for file in sorted(package.rglob("*.py")):
        for match in NOT_ON_CONNECT.findall(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(package)}: {match}"


def import_violation(part: str, name: str) -> str | None:
    """Why `part` must not import the module `name`, or None if it may."""
    top, _, rest = name.partition(".")
    if top == "tidefill":
        wanted = rest.partition(".")[0]
        other = wanted if wanted in LEVEL_OF else ROOT
        allowed = other == part or LEVEL_OF[other] < LEVEL_OF[part] or (part, other) in ALLOWED_SIDEWAYS
        return None if allowed else f"{part} must not import {other}"
    if part in PURE and (top not in sys.stdlib_module_names or top in IMPURE_MODULES):
        return f"{part} must not import {top}"
    if top == "pyspark" and part not in MAY_IMPORT_PYSPARK:
        return f"{part} must not import pyspark"
    return None


def imports(tree: ast.Module, inside: Path) -> Iterator[str]:
    """The absolute names a module imports; `from m import a` gives `m.a`, because `a` may be a module."""
    package = ("tidefill", *inside.parts[:-1])
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = (
                    ".".join([*package[: len(package) - level + 1], *([module] if module else [])]) if level else module
                )
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def dotted_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute():
                yield ast.unparse(node)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{alias.name}" for alias in names)


def write_tree(package: Path, files: dict[str, str]) -> None:
    for path, source in files.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(source, encoding="utf-8")
