"""Asking something of a job: `pause`, `resume`, `alter`, `cancel`, `drop`, `resync`. Spark is started only to wait."""

from __future__ import annotations

import argparse
import re

from tidefill.cli.answers import Patience, answer
from tidefill.cli.project import project
from tidefill.errors import BadInput
from tidefill.sql import statements


def pause(arguments: argparse.Namespace) -> int:
    """Let it stand still, or stop filling."""
    return _ask(arguments, statements.PauseJob(arguments.job, fill_only=arguments.fill))


def resume(arguments: argparse.Namespace) -> int:
    """Let it go on."""
    return _ask(arguments, statements.ResumeJob(arguments.job))


def alter(arguments: argparse.Namespace) -> int:
    """Change settings."""
    return _ask(arguments, statements.AlterJob(arguments.job, options(arguments.settings)))


def cancel(arguments: argparse.Namespace) -> int:
    """Remove it before it is live."""
    return _ask(arguments, statements.CancelJob(arguments.job, arguments.cascade))


def resync(arguments: argparse.Namespace) -> int:
    """Build it anew."""
    return _ask(arguments, statements.ResyncJob(arguments.job))


def drop(arguments: argparse.Namespace) -> int:
    """Remove it. What kind it is need not be said here."""
    return _ask(arguments, statements.DropJob(arguments.job, cascade=arguments.cascade))


_WORDS: dict[str, bool | None] = {"true": True, "on": True, "false": False, "off": False, "none": None, "null": None}


def options(texts: list[str]) -> statements.Options:
    """`name=value`, each name once. NONE lifts a limit."""
    found: dict[str, statements.Value] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip().lower()
        if not sign or not name:
            raise BadInput(f"{text!r} is no setting", hint="Write NAME=VALUE, such as rate_limit=1000.")
        if name in found:
            raise BadInput(f"the option {name} is given twice", hint="Leave one of them out.")
        found[name] = _value(value.strip())
    return tuple(found.items())


def _value(text: str) -> statements.Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) else text


def _ask(arguments: argparse.Namespace, statement: statements.Statement) -> int:
    where = project(arguments)
    patience = Patience(getattr(arguments, "wait", False), getattr(arguments, "timeout", None))
    with where.having(arguments.job) as engine:
        from tidefill.sql.execute import execute

        answer(where, engine, execute(engine, statement), patience)
    return 0
