"""What a task does with sorted entries: lines for COPY, equal keys told apart, the fence before the load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.postgres.index.harness import Indexed
from tidefill.indexes.next_action import FillChunk
from tidefill.indexes.sorting import Sort
from tidefill.indexes.states import State
from tidefill.postgres.index import copying
from tidefill.postgres.index.copying import Login, Target
from tidefill.postgres.index.spark_sort import target_of
from tidefill.postgres.server import PostgresServer

Make = Callable[..., Indexed]
Rows = Sequence[tuple[str | None, int]]
TARGET = Target(
    Login("postgresql://u:secret@h/d", "a", {}), "", ("ix", 1, 1), "", "", "e", "l", ("k1", "p1"), frozenset({"k1"}),
    ("k1",), ("p1",), nulls_equal=False,
)  # fmt: skip


def batch(rows: Rows, number: int = 0) -> Any:
    keys, primary = [key for key, _ in rows], [str(one) for _, one in rows]
    texts = {"k1": pa.array(keys, pa.string()), "p1": pa.array(primary, pa.string())}
    return pa.RecordBatch.from_pydict({**texts, "range": pa.array([number] * len(rows), pa.int32())})


def primary(rows: Any) -> list[int]:
    return [int(text) for text in rows.column("p1").to_pylist()]


@given(st.lists(st.text(st.sampled_from("\\\t\n\r\0N".replace("\0", "")) | st.characters(), max_size=6), max_size=9))
def test_lines_are_what_copy_reads(texts: list[str]) -> None:
    clean = [text.replace("\0", "") for text in texts]
    rows: Rows = [*((text, at) for at, text in enumerate(clean)), (None, len(clean))]
    sliced = batch([("x", 0), *rows]).slice(1)
    assert read(copying.lines(sliced, TARGET.columns, TARGET.escaped)) == [list(row) for row in rows]


def read(data: bytes) -> list[list[Any]]:
    """What PostgreSQL's manual says of the text format, written another way."""
    signs = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    found = []
    for line in data.decode().split("\n")[:-1]:
        key, number = line.split("\t")
        signs_of = iter(key)
        text = "".join(signs[next(signs_of)] if sign == "\\" else sign for sign in signs_of) if key != "\\N" else None
        found.append([text, int(number)])
    return found


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=6), st.booleans())
def test_equal_keys_are_found_wherever_batches_end(parts: list[list[int]], nulls_equal: bool) -> None:
    keys = sorted(number for part in parts for number in part)
    rows: Rows = [(None if key == 0 else str(key), at) for at, key in enumerate(keys)]
    cut, batches = iter(rows), list[Any]()
    for part in parts:
        batches.append(batch([next(cut) for _ in part]))
    found = list(copying.apart(replace(TARGET, nulls_equal=nulls_equal), iter(batches)))
    single, equal = ([one for each in found for one in primary(each[which])] for which in (0, 1))
    expected = list[int]()
    for key, group in groupby(rows, key=lambda row: row[0]):
        members = [one for _, one in group]
        expected += members if len(members) > 1 and (key is not None or nulls_equal) else []
    assert equal == expected
    assert sorted(single + equal) == list(range(len(rows)))


def test_without_a_key_nothing_is_told_apart() -> None:
    ((single, equal),) = copying.apart(replace(TARGET, key=()), iter([batch([("a", 1), ("a", 2)])]))
    assert (primary(single), primary(equal)) == ([1, 2], [])


def test_a_worker_needs_nothing_of_tidefill() -> None:
    task = cloudpickle.dumps(copying.loads(TARGET))  # type: ignore[no-untyped-call]
    program = (
        "import sys, pickle; sys.modules['tidefill'] = None; load = pickle.loads(sys.stdin.buffer.read()); "
        "print(list(load(iter([]))))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=task, capture_output=True, check=False)
    assert (done.stdout.decode().strip(), done.returncode) == ("[]", 0), done.stderr.decode()


def test_a_worker_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert copying.reaches(TARGET.login) == copying.NO_DRIVER


def test_the_url_is_shown_nowhere() -> None:
    assert "secret" not in repr(TARGET)
    assert "secret" not in copying.reaches(Login("postgresql://u:secret@127.0.0.1:1/d", "a", {}))


# On the server.


def targeted(index: Indexed) -> Target:
    assert index.truth.control is not None
    return target_of(PostgresServer("shop", index.url), index.session, index.truth.control, Sort.SPARK)


def load(target: Target, *parts: tuple[int, Rows]) -> list[tuple[int, int, int, str]]:
    def batches() -> Iterator[Any]:
        for number, rows in parts:
            keys, ids = zip(*rows, strict=True)
            nothing = pa.array([None] * len(rows), pa.string())
            texts = {"k1": pa.array(keys, pa.string()), "p1": pa.array(map(str, ids), pa.string())}
            more = {"p2": pa.array(["0"] * len(rows)), "i1": nothing, "d1": nothing, "d2": nothing}
            yield pa.RecordBatch.from_pydict({**texts, **more, "range": pa.array([number] * len(rows), pa.int32())})

    return list(copying.load_all(target, batches()))


def test_ranges_are_loaded_once_and_suspects_logged(indexed: Make) -> None:
    index = indexed([(1, 0, "a")])
    index.run_before(FillChunk)
    target = targeted(index)
    parts = [(0, [("a", 1), ("b\t\\", 2)]), (1, [("c", 3), ("c", 4), ("d", 5)])]
    assert load(target, *parts) == [(0, 2, 0, ""), (1, 1, 2, "")]
    assert index.sql(f"SELECT k1, p1 FROM {index.shape.entries} ORDER BY 2") == [("a", 1), ("b\t\\", 2), ("d", 5)]
    assert index.sql(f"SELECT p1, p2, had FROM {index.shape.log(1)} ORDER BY 1") == [(3, 0, False), (4, 0, False)]
    assert load(target, *parts) == [(0, 0, 0, copying.SKIPPED), (1, 0, 0, copying.SKIPPED)]
    assert (index.count(), index.count(index.shape.log(1))) == (3, 2)
    counted = "SELECT chunk, rows FROM tidefill.index_chunks WHERE id = %s ORDER BY 1"
    assert index.sql(counted, f"{index.shape.id}/loaded") == [(0, 2), (1, 1)]


def test_a_task_of_an_older_runner_loads_nothing(indexed: Make) -> None:
    index = indexed([(1, 0, "a")])
    index.run_before(FillChunk)
    before = targeted(index)
    index.restart()
    assert load(before, (0, [("a", 1)])) == [(0, 0, 0, copying.FENCED)]
    now = targeted(index)
    index.run_to(State.MERGING)
    assert load(now, (0, [("b", 2)])) == [(0, 0, 0, copying.FENCED)], "of an older step"
    assert index.count() == 1


def test_a_session_that_is_ended_loads_nothing(indexed: Make) -> None:
    index = indexed([(1, 0, "a")])
    index.run_before(FillChunk)
    holder = index.writer()
    holder.execute(f"BEGIN; LOCK TABLE {index.shape.entries} IN SHARE MODE")
    target = targeted(index)
    with index.meanwhile(lambda: load(target, (0, [("a", 1)])), holder.info.backend_pid) as said:
        index.restart()  # ends the sessions of the runner before it
        holder.execute("COMMIT")
    (outcome,) = said
    assert isinstance(outcome, list), outcome
    assert [found[:3] for found in outcome] == [(0, 0, 0)]
    assert outcome[0][3].startswith("57P01"), outcome
    assert index.count() == 0
    assert load(targeted(index), (0, [("a", 1)])) == [(0, 1, 0, "")]
