"""Folders in the warehouse that jobs made and that no row of the store lists."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from tidefill.doctor.case import Case
from tidefill.doctor.findings import Finding, Verdict, not_too_many
from tidefill.doctor.reading import read_rows
from tidefill.errors import InvalidSetting
from tidefill.storage.local import local_path

MADE_BY_A_JOB = re.compile(r"[A-Za-z0-9_]+-[0-9a-f]{32}-[0-9]+")  # as `Lake.path` names it


def check_orphans(case: Case) -> Iterator[Finding]:
    """Folders of jobs that no row lists. They are looked for before the rows: a row lists a folder before it is made.
    Names are compared and not paths, as a warehouse can be reached by several."""
    folders = _made_by_jobs(case.config.warehouse)
    if folders and not case.has_store:
        yield _without_store(folders)
        return
    rows = read_rows(case) if folders else None
    if rows is None:
        return
    listed = {resource.name.rpartition("/")[2] for row in rows for resource in row.resources}
    yield from not_too_many("orphan", [_orphan(path) for path in folders if path.name not in listed and path.exists()])


def _made_by_jobs(warehouse: str) -> list[Path]:
    try:
        folder = local_path(warehouse).absolute()
        entries = list(os.scandir(folder))
    except (InvalidSetting, FileNotFoundError, NotADirectoryError):
        return []
    names = (each.name for each in entries if each.is_dir(follow_symlinks=False))
    return [folder / name for name in sorted(names) if MADE_BY_A_JOB.fullmatch(name)]


def _orphan(path: Path) -> Finding:
    remedy = f"If no other store has this warehouse: rm -r {quote(str(path))}"
    return Finding("orphan", Verdict.WARNING, f"no job of this store knows {path}", remedy)


def _without_store(folders: Sequence[Path]) -> Finding:
    """Then the store is more likely to be elsewhere than the folders are to be of no use: nothing is to be deleted."""
    fact = f"{folders[0].parent} holds what jobs made ({folders[0].name}), but no store is seen"
    remedy = "Set store in tidefill.toml, or TIDEFILL_STORE, to the folder where their store is."
    return Finding("orphan", Verdict.WARNING, fact, remedy)
