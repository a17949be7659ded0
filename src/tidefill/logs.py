"""The rotating log beside the store: one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tidefill.private import make_private

BYTES_MAX = 5_000_000
FILES_MAX = 3
LOG_FILE = "tidefill.log"


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


def log_to(folder: Path) -> logging.Handler:
    """Write what the package logs to a file in the folder; nothing reaches the terminal."""
    make_private(folder / LOG_FILE)
    handler = PrivateFile(folder / LOG_FILE, maxBytes=BYTES_MAX, backupCount=FILES_MAX, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("tidefill")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return handler
