"""What a dropped job has made is removed without Spark, and nothing else is, whatever the store says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stores import REPLICA
from tests.cli.stores import row as a_row
from tidefill.doctor.jobs import _residue
from tidefill.engine.engine import STORE_FILE, Engine
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import resource_from_text
from tidefill.jobs.row import Job
from tidefill.store.sql_store import open_store

OTHER = "f" * 32


def no_spark() -> Any:
    raise AssertionError("Spark was started")


class Project:
    """A store with a job that was filled a while ago, and a warehouse with its folder."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.warehouse = folder / "lake"
        self.row = a_row("copy", definition=REPLICA, life=Life.BACKFILLING)
        self.folder = self.warehouse / f"copy-{self.row.id}-1"

    def drop(self, *resources: str, warehouse: Path | None = None, **fields: Any) -> list[str]:
        """What was told, after DROP was done and swept."""
        made = replace(self.row, resources=tuple(map(resource_from_text, resources)), **fields)
        with open_store(self.store / STORE_FILE) as store:
            store.create(made)
            store.change(made.id, jobs.wish_drop)
        with Engine(no_spark, str(warehouse or self.warehouse), self.store) as engine:
            service = engine.scheduler()
            with service.alive():
                service.turn(made)
                assert engine.jobs() == [], "it is dropped, whatever is left"
                told = [event.text for event in engine.events()]
                engine._store.change(made.id, lambda row: replace(row, ended_at_s=1.0))
                service.turn(made)
                service.turn(made)
            return told + [event.text for event in engine.events()][len(told) :]

    def left(self) -> Job | None:
        with open_store(self.store / STORE_FILE) as store:
            return store.job(self.row.id)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def delta_table(path: Path) -> Path:
    (path / "_delta_log").mkdir(parents=True)
    (path / "part-0.parquet").write_text("rows")
    return path


def test_a_job_that_was_never_shown_is_removed_without_spark(project: Project) -> None:
    path = delta_table(project.folder)
    project.drop(f"path:{path}", f"view:copy@{path}")
    assert not path.exists()
    assert project.left() is None


def test_a_job_whose_name_no_catalog_takes_is_removed_without_spark(project: Project) -> None:
    path = delta_table(project.folder)
    project.row = replace(project.row, name="a copy")
    project.drop(f"path:{path}", f"view:a copy@{path}", published=1)
    assert not path.exists()
    assert project.left() is None


def test_what_the_first_commit_left_when_it_was_cut_off_is_removed(project: Project) -> None:
    project.folder.mkdir(parents=True)
    (project.folder / "part-0.snappy.parquet").write_text("rows")
    (project.folder / ".part-0.snappy.parquet.crc").write_text("sum")
    (project.folder / "_temporary").mkdir()
    project.drop(f"path:{project.folder}")
    assert not project.folder.exists()


def test_a_warehouse_may_be_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    project.warehouse.symlink_to(tmp_path / "disk")
    delta_table(project.folder)
    project.drop(f"path:{project.folder}")
    assert list((tmp_path / "disk").iterdir()) == []
    assert project.left() is None


def outside(project: Project) -> tuple[Path, Path]:
    path = delta_table(project.warehouse.parent / "elsewhere" / project.folder.name)
    return path, path


def above(project: Project) -> tuple[Path, Path]:
    project.warehouse.mkdir()
    path = delta_table(project.warehouse.parent / project.folder.name)
    return project.warehouse / ".." / project.folder.name, path


def deeper(project: Project) -> tuple[Path, Path]:
    path = delta_table(project.warehouse / "of others" / project.folder.name)
    return path, path


def linked(project: Project) -> tuple[Path, Path]:
    path = delta_table(project.warehouse.parent / "elsewhere")
    project.warehouse.mkdir()
    project.folder.symlink_to(path)
    return project.folder, path


def the_warehouse(project: Project) -> tuple[Path, Path]:
    path = delta_table(project.warehouse / "orders")
    return project.warehouse, path


def of_another_job(project: Project) -> tuple[Path, Path]:
    path = delta_table(project.warehouse / f"copy-{OTHER}-1")
    return path, path


def no_table(project: Project) -> tuple[Path, Path]:
    project.folder.mkdir(parents=True)
    (project.folder / "diary.txt").write_text("dear diary")
    return project.folder, project.folder / "diary.txt"


@pytest.mark.parametrize("made", [outside, above, deeper, linked, the_warehouse, of_another_job, no_table])
def test_what_the_job_did_not_make_is_left_and_listed(
    project: Project, made: Callable[[Project], tuple[Path, Path]]
) -> None:
    # a store that somebody tampered with
    named, kept = made(project)
    told = project.drop(f"path:{named}", "path:/nowhere/at/all")
    assert kept.exists()
    assert "dropped" in told
    assert [text for text in told if text.startswith(f"left where it is: {named}")]
    left = project.left()
    assert left is not None
    assert (left.life, left.resources) == (Life.DROPPED, (resource_from_text(f"path:{named}"),)), (
        "no more than what is left"
    )


def test_after_the_warehouse_was_moved_it_is_said_what_is_left_where(project: Project, tmp_path: Path) -> None:
    path = delta_table(project.folder)
    told = project.drop(f"path:{path}", warehouse=tmp_path / "other lake")
    assert path.exists()
    assert [text for text in told if str(path) in text and "other lake" in text]
    left = project.left()
    assert left is not None
    remedy = _residue(left, str(tmp_path / "other lake")).remedy
    assert remedy.startswith("remove it by hand if it is not needed, or set the warehouse back")
    assert str(path) in remedy
    with Engine(no_spark, str(project.warehouse), project.store) as engine:
        engine.scheduler().turn(project.row)
    assert not path.exists(), "the warehouse was set back"
    assert project.left() is None
