"""Names of our own inside of frames and tables. Users do not see columns that begin with HIDDEN."""

from __future__ import annotations

import re

from tidefill.jobs.sql_names import HIDDEN, quoted
from tidefill.views.relations.texts import MARK, WEIGHT

__all__ = ["HIDDEN", "MARK", "WEIGHT", "quoted", "table_at"]

NAME_IN_CATALOG = re.compile(r"[A-Za-z0-9_]{1,200}")


def table_at(path: str) -> str:
    """The Delta table at a path, as SQL names it."""
    return f"delta.{quoted(path)}"
