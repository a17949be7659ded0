"""`sql`, `explain` and `verify`: statements from an argument, a file, a pipe, or a person at a prompt."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidefill.cli import failures, terminal
from tidefill.cli.answers import Patience, answer
from tidefill.cli.failures import as_bug
from tidefill.cli.project import Project, project
from tidefill.errors import BadInput, TidefillError

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.sql.result import Result

STDIN = "-"


def sql(arguments: argparse.Namespace) -> int:
    """Execute SQL. A person at a prompt may make mistakes; anything else ends with the first."""
    where, patience = project(arguments), Patience(arguments.wait, arguments.timeout)
    if arguments.statements is None and arguments.file is None and sys.stdin.isatty():
        from tidefill.cli.prompt import prompt

        def tell(error: Exception) -> None:
            known = error if isinstance(error, TidefillError) else as_bug(error, arguments.config)
            failures.tell(known, json=where.json)

        with where.engine() as engine:
            prompt(lambda text: _execute(where, engine, text, patience), tell)
        return 0
    text = _text(arguments)
    _parsed(text)
    with where.engine() as engine:
        _execute(where, engine, text, patience)
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """What a CREATE statement would do."""
    words = arguments.statement.split(maxsplit=1)
    rest = words[1] if len(words) == 2 and words[0].upper() == "EXPLAIN" else arguments.statement
    text = f"EXPLAIN {'SQL ' if arguments.sql else ''}{rest}"
    _parsed(text)
    where = project(arguments)
    with where.engine() as engine:
        _execute(where, engine, text, Patience())
    return 0


def verify(arguments: argparse.Namespace) -> int:
    """Compare what a job has made with a recompute."""
    from tidefill.sql.execute import execute
    from tidefill.sql.statements import Verify

    where = project(arguments)
    with where.having(arguments.job) as engine:
        answer(where, engine, execute(engine, Verify(arguments.job)), Patience())
    return 0


def _text(arguments: argparse.Namespace) -> str:
    if arguments.statements is not None:
        return str(arguments.statements)
    if arguments.file in (None, STDIN):
        return _decoded(sys.stdin.buffer.read(), "the standard input")
    try:
        return _decoded(Path(arguments.file).read_bytes(), arguments.file)
    except OSError as error:
        raise BadInput(f"{arguments.file} cannot be read", detail=f"{error.strerror}.") from error


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name} is not UTF-8", detail=f"At line {line}.", hint="Save it as UTF-8.") from None


def _parsed(text: str) -> None:
    """A script that cannot be read makes no store either."""
    from tidefill.extras import with_extra

    with with_extra("spark"):
        from tidefill.sql.parser import parse
    if not parse(text):
        raise BadInput("there is nothing to execute", hint='tidefill sql "SHOW JOBS"')


def _execute(where: Project, engine: Engine, text: str, patience: Patience) -> None:
    from tidefill.sql.script import results

    script = results(engine, text)
    while (result := _next(script)) is not None:
        answer(where, engine, result, patience)


def _next(script: Iterator[Result]) -> Result | None:
    with terminal.spinner("working..."):
        return next(script, None)
