"""What a check may know: the settings, the environment and the time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tidefill.config import Config
from tidefill.doctor.findings import Finding
from tidefill.engine.engine import STORE_FILE


@dataclass(frozen=True, slots=True)
class Case:
    """All that a check may know."""

    config: Config
    environ: Mapping[str, str]
    now_s: float

    @property
    def store_file(self) -> Path:
        return Path(self.config.store) / STORE_FILE

    @property
    def store(self) -> str | Path:
        """What to open: the file, or the URL of the database. InvalidSetting if that is not known."""
        return self.config.store_place(self.environ) if self.config.is_store_elsewhere else self.store_file

    @property
    def has_store(self) -> bool:
        """Whether one is seen: no, too, where one may not look. A database that is named counts as one: it is asked
        only for what is in it."""
        return self.config.is_store_elsewhere or os.path.isfile(self.store_file)


Check: TypeAlias = Callable[[Case], Iterable[Finding]]
