"""What the doctor finds on a machine that is well and on one that is not, and that looking changes nothing."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tidefill.config import Config, Connection
from tidefill.doctor import installed
from tidefill.doctor.examine import examine
from tidefill.doctor.findings import ALIKE_MAX, Finding, Verdict
from tidefill.doctor.places import FREE_BYTES_MIN
from tidefill.engine.engine import STORE_FILE
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Failure, Job, Lease, Pause
from tidefill.run.runner import LEASE_S
from tidefill.store.schema import SCHEMA_VERSION
from tidefill.store.sql_store import open_store

NOW_S = 1_000_000.0
HEAVY = {"pyspark", "delta", "pandas", "numpy", "pyarrow", "sqlglot", "psycopg", "grpc"}
JAVA = """#!/bin/sh
case "$1" in
  -version) echo 'openjdk version "{version}" 2025-04-15' >&2 ;;
  --list-modules) echo 'java.base@{version}'; echo '{module}' ;;
esac
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(None, str(tmp_path / ".tidefill"), str(tmp_path / "lake"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with a Java that fits, and an empty cache."""
    return {"PATH": str(java(tmp_path / "bin")), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def java(folder: Path, version: str = "17.0.15", module: str = "jdk.incubator.vector@17.0.15") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java").write_text(JAVA.format(version=version, module=module))
    (folder / "java").chmod(0o755)
    return folder


def found(config: Config, environ: Mapping[str, str], what: str) -> list[Finding]:
    """The findings on one thing."""
    return [finding for finding in examine(config, environ, NOW_S) if finding.what == what]


def bad(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """All that is not fine, but for the jars, of which a test has none."""
    findings = examine(config, environ, NOW_S)
    return [each for each in findings if each.verdict is not Verdict.OK and each.what != "jars"]


def stored(config: Config, *rows: Job) -> Path:
    file = Path(config.store) / STORE_FILE
    with open_store(file) as store:
        for row in rows:
            store.create(row)
    return file


def job(name: str, number: int = 1, **fields: Any) -> Job:
    return Job(f"{number:032x}", name, f'{{"name": "{name}"}}', **fields)


# The whole


def test_looking_at_nothing_makes_nothing(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert bad(config, environ) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert found(config, environ, "store")[0].fact.startswith("no store yet")
    assert found(config, environ, "warehouse")[0].fact.startswith("no warehouse yet")


def test_looking_at_a_store_changes_nothing(config: Config, environ: dict[str, str]) -> None:
    stored(config, job("orders", life=Life.LIVE))
    before = {path: path.stat().st_mtime_ns for path in Path(config.store).iterdir()}
    assert bad(config, environ) == []
    assert {path: path.stat().st_mtime_ns for path in Path(config.store).iterdir()} == before
    assert found(config, environ, "jobs")[0].fact == "1 job, and no runner is alive"


def test_what_is_not_fine_has_a_remedy() -> None:
    with pytest.raises(AssertionError):
        Finding("java", Verdict.BAD, "there is none")


def test_a_check_that_breaks_hides_no_other(
    config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: object) -> object:
        raise ZeroDivisionError("oh, postgresql://ada:hunter2@host")

    monkeypatch.setattr(shutil, "disk_usage", broken)
    findings = bad(config, environ)
    assert [finding.what for finding in findings] == ["store", "warehouse"]
    assert findings[0].fact == "the check broke: ZeroDivisionError: oh, postgresql://ada:***@host"
    assert found(config, environ, "store")[0].verdict is Verdict.OK


def test_it_imports_nothing_heavy_and_works_without_spark(config: Config) -> None:
    program = (
        "import sys; from tidefill.doctor.examine import examine; from tidefill.config import Config;"
        f"heavy = {HEAVY} & {{name.partition('.')[0] for name in sys.modules}};"
        "sys.modules['pyspark'] = sys.modules['delta'] = None;"
        "findings = examine(Config(None, *sys.argv[1:]), {}, 0.0);"
        "print(heavy, *{each.what + ': ' + each.fact for each in findings}, sep='\\n')"
    )
    command = [sys.executable, "-c", program, config.store, config.warehouse]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[0] == "set()"
    assert {"pyspark: not installed", "delta-spark: not installed"} < set(told)
    assert not any(line.startswith("jars") for line in told)


# What has to be installed


def test_python_and_packages_that_fit(config: Config, environ: dict[str, str]) -> None:
    for what in ("python", "pyspark", "delta-spark"):
        assert [finding.verdict for finding in found(config, environ, what)] == [Verdict.OK]


def test_a_python_that_does_not_fit(config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.9.1")
    (finding,) = found(config, environ, "python")
    assert finding.verdict is Verdict.BAD
    assert ">=3.11" in finding.fact


def test_a_package_that_does_not_fit(config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(config, environ, "sqlglotc") == []
    monkeypatch.setattr(installed, "version", lambda package: "3.5.0" if package == "pyspark" else "4.4.0")
    (finding,) = found(config, environ, "pyspark")
    assert (finding.verdict, finding.remedy) == (Verdict.WARNING, "pip install 'tidefill[spark]'")
    assert finding.fact.startswith("3.5.0, but it should be ")
    assert found(config, environ, "delta-spark")[0].verdict is Verdict.OK
    (compiled,) = found(config, environ, "sqlglotc")
    assert (compiled.verdict, compiled.remedy) == (Verdict.BAD, "pip uninstall sqlglotc")


@pytest.mark.parametrize(
    ("release", "needed", "fits"),
    [
        ("4.2.0", "<4.3,>=4.2", True),
        ("4.2.0.dev1", "<4.3,>=4.2", True),
        ("4.3.0", "<4.3,>=4.2", False),
        ("4.10.0", ">=4.2", True),
        ("4.1.9", ">=4.2", False),
        ("1.0", "", True),
    ],
)
def test_releases_are_compared_as_numbers(release: str, needed: str, fits: bool) -> None:
    assert installed._fits(release, needed) is fits


def test_a_java_that_fits(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    (finding,) = found(config, environ, "java")
    assert finding == Finding("java", Verdict.OK, f"Java 17: {tmp_path / 'bin' / 'java'}")


def test_java_home_goes_before_the_path(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    java(tmp_path / "home" / "bin", "21", "jdk.incubator.vector@21")
    (finding,) = found(config, {**environ, "JAVA_HOME": str(tmp_path / "home")}, "java")
    assert finding.fact.startswith("Java 21")
    (finding,) = found(config, {**environ, "JAVA_HOME": str(tmp_path / "none")}, "java")
    assert finding.fact == f"JAVA_HOME={tmp_path / 'none'} has no bin/java"


@pytest.mark.parametrize(
    ("version", "module", "fact"),
    [
        ("1.8.0_392", "", "is Java 8, too old for Spark"),
        ("11.0.2", "", "is Java 11, too old for Spark"),
        ("17.0.15", "java.sql@17.0.15", "is not complete: Spark needs jdk.incubator.vector"),
        ("", "", "does not tell its version"),
    ],
)
def test_a_java_that_does_not_fit(
    tmp_path: Path, config: Config, environ: dict[str, str], version: str, module: str, fact: str
) -> None:
    java(tmp_path / "bin", version, module)
    (finding,) = found(config, environ, "java")
    assert finding.verdict is Verdict.BAD
    assert finding.fact.endswith(fact)


def test_no_java(config: Config) -> None:
    (finding,) = found(config, {"PATH": ""}, "java")
    assert (finding.verdict, finding.fact) == (Verdict.BAD, "there is no java on the PATH")


def test_a_java_that_hangs(
    tmp_path: Path, config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "JAVA_S_MAX", 0.2)
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (finding,) = found(config, environ, "java")
    assert finding.verdict is Verdict.BAD
    assert "timed out" in finding.fact


def test_a_java_that_is_no_program(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    (tmp_path / "bin" / "java").write_bytes(b"\x7fELF nonsense")
    (finding,) = found(config, environ, "java")
    assert finding.verdict is Verdict.BAD


def test_a_spark_elsewhere_needs_neither_java_nor_jars(config: Config) -> None:
    remote = replace(config, spark=(("spark.remote", "sc://host"),))
    assert found(remote, {"PATH": ""}, "java")[0].verdict is Verdict.OK
    assert found(remote, {"PATH": ""}, "jars") == []


def test_jars(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    jars = pytest.importorskip("tidefill.spark.jars")
    (finding,) = found(config, environ, "jars")
    assert finding.verdict is Verdict.WARNING
    assert str(tmp_path / "cache") in finding.fact
    given = {**environ, "TIDEFILL_JARS": str(tmp_path)}
    assert found(config, given, "jars")[0].verdict is Verdict.BAD
    for name in jars.jars_of_delta().names:
        (tmp_path / name).touch()
    assert found(config, given, "jars") == [Finding("jars", Verdict.OK, str(tmp_path))]


# The store and the warehouse


def test_a_store_that_others_may_read(config: Config, environ: dict[str, str]) -> None:
    file = stored(config)
    file.chmod(0o644)
    (finding,) = bad(config, environ)
    assert (finding.verdict, finding.remedy) == (Verdict.WARNING, f"chmod 600 {file}")
    assert "0644" in finding.fact


@pytest.mark.parametrize(
    ("schema", "verdict", "fact"),
    [
        (SCHEMA_VERSION + 1, Verdict.BAD, "a newer release wrote it"),
        (SCHEMA_VERSION - 1, Verdict.WARNING, "an older release wrote it"),
    ],
)
def test_a_store_of_another_release(
    config: Config, environ: dict[str, str], schema: int, verdict: Verdict, fact: str
) -> None:
    file = stored(config, job("orders", life=Life.BACKFILLING))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE meta SET schema_version = ?", (schema,))
    (finding,) = bad(config, environ)
    assert finding.verdict is verdict
    assert finding.fact.startswith(fact)
    assert [path.name for path in file.parent.iterdir()] == [STORE_FILE], "no backup: it was not migrated"


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be looked at" * 100])
def test_a_file_that_is_no_store(config: Config, environ: dict[str, str], content: bytes) -> None:
    file = stored(config)
    file.write_bytes(content)
    findings = bad(config, environ)
    if content:
        (finding,) = findings
        assert (finding.what, finding.verdict) == ("store", Verdict.BAD)
        assert f"mv {file}" in finding.remedy
    else:
        assert findings == []
    assert file.read_bytes() == content


def test_a_database_of_someone_else(config: Config, environ: dict[str, str]) -> None:
    file = stored(config)
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
    file.chmod(0o600)
    (finding,) = bad(config, environ)
    assert "no such table: meta" in finding.fact


def test_a_damaged_row(config: Config, environ: dict[str, str]) -> None:
    file = stored(config, job("orders"))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE jobs SET data = '{'")
    (finding,) = bad(config, environ)
    assert (finding.what, finding.verdict) == ("jobs", Verdict.BAD)


def test_a_store_without_permission(config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = stored(config, job("orders"))
    denied = {file}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in denied)
    (finding,) = bad(config, environ)
    assert (finding.what, finding.remedy) == ("store", f"chmod 600 {file}")
    denied |= {file.parent, Path(config.warehouse).parent}
    remedies = {finding.what: finding.remedy for finding in bad(config, environ)}
    assert remedies["store"] == f"chmod u+rwx {file.parent}"
    assert remedies["warehouse"] == f"chmod u+rwx {Path(config.warehouse).parent}"


@pytest.mark.parametrize("what", ["store", "warehouse"])
def test_a_file_in_the_place_of_a_folder(tmp_path: Path, config: Config, environ: dict[str, str], what: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "file/below", "link"):
        changed = replace(config, **{what: str(tmp_path / name)})  # type: ignore[arg-type]
        (finding,) = bad(changed, environ)
        assert (finding.what, finding.verdict) == (what, Verdict.BAD)
        assert f"TIDEFILL_{what.upper()}" in finding.remedy


class Usage(NamedTuple):
    free: int


def test_a_full_disk(config: Config, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(FREE_BYTES_MIN - 1))
    assert [finding.what for finding in bad(config, environ)] == ["store disk", "warehouse disk"]


def test_a_warehouse_that_cannot_be_used_yet(config: Config, environ: dict[str, str]) -> None:
    (finding,) = bad(replace(config, warehouse="s3a://ada:hunter2@bucket/lake"), environ)
    assert (finding.what, finding.verdict) == ("warehouse", Verdict.BAD)
    assert "hunter2" not in finding.fact


# Connections


def test_connections(config: Config, environ: dict[str, str]) -> None:
    urls = {
        "set": "env:SET_URL",
        "unset": "env:UNSET_URL",
        "plain": "postgresql://127.0.0.1:1/shop",
        "secret": "postgresql://ada:hunter2@127.0.0.1:1/shop",
    }
    config = replace(config, connections=tuple(Connection(name, url) for name, url in urls.items()))
    findings = examine(config, {**environ, "SET_URL": "postgresql://ada:hunter2@127.0.0.1:1/shop"}, NOW_S)
    told = {each.what: each for each in findings if each.what.startswith("connection ")}
    assert {what: each.verdict.value for what, each in told.items()} == {
        "connection set": "ok",
        "connection unset": "bad",
        "connection plain": "ok",
        "connection secret": "warning",
    }
    assert "UNSET_URL" in told["connection unset"].fact
    assert told["connection unset"].remedy.startswith("export UNSET_URL=")
    servers = {each.what: each.verdict.value for each in findings if each.what.startswith("server of ")}
    assert servers == {"server of set": "bad", "server of plain": "bad", "server of secret": "bad"}
    assert "hunter2" not in repr(findings)


# Jobs


def test_a_failed_job_tells_why_and_what_to_do(config: Config, environ: dict[str, str]) -> None:
    failure = Failure("HISTORY_GONE", "changes are gone", "Versions 3 to 7.", "RESYNC JOB orders.")
    stored(config, job("my orders", life=Life.FAILED, failure=failure))
    assert bad(config, environ) == [
        Finding(
            "job my orders",
            Verdict.BAD,
            "changes are gone [HISTORY_GONE] (Versions 3 to 7)",
            "RESYNC JOB orders. Then: tidefill resume 'my orders'",
        )
    ]


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"life": Life.CREATED}, "created, but nobody runs it"),
        ({"life": Life.BACKFILLING, "lease": Lease("a", 1, NOW_S - 1)}, "backfilling, but its runner died"),
        ({"life": Life.BACKFILLING, "lease": Lease("a", 1, NOW_S + 9 * LEASE_S)}, "backfilling, but its runner died"),
        ({"life": Life.BACKFILLING, "pause": Pause.FILL}, "backfilling, but nobody runs it"),
        ({"life": Life.LIVE}, None),
        ({"life": Life.LIVE, "lease": Lease("a", 1, NOW_S - 1)}, "live, but its runner died"),
        ({"life": Life.LIVE, "wants_resync": True}, "live, but nobody runs it"),
        ({"life": Life.PAUSED, "pause": Pause.ALL}, None),
        ({"life": Life.PAUSED}, "paused, but nobody runs it"),
        ({"life": Life.FAILED, "wants_resume": True}, "failed, but nobody runs it"),
        ({"life": Life.CANCELLING}, "cancelling, but nobody runs it"),
        ({"life": Life.DROPPED}, None),
    ],
)
def test_a_job_that_waits_for_a_runner(
    config: Config, environ: dict[str, str], fields: dict[str, Any], fact: str | None
) -> None:
    stored(config, job("orders", **fields))
    findings = bad(config, environ)
    assert findings == ([Finding("job orders", Verdict.WARNING, fact, "tidefill run")] if fact else [])


def test_a_runner_that_is_alive_comes_to_every_job(config: Config, environ: dict[str, str]) -> None:
    stored(config, job("a", 1, life=Life.LIVE, lease=Lease("me", 1, NOW_S + LEASE_S)), job("b", 2))
    assert bad(config, environ) == []
    assert found(config, environ, "jobs")[0].fact == "2 jobs, and a runner is alive"


def test_many_alike_are_cut_short(config: Config, environ: dict[str, str]) -> None:
    stored(config, *(job(f"j{number}", number) for number in range(ALIKE_MAX + 3)))
    findings = bad(config, environ)
    assert len(findings) == ALIKE_MAX + 1
    assert findings[-1].fact == "and 3 more of this kind"


# Orphans


def made(config: Config, name: str) -> Path:
    path = Path(config.warehouse) / name
    path.mkdir(parents=True)
    return path


def test_a_folder_that_no_job_lists(config: Config, environ: dict[str, str]) -> None:
    listed, orphan = made(config, f"orders-{1:032x}-1"), made(config, f"orders-{1:032x}-2")
    for other in ("events", f"orders-{1:031x}-1", f"{1:032x}-1", f"orders-{1:032x}-x"):
        made(config, other)
    (Path(config.warehouse) / f"file-{1:032x}-1").touch()
    (Path(config.warehouse) / f"link-{1:032x}-1").symlink_to(listed)
    resources = (Resource("path", str(listed)), Resource("view", f"orders@{listed}"))
    stored(config, job("orders", life=Life.DROPPED, resources=resources, ended_at_s=NOW_S))
    (finding,) = bad(config, environ)
    assert (finding.what, finding.verdict) == ("orphan", Verdict.WARNING)
    assert finding.remedy.endswith(f"rm -r {orphan}")


def test_what_could_not_be_removed(config: Config, environ: dict[str, str]) -> None:
    # R24
    gone = job("orders", life=Life.DROPPED, resources=(Resource("slot", "shop/tidefill_1"),), ended_at_s=NOW_S - 1000)
    stored(config, gone)
    (finding,) = bad(config, environ)
    assert (finding.what, finding.verdict) == ("job orders", Verdict.WARNING)
    assert "slot:shop/tidefill_1" in finding.fact


def test_a_warehouse_may_be_reached_by_another_path(tmp_path: Path, config: Config, environ: dict[str, str]) -> None:
    listed = made(config, f"orders-{1:032x}-1")
    stored(config, job("orders", life=Life.LIVE, resources=(Resource("path", str(listed)),)))
    (tmp_path / "link").symlink_to(config.warehouse)
    assert bad(replace(config, warehouse=str(tmp_path / "link")), environ) == []


def test_without_a_store_nothing_is_to_be_deleted(config: Config, environ: dict[str, str]) -> None:
    made(config, f"orders-{1:032x}-1")
    (finding,) = bad(config, environ)
    assert "TIDEFILL_STORE" in finding.remedy
    assert "rm" not in finding.remedy.split()


def test_of_a_store_that_cannot_be_read_no_orphans_are_told(config: Config, environ: dict[str, str]) -> None:
    made(config, f"orders-{1:032x}-1")
    stored(config).write_bytes(b"nonsense" * 100)
    assert [finding.what for finding in bad(config, environ)] == ["store"]
