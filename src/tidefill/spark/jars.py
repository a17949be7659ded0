"""The jars of Delta, of PostgreSQL's driver and of the connector to Kafka, for a local Spark: resolved once, from then
on plain files.

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
from importlib.util import find_spec
from pathlib import Path

import pyspark

from tidefill.errors import BadInput, InvalidSetting, JarChanged, MissingExtra, Unavailable

JARS_VARIABLE = "TIDEFILL_JARS"
SCALA = "2.13"
POSTGRES_DRIVER = "42.7.8"
KAFKA_CLIENT, POOL = "3.9.2", "2.13.1"
TOKEN_PROVIDER = "4.0.0"  # that of 4.2.0 is not in every registry, and this pair was run
# SHA-256 of each jar of these releases. All of them together are 24 MB: they are compared at each start.
DIGESTS = {
    "commons-pool2-2.13.1.jar": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    "delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "kafka-clients-3.9.2.jar": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "postgresql-42.7.8.jar": "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
    "spark-sql-kafka-0-10_2.13-4.2.0.jar": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
    ),
}
RESOLVE_S_MAX = 600  # a slow line needs a minute; a resolver that hangs must not hold the lock for ever
MOVE_CACHE = f"Set XDG_CACHE_HOME to a folder that can be written, or {JARS_VARIABLE} to one that holds the jars."
_UNFINISHED = ".resolving-"


@dataclass(frozen=True, slots=True)
class Jars:
    """What has to be there: the coordinates, the folder of the cache, and the names of the jars, before which the
    resolver puts a group. `not_needed`: dependencies that are part of Spark, or of no use here. `digests`: the SHA-256
    of each; None: they are among DIGESTS."""

    what: str
    coordinates: str
    folder: str
    names: tuple[str, ...]
    not_needed: str
    digests: Mapping[str, str] | None = None

    def missing(self, folder: Path) -> list[str]:
        """Which of the jars are not in the folder."""
        there = [path.name for path in folder.glob("*.jar")]
        return [name for name in self.names if not any(_is(jar, name) for jar in there)]

    def check(self, folder: Path) -> None:
        """JarChanged if a jar in the folder is not as it was released. Releases without a known digest are taken as
        they are."""
        digests = DIGESTS if self.digests is None else self.digests
        if not all(name in digests for name in self.names):
            return
        for path in sorted(folder.glob("*.jar")):
            wanted = next((digests[name] for name in self.names if _is(path.name, name)), None)
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != wanted:
                raise JarChanged(
                    f"the jar {path} is not the one that was released",
                    detail=f"SHA-256 is {found}, not {wanted}." if wanted else f"{self.what} has no such jar.",
                    hint=f"Find out who changed it. To download it again: rm -r {shlex.quote(str(folder))}",
                )


def _is(file: str, name: str) -> bool:
    """Whether the file is the jar of that name, with or without its group."""
    return file == name or file.endswith(f"_{name}")


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
        "org.*:*,com.*:*,io.unitycatalog:*",
    )


def jars_of_postgres() -> Jars:
    """The driver with which Spark reads from PostgreSQL."""
    return Jars(
        "PostgreSQL's driver",
        f"org.postgresql:postgresql:{POSTGRES_DRIVER}",
        f"jars-postgresql-{POSTGRES_DRIVER}",
        (f"postgresql-{POSTGRES_DRIVER}.jar",),
        "org.checkerframework:*",
    )


def jars_of_kafka() -> Jars:
    """The connector with which Spark reads from Kafka, but for the part that asks for tokens."""
    spark, token = pyspark.__version__, f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}"
    connector = f"spark-sql-kafka-0-10_{SCALA}"
    return Jars(
        "Spark's connector to Kafka",
        f"org.apache.spark:{connector}:{spark}",
        f"jars-spark-{spark}-kafka-{KAFKA_CLIENT}",
        (f"{connector}-{spark}.jar", f"kafka-clients-{KAFKA_CLIENT}.jar", f"commons-pool2-{POOL}.jar"),
        f"{token},{_IN_SPARK}",
    )


def jars_of_kafka_tokens() -> Jars:
    """The part of the connector that asks for tokens. It is resolved by itself: the connector wants the one of its own
    release, which is not in every registry."""
    provider = f"spark-token-provider-kafka-0-10_{SCALA}"
    return Jars(
        "Spark's tokens for Kafka",
        f"org.apache.spark:{provider}:{TOKEN_PROVIDER}",
        f"jars-spark-kafka-tokens-{TOKEN_PROVIDER}",
        (f"{provider}-{TOKEN_PROVIDER}.jar",),
        f"org.apache.kafka:*,{_IN_SPARK}",
    )


# What the connector declares besides, and Spark has.
_IN_SPARK = (
    f"org.apache.spark:spark-tags_{SCALA},org.scala-lang:*,org.scala-lang.modules:*,com.google.code.findbugs:*,"
    "org.slf4j:*,org.apache.hadoop:*,org.lz4:*,at.yawk.lz4:*,org.xerial.snappy:*,com.github.luben:*"
)


def session_jars(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars to start Spark with: those of TIDEFILL_JARS if it is set, else those of the cache. Without PostgreSQL's
    driver and the connector to Kafka everything else works; the connector is there only with the extra `[kafka]`."""
    if environ.get(JARS_VARIABLE):
        return delta_jars(environ)
    found = delta_jars(environ)
    for wanted in ((jars_of_postgres(),), (jars_of_kafka(), jars_of_kafka_tokens()) if _uses_kafka() else ()):
        try:
            found += [jar for one in wanted for jar in cached_jars(one, environ)]
        except JarChanged:
            raise
        except (Unavailable, BadInput):  # BadInput: a cache that was filled before and cannot be written
            continue
    return found


def _uses_kafka() -> bool:
    return find_spec("confluent_kafka") is not None


def cached_jars(wanted: Jars, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jars in the cache, which are downloaded if they are not there."""
    return sorted(_cached(_cache(environ), wanted).glob("*.jar"))


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
