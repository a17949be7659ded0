"""The command line. Each command imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tidefill.errors import TidefillError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 for ok, 1 for a violation or a bug, 2 for wrong usage or input."""
    arguments = _parser().parse_args(argv)
    try:
        code = arguments.run(arguments)
        assert isinstance(code, int)
        return code
    except TidefillError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from tidefill import __version__

    parser = argparse.ArgumentParser(prog="tidefill", description="Online backfill: derived data over live tables.")
    parser.add_argument("--version", action="version", version=f"tidefill {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    simulate = commands.add_parser(
        "simulate",
        help="try to break the algorithm in simulated histories",
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
    simulate.add_argument("--picture", action="store_true", help="draw one history")
    simulate.set_defaults(run=_simulate)
    return parser


def _simulate(arguments: argparse.Namespace) -> int:
    from tidefill.cli.simulate import simulate

    return simulate(arguments)


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
    try:
        minutes = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < minutes < 100_000:
        raise argparse.ArgumentTypeError(f"{text} is no time to run")
    return minutes
