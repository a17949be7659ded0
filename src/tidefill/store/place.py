"""How the address of a database is told from the name of a folder."""

from __future__ import annotations

import os

POSTGRES_URLS = ("postgresql://", "postgres://")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether it is the address of a PostgreSQL database, and no file."""
    return str(place).startswith(POSTGRES_URLS)
