"""The rotating log beside the store: one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import threading
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tidefill.run.private import make_private

BYTES_MAX = 5_000_000
FILES_MAX = 3
LOG_FILE = "tidefill.log"
LOGGER = "tidefill.runner"  # by which name an application knows these records


class JsonLines(logging.Formatter):
    """A record as one line of JSON, with the stack of an error in it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        data: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "text": record.getMessage(),
            **getattr(record, "data", {}),
        }
        if record.exc_info:
            data["stack"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


class PrivateFile(RotatingFileHandler):
    """A log that only its owner may read, whatever the umask is."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        return open(descriptor, "a", encoding=self.encoding)


class _ToApplication(logging.Handler):
    """Hands a record to the application's logging, which decides by its own levels and handlers what becomes of it."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


class Log:
    """Where one engine tells what it does: to the file of its folder, from information on, and to the application as
    far as that wants it. The `logger` stands alone, so that no level and no handler of the application has to be
    changed. Engines of one folder share the file: two that rotated it would lose lines."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / LOG_FILE).absolute()
        self.logger = logging.Logger(LOGGER, logging.INFO)
        self.logger.addHandler(_shared(self._file))
        self.logger.addHandler(_ToApplication())

    def close(self) -> None:
        """Let go of the file; twice is no mistake."""
        if self.logger.handlers:
            self.logger.handlers.clear()
            _let_go(self._file)


_FILES: dict[Path, tuple[logging.Handler, int]] = {}  # and how many logs write to it
_LOCK = threading.Lock()


def _shared(file: Path) -> logging.Handler:
    with _LOCK:
        handler, users = _FILES.get(file) or (_rotating(file), 0)
        _FILES[file] = handler, users + 1
        return handler


def _let_go(file: Path) -> None:
    with _LOCK:
        handler, users = _FILES.pop(file)
        if users > 1:
            _FILES[file] = handler, users - 1
        else:
            handler.close()


def _rotating(file: Path) -> logging.Handler:
    make_private(file)
    handler = PrivateFile(file, maxBytes=BYTES_MAX, backupCount=FILES_MAX, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    return handler
