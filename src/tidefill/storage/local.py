"""Folders and files on a local or mounted disk."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import unquote, urlparse

from tidefill.errors import InvalidSetting, NotOurs, Unavailable
from tidefill.storage.files import Stat

T = TypeVar("T")
STAGED = "chunk="
"""How the folders of staged chunks begin, in a folder of their own. Spark reads the rest as a value of a column."""


class LocalFiles:
    """The files below a folder (see `storage.files.Files`)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def stat(self, path: str) -> Stat | None:
        """None if there is no such file."""
        found = _if_there(lambda: (self._root / path).stat())
        return None if found is None else Stat(found.st_size, found.st_mtime_ns)

    def read(self, path: str) -> bytes | None:
        """The whole content; None if there is no such file."""
        return _if_there(lambda: (self._root / path).read_bytes())

    def open(self, path: str) -> BinaryIO | None:
        """The file to read from; None if there is no such file."""
        return _if_there(lambda: (self._root / path).open("rb"))

    def names(self, folder: str) -> list[str] | None:
        """What is in the folder; None if there is no such folder."""
        return _if_there(lambda: os.listdir(self._root / folder))

    def remove(self) -> None:
        """Remove the folder and all in it; fine if there is none."""
        _if_there(lambda: shutil.rmtree(self._root))


def _if_there(act: Callable[[], T]) -> T | None:
    """What the act returns; None if what it needs is not there, Unavailable if the disk refuses."""
    try:
        return act()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"cannot read or remove {error.filename}", detail=str(error)) from error


def local_path(location: str) -> Path:
    """The path of a location on the local disk: a plain path or a file: URL. Others are refused for now."""
    parts = urlparse(location)
    if parts.scheme == "":
        return Path(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise InvalidSetting(
        f"the warehouse {parts.scheme}://{parts.netloc} cannot be used yet",
        hint="Use a folder on a local or mounted disk.",
    )


def is_folder_of_job(location: str, job_id: str) -> bool:
    """Whether a location ends like those of this job's generations: `<name>-<job id>-<generation>`."""
    form = rf"[A-Za-z0-9_]*-{re.escape(job_id)}-[1-9][0-9]*"
    return job_id != "" and re.fullmatch(form, Path(location).name) is not None


def why_not_made(warehouse: str, location: str, job_id: str) -> str:
    """Why the folder is not a table that this job made below the warehouse; empty if it is, or if nothing is there."""
    return _why_not_of_job(warehouse, location, job_id, _may_be_delta, "it is no Delta table")


def _why_not_of_job(
    warehouse: str, location: str, job_id: str, has_form: Callable[[Path], bool], otherwise: str
) -> str:
    try:
        path, below = local_path(location), local_path(warehouse).resolve()
    except InvalidSetting as error:
        return error.fact
    if not os.path.lexists(path):
        return ""
    if not is_folder_of_job(location, job_id):
        return f"its name does not end in -{job_id}-<generation>"
    if path.parent.resolve() != below:
        return f"it is not in the warehouse {below}"
    if path.is_symlink() or not path.is_dir():
        return "it is no folder"
    return "" if has_form(path) else otherwise


def _may_be_delta(path: Path) -> bool:
    """A table has a log. A first commit that was cut off leaves data files and no log."""
    if (path / "_delta_log").is_dir():
        return True
    return all(child.name.startswith(("_", ".")) or child.suffix == ".parquet" for child in path.iterdir())


def remove_made(warehouse: str, location: str, job_id: str) -> None:
    """Remove the folder of a generation of this job; fine if there is none. NotOurs, and nothing is removed, if it is
    anything else: a store that was tampered with, or is used with another warehouse, shall not cost anybody's files."""
    _remove_unless(why_not_made(warehouse, location, job_id), location)


def remove_staged(warehouse: str, location: str, job_id: str) -> None:
    """The same for the folder in which a generation of this job has staged chunks."""
    why = _why_not_of_job(warehouse, location, job_id, _is_staged, "it has other files than staged ones")
    _remove_unless(why, location)


def _is_staged(path: Path) -> bool:
    return all(child.name.startswith(STAGED) for child in path.iterdir())


def _remove_unless(why: str, location: str) -> None:
    if why:
        hint = "Set the warehouse back to where the job was created, or remove the folder by hand if it is not needed."
        raise NotOurs(f"{location} is not removed", detail=f"{why[0].upper()}{why[1:]}.", hint=hint)
    remove_tree(location)


def remove_tree(location: str) -> None:
    """Remove a folder and all in it; fine if there is none."""
    LocalFiles(local_path(location)).remove()
