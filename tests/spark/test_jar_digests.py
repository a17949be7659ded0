"""A jar that is not the one of its release is not loaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tidefill.errors import JarChanged
from tidefill.spark import jars
from tidefill.spark.jars import (
    DIGESTS,
    Jars,
    delta_jars,
    jars_of_delta,
    jars_of_kafka,
    jars_of_kafka_tokens,
    jars_of_postgres,
    session_jars,
)

WANTED = jars_of_delta()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A copy of the cache of this machine."""
    for path in session_jars({key: value for key, value in os.environ.items() if key != jars.JARS_VARIABLE}):
        copy = tmp_path / "tidefill" / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def change_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_all_that_we_resolve_has_a_digest() -> None:
    others = (jars_of_postgres(), jars_of_kafka(), jars_of_kafka_tokens())
    assert set(DIGESTS) == {*WANTED.names, *(name for one in others for name in one.names)}


def test_jars_as_they_were_released_are_taken(cache: Path) -> None:
    assert len(session_jars({"XDG_CACHE_HOME": str(cache)})) == 10


@pytest.mark.parametrize("wanted", [WANTED, jars_of_postgres(), jars_of_kafka()], ids=lambda wanted: wanted.what)
def test_a_byte_of_a_cached_jar_is_changed(cache: Path, wanted: Jars) -> None:
    file = sorted((cache / "tidefill" / wanted.folder).iterdir())[0]
    change_a_byte(file)
    with pytest.raises(JarChanged) as refused:
        session_jars({"XDG_CACHE_HOME": str(cache)})
    assert str(file) in refused.value.fact
    assert f"rm -r {file.parent}" in refused.value.hint


def test_a_jar_that_arrives_changed_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache / "tidefill" / WANTED.folder
    change_a_byte(sorted(folder.iterdir())[0])
    arriving = cache / "arriving"
    folder.rename(arriving)
    monkeypatch.setattr(jars, "_resolve", lambda work, wanted: arriving)
    with pytest.raises(JarChanged):
        delta_jars({"XDG_CACHE_HOME": str(cache)})
    assert not folder.exists()


def test_another_jar_in_the_folder_of_the_cache(cache: Path) -> None:
    (cache / "tidefill" / WANTED.folder / "more.jar").write_bytes(b"anything")
    with pytest.raises(JarChanged, match=r"more\.jar"):
        delta_jars({"XDG_CACHE_HOME": str(cache)})
