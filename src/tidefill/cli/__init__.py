"""The command line. Whatever goes wrong ends as one error, in text or in JSON, and as an exit code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from tidefill.errors import TidefillError

JSON = "json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. The exit code is 0 for ok, 1 for a violation or a bug, 2 for wrong usage or input, 3 for a job
    that has failed, 4 for a conflict, 5 if something did not happen in time."""
    from tidefill.cli.arguments import parser

    words = sys.argv[1:] if argv is None else list(argv)
    logging.raiseExceptions = False  # a log that cannot be written is no reason to fill the terminal
    if not words:
        parser().print_help()
        return 0
    try:
        arguments = parser().parse_args(words)
    except TidefillError as error:
        return _told(error, json=f"--format={JSON}" in words or ("--format", JSON) in pairwise(words))
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    try:
        code = arguments.run(arguments)
        assert isinstance(code, int)
        sys.stdout.flush()
        return code
    except TidefillError as error:
        return _told(error, json=arguments.format == JSON)
    except BrokenPipeError:
        _close_output()
        return 0
    except KeyboardInterrupt:
        from tidefill.cli.work import INTERRUPTED

        return INTERRUPTED
    except Exception as error:
        from tidefill.cli.failures import as_bug

        return _told(as_bug(error, arguments.config), json=arguments.format == JSON)


def _told(error: TidefillError, *, json: bool) -> int:
    from tidefill.cli.failures import tell

    tell(error, json=json)
    return error.exit_code


def _close_output() -> None:
    """The reader of the pipe is gone. What is still buffered goes nowhere, or Python would complain at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
