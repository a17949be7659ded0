"""The folder in which jobs make their tables, and the names under which Spark's catalog shows them."""

from __future__ import annotations

import re
from pathlib import Path

from tidefill.errors import InvalidSetting
from tidefill.jobs.row import Job
from tidefill.storage.local import local_path

SLUG_CHARACTERS_MAX = 40


class Warehouse:
    """One folder, made if it is missing."""

    def __init__(self, place: str) -> None:
        self._place = place

    def path(self, job: Job, generation: int) -> str:
        """Where a generation of a job lives; never used twice."""
        slug = re.sub(r"[^A-Za-z0-9_]+", "_", job.name)[:SLUG_CHARACTERS_MAX]
        return str(local_path(self._place).absolute() / f"{slug}-{job.id}-{generation}")


def prepare_warehouse(warehouse: str) -> None:
    """Make the folder, or say why not."""
    folder = local_path(warehouse)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting(
            f"the warehouse {folder} cannot be made", detail=str(error.strerror), hint="Name a folder you may write."
        ) from error
