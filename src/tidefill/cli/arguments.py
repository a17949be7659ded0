"""What can be typed after `tidefill`. Each command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from tidefill.errors import BadInput

TEXT, JSON = "text", "json"
LOOPBACK = "127.0.0.1"
WAIT_HELP = "wait until it is done, and do it here if no runner is alive"
Command = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Wrong usage is an error like any other: it is raised, and so can be written as JSON."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise BadInput(message, hint=f"`{self.prog} --help` shows how it is used.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            near = get_close_matches(str(value), list(action.choices), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There is: {', '.join(action.choices)}."
            raise BadInput(f"there is no command {value}", hint=hint)
        super()._check_value(action, value)


def parser() -> Parser:
    """All commands. `--config` and `--format` may stand before the command or behind it."""
    from tidefill import __version__

    top = Parser(prog="tidefill", description="Online backfill: derived data over live tables.")
    top.add_argument("--version", action="version", version=f"tidefill {__version__}")
    _add_common(top, None, TEXT)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for add in (
        _add_sql,
        _add_run,
        _add_web,
        _add_looks,
        _add_wishes,
        _add_explain,
        _add_checks,
        _add_simulate,
        _add_demo,
    ):
        add(commands)
    return top


def _add_common(to: argparse.ArgumentParser, config: str | None, form: str) -> None:
    to.add_argument("--config", metavar="PATH", default=config, help="the file of settings (default: tidefill.toml)")
    to.add_argument("--format", choices=(TEXT, JSON), default=form, help="how results are written (default: text)")


def _command(commands: Any, name: str, runs: str, help: str, **options: Any) -> argparse.ArgumentParser:
    """A command that is run by `module.function` of this package."""
    made: argparse.ArgumentParser = commands.add_parser(name, help=help, **options)
    _add_common(made, argparse.SUPPRESS, argparse.SUPPRESS)
    made.set_defaults(run=_imported(runs))
    return made


def _imported(runs: str) -> Command:
    module, _, function = runs.rpartition(".")

    def run(arguments: argparse.Namespace) -> int:
        code = getattr(import_module(f"tidefill.cli.{module}"), function)(arguments)
        assert isinstance(code, int)
        return code

    return run


def _add_wait(to: argparse.ArgumentParser) -> None:
    to.add_argument("--wait", action="store_true", help=WAIT_HELP)
    to.add_argument("--timeout", type=_seconds, metavar="S", help="wait for so many seconds at most")


def _add_sql(commands: Any) -> None:
    sql = _command(commands, "sql", "sql.sql", "execute SQL: from the argument, a file, a pipe, or at a prompt")
    what = sql.add_mutually_exclusive_group()
    what.add_argument("statements", nargs="?", metavar="STATEMENTS", help="what to execute, separated by semicolons")
    what.add_argument("-f", "--file", metavar="FILE", help="execute what is in the file; - is the standard input")
    _add_wait(sql)


def _add_run(commands: Any) -> None:
    run = _command(commands, "run", "run.run", "run the jobs, until SIGTERM or Ctrl-C")
    run.add_argument("--once", action="store_true", help="bring every job up to date, then end")
    run.add_argument(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="answer Prometheus there (host: 127.0.0.1 if none is named)",
    )


def _add_web(commands: Any) -> None:
    web = _command(commands, "web", "web.web", "show how jobs stand in a browser, until Ctrl-C")
    web.add_argument("--port", type=_port, default=8421, help="where to listen; 0 for any that is free (default 8421)")
    web.add_argument("--host", default=LOOPBACK, help="the address to listen on (default: this machine alone)")
    web.add_argument("--read-only", action="store_true", help="nobody can pause, alter or cancel a job on the page")


def _add_looks(commands: Any) -> None:
    for name, help in {
        "status": "how jobs stand",
        "watch": "how jobs stand, as it changes, until Ctrl-C",
        "events": "what happened to jobs",
    }.items():
        look = _command(commands, name, f"look.{name}", help)
        look.add_argument("job", nargs="?", metavar="JOB", help="only this one")
    history = _command(commands, "history", "look.history", "what the steps of a job were, and how long they took")
    history.add_argument("job", metavar="JOB")
    _command(commands, "tables", "look.tables", "the registered tables")


def _add_wishes(commands: Any) -> None:
    for name, help in {
        "pause": "let a job stand still",
        "resume": "let a job go on, after a pause or a failure",
        "alter": "change settings of a job while it runs",
        "cancel": "remove a job that is not live yet",
        "drop": "remove a job and what it has made",
        "resync": "build what a job has made anew, and switch when that is done",
    }.items():
        wish = _command(commands, name, f"wishes.{name}", help)
        wish.add_argument("job", metavar="JOB")
        if name == "pause":
            wish.add_argument("--fill", action="store_true", help="stop filling only; what is there stays fresh")
        elif name == "alter":
            wish.add_argument("settings", nargs="+", metavar="NAME=VALUE", help="such as rate_limit=1000, or =none")
        else:
            _add_wait(wish)
        if name in ("cancel", "drop"):
            wish.add_argument("--cascade", action="store_true", help="and all jobs that read it")


def _add_explain(commands: Any) -> None:
    explain = _command(commands, "explain", "sql.explain", "say what a CREATE statement would do")
    explain.add_argument("statement", metavar="STATEMENT", help='such as "CREATE REPLICA copy FROM orders"')
    explain.add_argument("--sql", action="store_true", help="show the generated SQL too")
    verify = _command(commands, "verify", "sql.verify", "compare what a job has made with a recompute")
    verify.add_argument("job", metavar="JOB")


def _add_checks(commands: Any) -> None:
    _command(commands, "doctor", "checks.doctor", "find out what is wrong here, and what to do about it")
    _command(commands, "config", "checks.config", "the settings, and where each comes from")


def _add_simulate(commands: Any) -> None:
    simulate = _command(
        commands,
        "simulate",
        "simulate.simulate",
        "try to break the algorithm in simulated histories",
        description="Run the production planner and runner in simulated histories full of faults, and check every "
        "invariant after every commit. Exit code 0: nothing found, 1: a violation, 2: wrong usage.",
    )
    what = simulate.add_mutually_exclusive_group()
    what.add_argument("--seeds", type=_count, metavar="N", help="histories to run (default 1000)")
    what.add_argument("--seed", type=_number, metavar="S", help="run this one history and tell its story")
    what.add_argument("--minutes", type=_minutes, metavar="M", help="run for so long")
    what.add_argument("--list-plants", action="store_true", help="list the bugs that can be planted")
    simulate.add_argument("--first", type=_number, metavar="S", default=0, help="the first seed (default 0)")
    simulate.add_argument("--plant", metavar="BUG", help="put this bug into the code first: it has to be found")
    simulate.add_argument("--several", action="store_true", help="histories of several jobs that read each other")
    simulate.add_argument("--topic", action="store_true", help="histories of a replica of a topic")
    simulate.add_argument("--picture", action="store_true", help="draw one history")


def _add_demo(commands: Any) -> None:
    demo = _command(commands, "demo", "demo.demo.demo", "watch views being filled, on data of its own (three minutes)")
    demo.add_argument("--keep", metavar="DIR", help="make the lake in this folder, and leave it there")
    demo.add_argument("--rows", type=_demo_rows, metavar="N", default=2_000_000, help="of the table (default 2000000)")
    which = demo.add_mutually_exclusive_group()
    which.add_argument("--postgres", action="store_true", help="a replica of a PostgreSQL table too (a minute more)")
    which.add_argument("--index", action="store_true", help="unique indexes over a PostgreSQL table instead, no Spark")
    which.add_argument("--kafka", action="store_true", help="a replica of a Kafka topic instead, and a view over it")
    demo.add_argument("--rate", type=_count, metavar="N", default=1000, help="messages a second, with --kafka")


def _port(text: str) -> int:
    port = _in_range(text, 0)
    if port > 65_535:
        raise argparse.ArgumentTypeError(f"{port} is no port")
    return port


def _address(text: str) -> tuple[str, int]:
    """`9464`, `0.0.0.0:9464` or `[::]:9464`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or LOOPBACK, _port(port)


def _demo_rows(text: str) -> int:
    return _in_range(text, 10_000)


def _count(text: str) -> int:
    return _in_range(text, 1)


def _number(text: str) -> int:
    return _in_range(text, 0)


def _in_range(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is less than {least}")
    return number


def _minutes(text: str) -> float:
    minutes = _float(text)
    if not 0 < minutes < 100_000:
        raise argparse.ArgumentTypeError(f"{text} is no time to run")
    return minutes


def _seconds(text: str) -> float:
    seconds = _float(text)
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return seconds


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
