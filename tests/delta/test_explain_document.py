"""What EXPLAIN tells a person and a program, without a Spark that could be asked."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from sqlglot import exp

from tests.cli.stores import REPLICA, VIEW, made
from tests.views.incremental.world import find
from tidefill.cli import main
from tidefill.cli.render import tables
from tidefill.delta.explain_document import (
    Explanation,
    explanation,
    facts,
    generated_sql,
)
from tidefill.delta.explain_result import Explained
from tidefill.delta.inputs import Size
from tidefill.engine.engine import Engine
from tidefill.jobs.definitions import (
    FullViewDefinition,
    Part,
    PlannedViewDefinition,
    ServerReplicaDefinition,
)
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.row import Settings
from tidefill.views.plan.drivers import choose
from tidefill.views.plan.plan import compile_view

V = StructType([StructField("v", LongType())])
ROW_WISE = Explained(
    replace(VIEW, where="v > 1"), True, 12_000_000, V, inputs=(Size("events", 12_000_000, 3 << 29),)
)  # fmt: skip
ORDERS = ServerReplicaDefinition("shop.public.orders", ("id",), "the primary key", "shop")


def told(explained: Explained, chunk_rows: int | None = None, *, with_sql: bool = False) -> Explanation:
    return explanation("x", explained, Settings(chunk_rows=chunk_rows), with_sql=with_sql)


def read(explained: Explained, chunk_rows: int | None = None) -> dict[str, object]:
    return dict(facts(told(explained, chunk_rows), explained.definition))


def compiled(sql: str, **rows: int | None) -> Explained:
    """As the lake does it; a table without rows is not live. The types are none that Spark would give."""
    tree = sqlglot.parse_one(sql, read="spark")
    assert isinstance(tree, exp.Query)
    names = [select.alias_or_name for select in tree.selects]
    plan = compile_view(tree, find, names, lambda query, _: ["int"] * len(query.selects))
    drivers = choose(plan.root, {scan.occurrence: rows[scan.table] or 0 for scan in plan.scans})
    walked = dict.fromkeys(drivers.occurrences, (("id",), "the files follow id"))
    parts = tuple(
        Part(scan.occurrence, scan.table, tuple((name, "int") for name in scan.sources), scan.key,
             *walked.get(scan.occurrence, ()))
        for scan in plan.scans
    )  # fmt: skip
    columns = tuple((name, "int") for name in (*names, *plan.hidden))
    definition = PlannedViewDefinition(sql, plan.key, columns, parts)
    total = sum(rows[part.table] or 0 for part in parts if part.walk)
    sizes = tuple(
        Size(name, live=False) if rows[name] is None else Size(name, rows[name], 2000) for name in definition.tables
    )
    schema = StructType([StructField(name, IntegerType()) for name in names])
    return Explained(definition, drivers.appends, total, schema, plan.notices, plan, drivers, sizes)


GROUPS = "SELECT a.g, count(*) AS n FROM a JOIN b ON a.id = b.aid WHERE b.y > 1 GROUP BY a.g"


def test_a_query_row_by_row() -> None:
    assert read(ROW_WISE) == {
        "makes": "materialized view x",
        "reads": "events: about 12,000,000 rows, 1.5 GB",
        "columns": "v bigint",
        "key": "id (kept in hidden columns)",
        "hidden columns": "__tf_key_id",
        "kept fresh": "incrementally: changed rows are computed from changed rows",
        "recomputed": "in place of a step, where that took less time before (refresh = auto)",
        "plan": "filter: row by row\n  events as events: id, v",
        "filled": "each chunk is appended",
        "walk": "id: the key",
        "estimated rows": 12_000_000,
        "rows in a chunk": "4,000,000 at first, then by the time that one takes",
        "chunks": "at most about 3",
    }


def test_a_compiled_query() -> None:
    found = read(compiled(GROUPS, a=1_000, b=20_000_001))
    assert found["reads"] == "a: about 1,000 rows, 2 kB\nb: about 20,000,001 rows, 2 kB"
    assert (found["columns"], found["key"]) == ("g int, n int", "g")
    assert str(found["hidden columns"]).startswith("__tf_")
    assert found["kept fresh"] == "incrementally: hidden counts and sums are kept"
    assert found["plan"] == "\n".join(
        [
            "groups by 1: counts and sums",
            "  join of 2: the changed rows of each with the others",
            "    a as a: id, g",
            "    filter: row by row",
            "      b as b: id, aid, y",
        ]
    )
    assert found["filled"] == "each chunk is merged into what is there"
    assert (found["walk"], found["taken whole"]) == ("b: id: the files follow id", "a")
    assert (found["estimated rows"], found["rows in a chunk"], found["chunks"]) == (20_000_001, "5,000,001", 4)


def test_what_is_computed_anew() -> None:
    sql = "SELECT v FROM events GROUP BY CUBE (v)"
    columns = (("v", "bigint"),)
    definition = FullViewDefinition(sql, columns, (Part("events", "events", columns, ()),))
    explained = Explained(definition, True, 70, V, inputs=(Size("events", 70, 2000),))
    assert read(explained) == {
        "makes": "materialized view x",
        "reads": "events: about 70 rows, 2 kB",
        "columns": "v bigint",
        "key": "not known: nobody can follow the changes of its rows",
        "kept fresh": "computed from nothing when its inputs have changed, at most as often as target_lag says",
    }
    found = told(explained, with_sql=True)
    assert (found.incremental, found.strategy, found.walks, found.rows, found.sql) == (False, "anew", (), None, sql)


def test_a_table_that_is_small_is_one_query() -> None:
    small = replace(ROW_WISE, rows=70, inputs=(Size("events", 70, 2000),))
    assert read(small)["rows in a chunk"] == "all of them, by one query"
    assert read(small, 60)["rows in a chunk"] == "60"
    server = Explained(ORDERS, True, 70, V, inputs=(Size("shop.public.orders", 70),))
    assert read(server)["rows in a chunk"] == "5,000,000 at first, then by the time that one takes"


def test_a_replica_of_another_database() -> None:
    found = read(Explained(ORDERS, True, 70, V, ("a notice",), inputs=(Size("shop.public.orders", 70),)))
    assert (found["makes"], found["reads"]) == ("replica x", "shop.public.orders: about 70 rows")
    assert found["kept fresh"] == "incrementally: the log tells which rows changed, and those are read"
    assert (found["walk"], found["notice"]) == ("id: the primary key", "a notice")
    assert "plan" not in found
    assert "hidden columns" not in found
    assert "recomputed" not in found


def test_a_chunk_of_a_given_size() -> None:
    found = read(ROW_WISE, 1_000_000)
    assert (found["rows in a chunk"], found["chunks"]) == ("1,000,000", 12)
    document = told(ROW_WISE, 1_000_001)
    assert (document.chunk_rows, document.chunk_rows_fixed, document.chunks) == (1_000_001, True, 12)


def test_what_is_not_live_is_waited_for() -> None:
    one = replace(ROW_WISE, rows=0, inputs=(Size("events", live=False),))
    found = read(one)
    assert (found["reads"], found["waits for"]) == ("events", "events: not live yet")
    assert found["estimated rows"] == "not known yet"
    assert "chunks" not in found
    assert (told(one).waits_for, told(one).rows, told(one).chunks) == (("events",), None, None)


def test_only_what_is_walked_has_to_be_known_for_an_estimate() -> None:
    small = told(compiled(GROUPS, a=1_000, b=None))
    assert (small.waits_for, small.walks[0].table, small.rows) == (("b",), "a", 1_000)
    assert told(compiled("SELECT b.y, count(*) AS n FROM b GROUP BY b.y", b=None)).rows is None


@pytest.mark.parametrize(
    ("explained", "strategy", "reason", "nodes", "appends", "taken_whole"),
    [
        (ROW_WISE, "changes", "", ["filter", "events as events"], True, ()),
        (Explained(REPLICA, True, 5, V), "changes", "", ["events as events"], True, ()),
        (Explained(ORDERS, True, 5, V), "changes", "", ["shop.public.orders as shop.public.orders"], True, ()),
        (compiled(GROUPS, a=1, b=2), "sums", "", ["groups by 1", "join of 2", "a as a", "filter", "b as b"], False,
         ("a",)),
        (compiled("SELECT g, count(*) AS n FROM a GROUP BY g HAVING count(*) > 1", a=1), "groups",
         "a condition looks at the whole group", ["filter", "groups by 1", "a as a"], False, ()),
    ],
)  # fmt: skip
def test_the_document_has_the_same_fields_for_all(
    explained: Explained, strategy: str, reason: str, nodes: list[str], appends: bool, taken_whole: tuple[str, ...]
) -> None:
    document: dict[str, Any] = json.loads(as_json(told(explained)))
    assert sorted(document) == sorted(field.name for field in fields(Explanation)) == FIELDS
    assert (document["incremental"], document["strategy"], document["reason"]) == (True, strategy, reason)
    assert [node["what"] for node in document["nodes"]] == nodes
    assert sorted(document["nodes"][0]) == ["depth", "how", "what"]
    assert [sorted(walk) for walk in document["walks"]] == [["columns", "input", "reason", "table"]]
    assert (document["appends"], tuple(document["taken_whole"]), document["sql"]) == (appends, taken_whole, None)
    assert "SELECT" in (told(explained, with_sql=True).sql or "")


FIELDS = [
    "appends", "at_once", "chunk_rows", "chunk_rows_fixed", "chunks", "columns", "hidden_columns", "how", "incremental",
    "key", "kind", "laid_out_by", "name", "nodes", "notices", "reads", "reason", "recomputes", "rows", "slots_left",
    "sql", "starts_empty", "strategy", "taken_whole", "unique", "waits_for", "walks", "whole_groups",
]  # fmt: skip
"""Programs read them: one may be added, and none renamed."""


def test_it_fits_on_a_narrow_terminal() -> None:
    for one in (ROW_WISE, compiled(GROUPS, a=1, b=None)):
        assert all(len(line) <= 80 for line in tables.facts(read(one).items(), 80).splitlines())


def test_as_json_and_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path).close()
    monkeypatch.setattr(Engine, "explain_view", lambda engine, sql, **settings: ROW_WISE)
    statement = "CREATE MATERIALIZED VIEW big WITH (chunk_rows = 6000000) AS SELECT v FROM events WHERE v > 1"
    assert main(["explain", statement, "--sql", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["kind"], document["chunks"]) == ("big", "materialized view", 2)
    assert document["reads"] == [{"name": "events", "rows": 12_000_000, "bytes": 3 << 29, "live": True}]
    assert document["columns"] == [{"name": "v", "type": "bigint"}]
    assert document["sql"].startswith("SELECT\n  v")
    assert main(["sql", f"EXPLAIN {statement}"]) == 0
    out = capsys.readouterr().out
    assert "reads            events: about 12,000,000 rows, 1.5 GB\n" in out
    assert "generated SQL" not in out


def test_generated_sql() -> None:
    assert generated_sql(VIEW) == "SELECT\n  v,\n  `events`.`id` AS `__tf_key_id`\nFROM `events` AS `events`"
    assert generated_sql(replace(VIEW, columns=(("v", "v"),), where="v > 1", alias="e")) == (
        "SELECT\n  v\nFROM `events` AS `e`\nWHERE v > 1"
    )
    assert generated_sql(REPLICA) == "SELECT\n  *\nFROM `events` AS `events`"


def test_what_a_job_would_do_reads_like_explain() -> None:
    shown = repr(ROW_WISE)
    assert "reads            events: about 12,000,000 rows, 1.5 GB\n" in shown
    assert "StructType" not in shown
    assert "<td>events: about 12,000,000 rows" in ROW_WISE._repr_html_()
    loud = replace(ROW_WISE, notices=("<script>alert(1)</script>",))
    assert "<script>" not in loud._repr_html_()
