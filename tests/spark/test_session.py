"""Sessions: quiet, apart from each other, and with a word on what is missing."""

import importlib.metadata
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidefill.errors import BadInput, InvalidSetting, MissingExtra, StateUnreadable, TidefillError, Unavailable
from tidefill.spark import jars
from tidefill.spark.jars import Jars, delta_jars, jars_of_delta
from tidefill.spark.session import COMMIT_CONF, DELTA_CONF, Semantics, check_session, having_set, job_session
from tidefill.spark.start import local_session

WANTED = jars_of_delta()

QUIET = """
from tidefill.spark.start import local_session

spark = local_session(cores=1)
spark.createDataFrame([(1, "a")], "a int, b string").write.format("delta").save("table")
for wrong in ("SELECT raise_error('no')", "SELECT * FROM no_such_table", "SELECT CAST('a' AS INT)"):
    try:
        spark.sql(wrong).collect()
    except Exception:
        pass
"""


@pytest.mark.full
def test_a_local_session_leaves_no_word_and_no_file(tmp_path: Path) -> None:
    work, temporary = tmp_path / "work dir", tmp_path / "temporary files"
    work.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        ["env", f"TMPDIR={temporary}", sys.executable, "-c", QUIET], cwd=work, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [path.name for path in work.iterdir()] == ["table"]
    assert list(temporary.iterdir()) == []


def test_a_process_has_one_spark(spark: SparkSession) -> None:
    assert local_session(cores=1).range(1).count() == 1
    assert spark.conf.get("spark.master") == "local[2]"


def test_a_few_rows_for_every_task_take_few_bytes(spark: SparkSession) -> None:
    session = job_session(spark)
    for name in ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"):
        session.conf.set(name, "false")
    names = "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS n (id, name)"
    frame = session.sql(f"SELECT /*+ BROADCAST(n) */ * FROM range(9) JOIN ({names}) n USING (id)")
    assert len(frame.collect()) == 2
    (sent,) = _broadcasts(frame._jdf.queryExecution().executedPlan())
    assert sent.metrics().apply("dataSize").value() < 8 << 20


def _broadcasts(plan: Any) -> list[Any]:
    children = [plan.children().apply(index) for index in range(plan.children().size())]
    below = [found for child in children for found in _broadcasts(child)]
    return [plan, *below] if plan.nodeName() == "BroadcastExchange" else below


def test_a_session_with_delta_passes(spark: SparkSession) -> None:
    assert check_session(spark) is spark


def test_a_session_with_half_of_delta_is_told_what_to_add(spark: SparkSession) -> None:
    half = job_session(spark)
    half.conf.set("spark.sql.catalog.spark_catalog", "somebody.elses.Catalog")
    with pytest.raises(BadInput, match="no Delta") as caught:
        check_session(half)
    assert "Cannot find catalog plugin class" in caught.value.detail
    assert all(f"{name}={value}" in caught.value.hint for name, value in DELTA_CONF.items())


def test_a_session_without_delta_is_told_what_to_add() -> None:
    # What Spark alone answers: it takes DETAIL for the name of a table.
    spark: Any = Answers(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] The table or view `DETAIL` cannot be found."))
    with pytest.raises(BadInput, match="no Delta"):
        check_session(spark)


def test_a_session_that_is_gone_is_no_mistake_of_the_user() -> None:
    gone: Any = object()
    with pytest.raises(Unavailable, match="does not answer"):
        check_session(gone)


def test_jobs_do_not_see_what_others_set(spark: SparkSession) -> None:
    one, other = job_session(spark), job_session(spark)
    one.conf.set(COMMIT_CONF[0], "one")
    one.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert [session.conf.get(COMMIT_CONF[0], "") for session in (spark, other)] == ["", ""]
    assert [session.conf.get("spark.sql.session.timeZone") for session in (spark, other)] == ["UTC", "UTC"]


def test_a_job_starts_with_the_settings_of_its_session(spark: SparkSession) -> None:
    given = job_session(spark)
    given.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    given.conf.set("fs.s3a.endpoint", "storage.example")
    given.conf.set(COMMIT_CONF[1], "somebody else's writes")
    job = job_session(given)
    assert job.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert job.conf.get("fs.s3a.endpoint") == "storage.example"
    assert job.conf.get(COMMIT_CONF[1], "") == ""


def test_what_is_set_for_a_while_is_afterwards_as_it_was(spark: SparkSession) -> None:
    session = job_session(spark)
    session.conf.set("spark.sql.shuffle.partitions", "7")
    names = ("spark.sql.shuffle.partitions", "spark.databricks.delta.write.txnAppId")
    with having_set(session, dict.fromkeys(names, "5")):
        assert [session.conf.get(name, None) for name in names] == ["5", "5"]
    assert [session.conf.get(name, None) for name in names] == ["7", None]


