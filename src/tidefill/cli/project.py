"""What every command works with: the settings of the project, its store, and how results are written.

A command that only looks makes nothing: where there is no store, there are no jobs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.config import Config, load, masked
from tidefill.errors import InvalidSetting, UnknownJob

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.store.sql_store import SqlStore

JSON = "json"


def _spinning() -> AbstractContextManager[None]:
    return terminal.spinner("starting Spark...")


@dataclass(frozen=True, slots=True)
class Project:
    """The settings, and whether results are written as JSON."""

    config: Config
    json: bool

    def engine(self, starting: Callable[[], AbstractContextManager[None]] = _spinning) -> Engine:
        """An engine; its store is made if there is none. Spark starts when it is needed, inside of `starting`."""
        from tidefill.engine.connect import connect_as

        if not self.config.is_store_elsewhere:
            self.has_store()
        return connect_as(self.config, starting)

    def store(self) -> SqlStore:
        """The store alone: made if there is none."""
        from tidefill.engine.engine import STORE_FILE
        from tidefill.store.sql_store import open_store

        place = self.config.store_place()
        return open_store(place if self.config.is_store_elsewhere else Path(place) / STORE_FILE)

    @contextmanager
    def found(self) -> Iterator[Engine | None]:
        """An engine, if there is a store."""
        if not self.has_store():
            yield None
            return
        with self.engine() as engine:
            yield engine

    @contextmanager
    def having(self, job: str) -> Iterator[Engine]:
        """An engine, for one who names a job of it: without a store there is none."""
        with self.found() as engine:
            if engine is None:
                raise UnknownJob(f"there is no job {job}", detail=f"There is no store in {self.place}.")
            yield engine

    @property
    def place(self) -> str:
        """Where the store is, as a person may read it."""
        return masked(self.config.store_place())

    def has_store(self) -> bool:
        """Whether there is one to look at. Asking makes none; InvalidSetting if there can be none."""
        from tidefill.engine.engine import STORE_FILE
        from tidefill.store.sql_store import exists

        if self.config.is_store_elsewhere:
            return exists(self.config.store_place())
        folder = Path(self.config.store)
        try:
            if folder.exists() and not folder.is_dir():
                raise _no_store(folder, "It is a file.")
            return exists(folder / STORE_FILE)
        except OSError as error:
            raise _no_store(folder, f"{error.strerror}.") from error


def project(arguments: argparse.Namespace) -> Project:
    """The project in which the command was typed."""
    return Project(load(Path.cwd(), arguments.config, os.environ), arguments.format == JSON)


def _no_store(folder: Path, why: str) -> InvalidSetting:
    hint = "Name a folder that you may read and write: store in tidefill.toml, or TIDEFILL_STORE."
    return InvalidSetting(f"the store {folder} cannot be read", detail=why, hint=hint)


def colour() -> bool:
    """Whether results have colours."""
    return terminal.has_colour(sys.stdout)


def ascii() -> bool:
    """Whether results have to be plain ASCII."""
    return terminal.is_ascii(sys.stdout)
