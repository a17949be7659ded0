"""A tidefill.toml that is merely found is trusted only if nobody else could have written it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidefill.config import load
from tidefill.errors import UntrustedConfig

SOMEBODY = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "project" / "tidefill.toml"
    found.parent.mkdir()
    found.write_text('[spark]\n"spark.driver.extraJavaOptions" = "-javaagent:evil.jar"\n')
    found.chmod(0o644)
    found.parent.chmod(0o755)
    return found


def refused(file: Path) -> UntrustedConfig:
    below = file.parent / "deep" / "below"
    below.mkdir(parents=True)
    with pytest.raises(UntrustedConfig) as error:
        load(below, None, {})
    assert str(file.parent) in str(error.value)
    assert "--config" in error.value.hint
    assert load(below, str(file), {}).path == file, "who names the file trusts it"
    assert load(below, None, {"TIDEFILL_CONFIG": str(file)}).path == file
    return error.value


def test_ones_own_file_is_taken(file: Path) -> None:
    assert load(file.parent, None, {}).path == file


def test_a_file_that_everybody_may_write(file: Path) -> None:
    file.chmod(0o666)
    assert "everybody may write" in refused(file).detail


def test_a_folder_where_everybody_may_put_a_file(file: Path) -> None:
    file.parent.chmod(0o777)
    assert "everybody may write" in refused(file).detail


def test_in_a_folder_like_tmp_nobody_can_exchange_ones_own_file(file: Path) -> None:
    file.parent.chmod(0o1777)
    assert load(file.parent, None, {}).path == file


@as_root
def test_a_file_of_somebody_else(file: Path) -> None:
    os.chown(file, SOMEBODY, -1)
    assert "another user" in refused(file).detail


@as_root
def test_a_folder_of_somebody_else(file: Path) -> None:
    os.chown(file.parent, SOMEBODY, -1)
    assert "another user" in refused(file).detail


@as_root
def test_a_link_to_a_file_of_somebody_else(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    file.rename(other)
    os.chown(other, SOMEBODY, -1)
    file.symlink_to(other)
    assert "another user" in refused(file).detail