def test_on_spark_connect_a_session_is_cloned(spark: SparkSession) -> None:
    clone = job_session(spark)
    connect: Any = Answers(clone)
    assert job_session(connect) is clone


def test_a_query_keeps_its_meaning(spark: SparkSession) -> None:
    mine, theirs = job_session(spark), job_session(spark)
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    theirs.conf.set("spark.sql.caseSensitive", "true")
    theirs.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    theirs.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    theirs.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    created = Semantics.of(mine)
    assert created != Semantics.of(theirs)
    Semantics.from_json(json.loads(json.dumps(created.to_json()))).apply(theirs)
    assert Semantics.of(theirs) == created == Semantics("true", "UTC", "TIMESTAMP_LTZ", "false", "ANSI")
    assert theirs.conf.get("spark.sql.files.ignoreMissingFiles") == "false"
    assert theirs.conf.get("spark.sql.files.ignoreCorruptFiles") == "false"


@pytest.mark.parametrize("data", [None, [], {}, {"ansi": "true"}, dict.fromkeys(Semantics.__slots__, 1)])
def test_damaged_settings_are_refused(data: Any) -> None:
    with pytest.raises(StateUnreadable):
        Semantics.from_json(data)


def test_given_jars_are_used_whatever_else_is_there(tmp_path: Path) -> None:
    put(tmp_path, *WANTED.names, "other.jar", "readme.txt")
    found = delta_jars({"TIDEFILL_JARS": str(tmp_path)})
    assert {path.name for path in found} == {*WANTED.names, "other.jar"}


@pytest.mark.parametrize("there", [(), WANTED.names[1:], ("delta-spark_4.2_2.13-4.3.0.jar", *WANTED.names[1:])])
def test_given_jars_must_be_there(tmp_path: Path, there: tuple[str, ...]) -> None:
    folder = tmp_path / "jars"
    put(folder, *there)
    with pytest.raises(InvalidSetting, match="TIDEFILL_JARS") as caught:
        delta_jars({"TIDEFILL_JARS": str(folder)})
    assert WANTED.names[0] in caught.value.detail
    assert WANTED.coordinates in caught.value.hint


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="nowhere"):
        delta_jars({"TIDEFILL_JARS": str(tmp_path / "nowhere")})


def test_of_many_that_need_the_jars_one_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def resolve(work: Path, wanted: Jars) -> Path:
        calls.append(work)
        time.sleep(0.2)
        put(work / "jars", *(f"io.delta_{name}" for name in wanted.names))
        return work / "jars"

    monkeypatch.setattr(jars, "_resolve", resolve)
    monkeypatch.setattr(jars, "DIGESTS", {})  # these jars are empty
    put(tmp_path / "tidefill" / ".resolving-killed", "half.jar")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(delta_jars, [{"XDG_CACHE_HOME": str(tmp_path)}] * 4))
    assert len(calls) == 1
    assert all(jars == found[0] and len(jars) == len(WANTED.names) for jars in found)
    assert {path.name for path in (tmp_path / "tidefill").iterdir()} == {"jars.lock", WANTED.folder}


def test_jars_that_cannot_be_had_are_named_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "version", lambda _: "0.0.0")
    with pytest.raises(Unavailable) as caught:
        delta_jars({"XDG_CACHE_HOME": str(tmp_path)})
    said = str(caught.value)
    assert "io.delta:delta-spark_4.2_2.13:0.0.0" in said
    assert "TIDEFILL_JARS" in said
    assert "http" not in said
    assert [path.name for path in (tmp_path / "tidefill").iterdir()] == ["jars.lock"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    put(tmp_path, "file")
    with pytest.raises(BadInput, match="cannot be kept"):
        delta_jars({"XDG_CACHE_HOME": str(tmp_path / "file")})


def test_without_delta_the_pip_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(jars, "version", version)
    assert hint_of(delta_jars) == "pip install 'tidefill[spark]'"


def test_without_spark_the_pip_line_is_given() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import tidefill.spark.session"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "[MISSING_EXTRA]\nHint: pip install 'tidefill[spark]'" in done.stderr


def hint_of(act: Any) -> str:
    with pytest.raises(MissingExtra) as caught:
        act()
    error: TidefillError = caught.value
    return error.hint


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


class Answers:
    """A session that has one answer to everything."""

    version = "4.2.0"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def sql(self, _: str) -> Any:
        raise self.answer

    def cloneSession(self) -> Any:
        return self.answer
