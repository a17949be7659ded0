"""The jars of Delta for a local Spark: resolved once into a cache, from then on plain files.

Spark's own resolver does the work, in a process of its own and under a lock: of several processes that need the jars at
the same moment one resolves and the others wait. A folder of jars appears whole, by a rename, or not at all.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyspark

from tidefill.errors import BadInput, InvalidSetting, MissingExtra, Unavailable

JARS_VARIABLE = "TIDEFILL_JARS"
SCALA = "2.13"
# Whatever else Delta names as a dependency is part of Spark already, or serves catalogs that are not used here.
NOT_NEEDED = "org.*:*,com.*:*,io.unitycatalog:*"
RESOLVE_S_MAX = 600  # a slow line needs a minute; a resolver that hangs must not hold the lock for ever
_UNFINISHED = ".resolving-"


@dataclass(frozen=True, slots=True)
class DeltaJars:
    """What has to be there for one pair of releases. A release of Delta is built per minor release of Spark."""

    spark: str
    delta: str

    @classmethod
    def installed(cls) -> DeltaJars:
        """The releases that are installed here."""
        try:
            delta = version("delta-spark")
        except PackageNotFoundError:
            raise MissingExtra("Delta is not installed", hint="pip install 'tidefill[spark]'") from None
        return cls(".".join(pyspark.__version__.split(".")[:2]), delta)

    @property
    def coordinates(self) -> str:
        return f"io.delta:delta-spark_{self.spark}_{SCALA}:{self.delta}"

    @property
    def folder(self) -> str:
        return f"jars-spark-{self.spark}-delta-{self.delta}"

    @property
    def names(self) -> tuple[str, ...]:
        artifacts = (
            f"delta-spark_{self.spark}_{SCALA}",
            "delta-storage",
            "delta-kernel-api",
            "delta-kernel-defaults",
            "delta-kernel-unitycatalog",
        )
        return tuple(f"{artifact}-{self.delta}.jar" for artifact in artifacts)

    def missing(self, folder: Path) -> list[str]:
        """Which of the jars are not in the folder. The resolver puts the group before the name."""
        there = [path.name for path in folder.glob("*.jar")]
        return [name for name in self.names if not any(jar in (name, f"io.delta_{name}") for jar in there)]


def delta_jars(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars to start Spark with: those of TIDEFILL_JARS if it is set, else those of the cache."""
    wanted = DeltaJars.installed()
    given = environ.get(JARS_VARIABLE)
    folder = _given(Path(given), wanted) if given else _cached(_cache(environ), wanted)
    return sorted(folder.glob("*.jar"))


def looked_for(environ: Mapping[str, str]) -> tuple[Path, list[str]]:
    """The folder that `delta_jars` takes them from, and which of them are not there. Looking downloads nothing."""
    wanted = DeltaJars.installed()
    given = environ.get(JARS_VARIABLE)
    folder = Path(given) if given else _cache(environ) / wanted.folder
    return folder, wanted.missing(folder)


def _given(folder: Path, wanted: DeltaJars) -> Path:
    missing = wanted.missing(folder)
    if missing:
        raise InvalidSetting(
            f"{JARS_VARIABLE} names a folder without the jars of Delta: {folder}",
            detail=f"missing: {', '.join(missing)}",
            hint=f"Put the jars of {wanted.coordinates} there, or unset {JARS_VARIABLE} to have them downloaded.",
        )
    return folder


def _cache(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tidefill"


def _cached(cache: Path, wanted: DeltaJars) -> Path:
    folder = cache / wanted.folder
    if not wanted.missing(folder):
        return folder
    try:
        with _locked(cache):
            if wanted.missing(folder):
                _fill(cache, folder, wanted)
    except OSError as error:
        raise BadInput(
            f"the jars of Delta cannot be kept in {cache}",
            detail=str(error),
            hint=f"Set XDG_CACHE_HOME to a folder that can be written, or {JARS_VARIABLE} to one that holds the jars.",
        ) from None
    return folder


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(cache: Path, folder: Path, wanted: DeltaJars) -> None:
    """Only the holder of the lock comes here, so whatever is half-made was left by one that was killed."""
    for left in (*cache.glob(f"{_UNFINISHED}*"), folder):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
    try:
        resolved = _resolve(work, wanted)
        resolved.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _resolve(work: Path, wanted: DeltaJars) -> Path:
    """Lets Spark submit an empty program that names the package, and returns the folder where the jars are then."""
    program = work / "empty.py"
    program.touch()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.jars.packages": wanted.coordinates,
        "spark.jars.excludes": NOT_NEEDED,
        "spark.jars.ivy": str(work),
    }
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environ = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    try:
        done = subprocess.run(
            [*command, str(program)], cwd=work, env=environ, capture_output=True, timeout=RESOLVE_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise _unresolved(wanted, f"no answer within {RESOLVE_S_MAX} s") from None
    missing = wanted.missing(work / "jars")
    if done.returncode != 0 or missing:
        raise _unresolved(wanted, f"missing: {', '.join(missing)}")
    return work / "jars"


def _unresolved(wanted: DeltaJars, reason: str) -> Unavailable:
    return Unavailable(
        f"the jars of {wanted.coordinates} could not be downloaded",
        detail=reason,
        hint=f"Check the connection and run it again, or set {JARS_VARIABLE} to a folder that holds the jars.",
    )
