"""The jars of Delta, and of PostgreSQL's driver, for a local Spark: resolved once, from then on plain files.

Spark's own resolver does the work, in a process of its own and under a lock: of several processes that need the jars at
the same moment one resolves and the others wait. A folder of jars appears whole, by a rename, or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
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

from tidefill.errors import BadInput, InvalidSetting, JarChanged, MissingExtra, Unavailable

JARS_VARIABLE = "TIDEFILL_JARS"
SCALA = "2.13"
POSTGRES_DRIVER = "42.7.8"
# SHA-256 of each jar of these releases. All of them together are 14 MB: they are compared at each start.
DIGESTS = {
    "delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "postgresql-42.7.8.jar": "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
}
RESOLVE_S_MAX = 600  # a slow line needs a minute; a resolver that hangs must not hold the lock for ever
MOVE_CACHE = f"Set XDG_CACHE_HOME to a folder that can be written, or {JARS_VARIABLE} to one that holds the jars."
_UNFINISHED = ".resolving-"


@dataclass(frozen=True, slots=True)
class Jars:
    """What has to be there: the coordinates, the folder of the cache, and the names of the jars. `group`: which the
    resolver puts before them. `not_needed`: dependencies that are part of Spark, or of no use here."""

    what: str
    coordinates: str
    folder: str
    names: tuple[str, ...]
    group: str
    not_needed: str

    def missing(self, folder: Path) -> list[str]:
        """Which of the jars are not in the folder."""
        there = [path.name for path in folder.glob("*.jar")]
        return [name for name in self.names if not any(jar in (name, f"{self.group}_{name}") for jar in there)]

    def check(self, folder: Path) -> None:
        """JarChanged if a jar in the folder is not as it was released. Releases without a known digest are taken as
        they are."""
        if not all(name in DIGESTS for name in self.names):
            return
        for path in sorted(folder.glob("*.jar")):
            wanted = DIGESTS.get(path.name.removeprefix(f"{self.group}_"))
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != wanted:
                raise JarChanged(
                    f"the jar {path} is not the one that was released",
                    detail=f"SHA-256 is {found}, not {wanted}." if wanted else f"{self.what} has no such jar.",
                    hint=f"Find out who changed it. To download it again: rm -r {shlex.quote(str(folder))}",
                )


def jars_of_delta() -> Jars:
    """Those of the releases that are installed here. A release of Delta is built per minor release of Spark."""
    try:
        delta = version("delta-spark")
    except PackageNotFoundError:
        raise MissingExtra("Delta is not installed", hint="pip install 'tidefill[spark]'") from None
    spark = ".".join(pyspark.__version__.split(".")[:2])
    artifacts = (
        f"delta-spark_{spark}_{SCALA}",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
    return Jars(
        "Delta",
        f"io.delta:delta-spark_{spark}_{SCALA}:{delta}",
        f"jars-spark-{spark}-delta-{delta}",
        tuple(f"{artifact}-{delta}.jar" for artifact in artifacts),
        "io.delta",
        "org.*:*,com.*:*,io.unitycatalog:*",
    )


def jars_of_postgres() -> Jars:
    """The driver with which Spark reads from PostgreSQL."""
    return Jars(
        "PostgreSQL's driver",
        f"org.postgresql:postgresql:{POSTGRES_DRIVER}",
        f"jars-postgresql-{POSTGRES_DRIVER}",
        (f"postgresql-{POSTGRES_DRIVER}.jar",),
        "org.postgresql",
        "org.checkerframework:*",
    )


def session_jars(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars to start Spark with: those of TIDEFILL_JARS if it is set, else those of the cache. Without PostgreSQL's
    driver everything else works."""
    if environ.get(JARS_VARIABLE):
        return delta_jars(environ)
    found = delta_jars(environ)
    try:
        return [*found, *sorted(_cached(_cache(environ), jars_of_postgres()).glob("*.jar"))]
    except JarChanged:
        raise
    except (Unavailable, BadInput):  # BadInput: a cache that was filled before and cannot be written
        return found


def delta_jars(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Those of TIDEFILL_JARS if it is set, else those of the cache."""
    wanted = jars_of_delta()
    given = environ.get(JARS_VARIABLE)
    folder = _given(Path(given), wanted) if given else _cached(_cache(environ), wanted)
    return sorted(folder.glob("*.jar"))


def looked_for(environ: Mapping[str, str]) -> tuple[Path, list[str]]:
    """The folder that `delta_jars` takes them from, and which of them are not there. Looking downloads nothing."""
    wanted = jars_of_delta()
    given = environ.get(JARS_VARIABLE)
    folder = Path(given) if given else _cache(environ) / wanted.folder
    return folder, wanted.missing(folder)


def _given(folder: Path, wanted: Jars) -> Path:
    missing = wanted.missing(folder)
    if missing:
        raise InvalidSetting(
            f"{JARS_VARIABLE} names a folder without the jars of Delta: {folder}",
            detail=f"missing: {', '.join(missing)}",
            hint=f"Put the jars of {wanted.coordinates} there, or unset {JARS_VARIABLE} to have them downloaded.",
        )
    return folder


def _cache(environ: Mapping[str, str]) -> Path:
    """The folder of the cache; BadInput for a user without a home, as containers have them."""
    if home := environ.get("XDG_CACHE_HOME"):
        return Path(home) / "tidefill"
    try:
        return Path.home() / ".cache" / "tidefill"
    except RuntimeError:
        raise BadInput("this user has no home folder in which jars could be kept", hint=MOVE_CACHE) from None


def _cached(cache: Path, wanted: Jars) -> Path:
    folder = cache / wanted.folder
    try:
        if wanted.missing(folder):
            with _locked(cache):
                if wanted.missing(folder):
                    _fill(cache, folder, wanted)
        wanted.check(folder)
    except OSError as error:
        raise BadInput(
            f"the jars of {wanted.what} cannot be kept in {cache}",
            detail=str(error),
            hint=MOVE_CACHE,
        ) from None
    return folder


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "jars.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(cache: Path, folder: Path, wanted: Jars) -> None:
    """Only the holder of the lock comes here, so whatever is half-made was left by one that was killed."""
    for left in (*cache.glob(f"{_UNFINISHED}*"), folder):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
    try:
        resolved = _resolve(work, wanted)
        wanted.check(resolved)
        resolved.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _resolve(work: Path, wanted: Jars) -> Path:
    """Lets Spark submit an empty program that names the package, and returns the folder where the jars are then."""
    program = work / "empty.py"
    program.touch()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.jars.packages": wanted.coordinates,
        "spark.jars.excludes": wanted.not_needed,
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


def _unresolved(wanted: Jars, reason: str) -> Unavailable:
    return Unavailable(
        f"the jars of {wanted.coordinates} could not be downloaded",
        detail=reason,
        hint=f"Check the connection and run it again, or set {JARS_VARIABLE} to a folder that holds the jars.",
    )
