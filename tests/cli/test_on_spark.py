"""The command line on real tables: a script from the first statement to the last, and every mistake one clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidefill.cli import main

CONNECTED = """
REGISTER TABLE events LOCATION 'source' KEY (id);
CREATE REPLICA copy FROM events;
SELECT c.id, e.at FROM copy AS c JOIN events AS e ON c.id = e.id ORDER BY 1;
"""

SCRIPT = """
REGISTER TABLE events LOCATION 'source' KEY (id);
EXPLAIN SQL CREATE MATERIALIZED VIEW big AS SELECT v, at FROM events WHERE v > 4;
CREATE MATERIALIZED VIEW big AS SELECT v, at FROM events WHERE v > 4;
SELECT * FROM big ORDER BY at;
WITH late AS (SELECT v FROM `BIG` WHERE v > 5) SELECT count(*) AS n, count(*) AS n FROM late;
SELECT v FROM events, range(100);
SHOW JOB big;
VERIFY big;
DROP MATERIALIZED VIEW big;
SHOW JOBS;
"""

MISTAKES = [
    ("SELECT nothing FROM events", 2, "BAD_SQL"),
    ("SELECT * FROM nowhere", 2, "BAD_SQL"),
    ("SELECT 1 / (id - id) FROM events", 2, "BAD_SQL"),
    ("REGISTER TABLE x LOCATION 'nowhere' KEY (id)", 2, "UPSTREAM_UNFIT"),
    ("REGISTER TABLE x AS nowhere KEY (id)", 2, "UPSTREAM_UNFIT"),
    ("REGISTER TABLE x LOCATION 'source' KEY (nothing)", 2, "UNSUPPORTED_KEY"),
    ("REGISTER TABLE events LOCATION 'source' KEY (v)", 4, "NAME_TAKEN"),
    ("CREATE REPLICA events FROM events", 4, "NAME_TAKEN"),
    ("CREATE REPLICA x FROM a.b.c", 2, "UNKNOWN_TABLE"),
    ("CREATE MATERIALIZED VIEW x AS SELECT rand() AS s FROM events", 2, "UNSUPPORTED_QUERY"),
    ("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT nothing FROM events", 2, "BAD_SQL"),
]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = spark.sql("SELECT id, id % 7 AS v, timestamp_seconds(id) AS at FROM range(0, 14, 1, 1)")
    frame.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(tmp_path / "source"))
    return tmp_path


def test_a_script_from_the_first_statement_to_the_last(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "script.sql").write_text(SCRIPT)
    assert main(["sql", "-f", "script.sql", "--wait", "--format", "json"]) == 0, capsys.readouterr().err
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    registered, explained, created, live, rows, counts, many, job, verified, dropped, gone, jobs = told
    assert registered["message"] == "table events registered"
    assert (explained["key"], explained["hidden_columns"]) == (["__tf_key_id"], ["__tf_key_id"])
    assert (explained["rows"], explained["chunks"], explained["waits_for"]) == (14, 1, [])
    (read,) = explained["reads"]
    assert (read["name"], read["rows"], read["live"]) == ("events", 14, True)
    assert read["bytes"] > 0
    assert "AS `__tf_key_id`" in explained["sql"]
    assert (created["jobs"], live) == (["big"], [{"job": "big", "state": "live"}])
    assert rows["columns"] == ["v", "at"], "no hidden column"
    assert rows["rows"][0] == [5, "1970-01-01 00:00:05"]
    assert (counts["columns"], counts["rows"]) == (["n", "n"], [[2, 2]])
    assert len(many["rows"]) == 1000
    assert many["message"].startswith("only the first 1000 rows")
    assert ["state", "live"] in job["rows"]
    assert verified["message"].startswith("big: equal to a recompute, 4 rows")
    assert (dropped["message"], gone) == ("big: asked to drop", [{"job": "big", "state": "dropped"}])
    assert jobs["message"] == "no jobs"
    assert list((folder / "lake").iterdir()) == []
    assert not spark.catalog.tableExists("late")


def test_a_mistake_is_one_error_and_makes_nothing(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "REGISTER TABLE events LOCATION 'source' KEY (id)"]) == 0
    capsys.readouterr()
    for sql, code, name in MISTAKES:
        assert main(["sql", sql]) == code, sql
        out, err = capsys.readouterr()
        assert (out, f"[{name}]" in err, "Traceback" in err) == ("", True, False), (sql, out, err)
    spark.sql(f"ALTER TABLE delta.`{folder / 'source'}` SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    assert main(["explain", "CREATE REPLICA x FROM events"]) == 2
    assert "Hint: ALTER TABLE delta." in capsys.readouterr().err
    assert main(["status", "--format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert list((folder / "lake").iterdir()) == []


@pytest.mark.full
def test_with_a_spark_elsewhere(folder: Path, connect_url: str) -> None:
    (folder / "tidefill.toml").write_text(f'[spark]\nremote = "{connect_url}"\n"spark.sql.session.timeZone" = "UTC"\n')
    command = [sys.executable, "-m", "tidefill.cli", "sql", CONNECTED, "--wait", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert (len(rows), rows[0]) == (14, [0, "1970-01-01 00:00:00"])
