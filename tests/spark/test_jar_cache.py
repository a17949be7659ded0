"""A cache for jars that cannot be used is an error with a name, whatever is wrong with it."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidefill.config import Config
from tidefill.doctor.examine import examine
from tidefill.doctor.findings import Verdict
from tidefill.errors import BadInput
from tidefill.spark import jars
from tidefill.spark.jars import JARS_VARIABLE, delta_jars, jars_of_delta, session_jars

NOBODY = 65534


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder that everybody may pass through, unlike those that pytest makes. Which jars are wanted is asked
    before: a user without rights may not be able to read Python's own files."""
    wanted = jars_of_delta()
    monkeypatch.setattr(jars, "jars_of_delta", lambda: wanted)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    made = tmp_path / "tidefill"
    made.mkdir()
    return made


@contextmanager
def without_rights() -> Iterator[None]:
    """As a user whom permissions concern; root is not one."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if before == 0:
            os.seteuid(before)


def fill(cache: Path) -> None:
    """With empty files by the right names: nothing here starts Spark."""
    wanted = jars_of_delta()
    (cache / wanted.folder).mkdir()
    for name in wanted.names:
        (cache / wanted.folder / name).touch()


@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_cache_that_may_not_be_used(cache: Path, mode: int) -> None:
    cache.chmod(mode)
    try:
        with without_rights(), pytest.raises(BadInput) as refused:
            session_jars({"XDG_CACHE_HOME": str(cache.parent)})
    finally:
        cache.chmod(0o755)
    assert str(cache) in refused.value.fact
    assert "XDG_CACHE_HOME" in refused.value.hint
    assert JARS_VARIABLE in refused.value.hint


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a user whom nobody has entered."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(BadInput) as refused:
        delta_jars({})
    assert "XDG_CACHE_HOME" in refused.value.hint
    findings = [each for each in examine(Config(None, "/nowhere", "/nowhere"), {}, 0.0) if each.what == "jars"]
    assert [(each.verdict, "XDG_CACHE_HOME" in each.remedy) for each in findings] == [(Verdict.BAD, True)]


def test_a_cache_that_was_filled_before_need_not_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PostgreSQL's driver everything else works."""
    fill(cache)
    empty = hashlib.sha256(b"").hexdigest()
    monkeypatch.setattr(jars, "DIGESTS", dict.fromkeys(jars.DIGESTS, empty))
    cache.chmod(0o555)
    monkeypatch.setattr(jars, "_resolve", lambda work, wanted: pytest.fail("nothing can be put there"))
    try:
        with without_rights():
            found = session_jars({"XDG_CACHE_HOME": str(cache.parent)})
    finally:
        cache.chmod(0o755)
    assert sorted(path.name for path in found) == sorted(jars_of_delta().names)


def test_the_doctor_says_that_the_cache_cannot_be_written(cache: Path) -> None:
    (cache / "x").touch()
    environ = {"XDG_CACHE_HOME": str(cache / "x"), "PATH": os.environ["PATH"]}
    findings = [each for each in examine(Config(None, "/nowhere", "/nowhere"), environ, 0.0) if each.what == "jars"]
    assert [(each.verdict, "XDG_CACHE_HOME" in each.remedy) for each in findings] == [(Verdict.BAD, True)]
