"""The prompt: statements are typed until a semicolon, then executed. Mistakes are told and do not end it.

Ctrl-C forgets what is typed, or breaks off what is executed; Ctrl-D ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tidefill.cli import terminal

FIRST, MORE = "tidefill> ", "     ...> "
HISTORY_LINES_MAX = 1000
ENDS = ("exit", "quit", "\\q")
HELPS = ("help", "\\h", "?")
HELP = """\
REGISTER TABLE name LOCATION 'path' KEY (columns);
UNREGISTER TABLE name;
CREATE MATERIALIZED VIEW name AS SELECT ...;
CREATE REPLICA name FROM table;
EXPLAIN CREATE ...;  SELECT ...;  VERIFY name;
SHOW JOBS;  SHOW JOB name;  SHOW STEPS name;  SHOW EVENTS;  SHOW TABLES;
PAUSE JOB name [FILL];  RESUME JOB name;
ALTER JOB name SET rate_limit = 1000;
CANCEL JOB name;  RESYNC JOB name;
DROP MATERIALIZED VIEW name [CASCADE];  DROP REPLICA name;  DROP JOB name;
A statement ends with a semicolon.
Ctrl-C forgets what is typed, Ctrl-D leaves."""


def prompt(execute: Callable[[str], None], tell: Callable[[Exception], None]) -> None:
    """Read and execute until Ctrl-D; what an execution raises is told."""
    with _history(os.environ):
        for text in _statements():
            try:
                execute(text)
            except KeyboardInterrupt:
                terminal.note("broken off")
            except BrokenPipeError:
                raise
            except Exception as error:
                tell(error)


def _statements() -> Iterator[str]:
    """What is typed, up to a semicolon each."""
    from tidefill.sql.script import is_complete

    text = ""
    while True:
        try:
            text += input(MORE if text else FIRST)
        except KeyboardInterrupt:
            print("^C")
            text = ""
            continue
        except EOFError:
            print()
            return
        match text.strip().rstrip(";").lower():
            case word if word in ENDS:
                return
            case word if word in HELPS:
                terminal.say(HELP)
                text = ""
            case _ if is_complete(text):
                yield text
                text = ""
            case _:
                text += "\n"


@contextmanager
def _history(environ: Mapping[str, str]) -> Iterator[None]:
    """What was typed before can be typed again, in the next session too, if there are readline and a place for it."""
    try:
        import readline
    except ImportError:
        yield
        return
    file = _history_file(environ)
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(HISTORY_LINES_MAX)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(file)
            file.chmod(0o600)


def _history_file(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    return Path(state) / "tidefill" / "history"
