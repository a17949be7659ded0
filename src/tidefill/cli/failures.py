"""What went wrong, as a person or a program reads it. What nobody expected goes to the log, with its stack."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tidefill.cli import terminal
from tidefill.config import load
from tidefill.errors import Bug, TidefillError
from tidefill.jobs.plain_json import as_json
from tidefill.run.log_file import LOG_FILE, JsonLines


def tell(error: TidefillError, *, json: bool) -> None:
    """On the standard error, in the format that was asked for."""
    if json:
        told = {"code": error.code, "fact": error.fact, "detail": error.detail, "hint": error.hint}
        terminal.note(as_json({"error": told, "exit_code": error.exit_code}))
    else:
        terminal.note(str(error))


def as_bug(error: Exception, config: str | None) -> Bug:
    """The error to tell, after its stack was written to the log of the project that `config` names."""
    log = _log_file(config)
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(JsonLines())
    record = logging.LogRecord(
        "tidefill.cli", logging.ERROR, __file__, 0, "unexpected %s", (type(error).__name__,),
        (type(error), error, error.__traceback__),
    )  # fmt: skip
    handler.handle(record)
    handler.close()
    return Bug(f"unexpected {type(error).__name__}: {error}", hint=f"Please report it with {log}")


def _log_file(config: str | None) -> Path:
    """The log beside the store, if that is there and can be written; else a file of its own."""
    with suppress(TidefillError, OSError):
        folder = load(Path.cwd(), config, os.environ).log_folder
        if os.access(folder, os.W_OK | os.X_OK):
            return folder / LOG_FILE
    handle, name = tempfile.mkstemp(prefix="tidefill-", suffix=".log")
    os.close(handle)
    return Path(name)
