"""Loads sorted entries into their table by COPY, from Arrow batches. This runs in the tasks of Spark, or in the driver
where a worker has no psycopg.

The functions here reach a worker by value, with the task: a worker needs psycopg, and nothing of Tidefill. So this
module imports nothing of Tidefill either. What the server says comes back as a row and not as an error: an error of a
task would be tried again by Spark, and its text would go through Spark's logs.

A range is one transaction: the control row FOR SHARE, the comparison of fence and step, the checkpoint, then COPY. A
task that is repeated, or belongs to a runner that was taken over, ends before it loads.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

RESULT = "range int, rows bigint, suspects bigint, problem string"
DONE, SKIPPED, FENCED, NO_DRIVER = "", "loaded before", "fenced", "no psycopg"
RANGE = "range"
SUSPECTS_BYTES = 16 << 20
"""Of the primary keys of equal keys, so many bytes are kept in memory, and the rest in a file."""

SPECIAL = r"[\\\t\n\r]"
ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


@dataclass(frozen=True)
class Login:
    """How a session is opened, and its settings by name."""

    url: str
    application: str
    settings: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.application!r})"  # the URL holds a password


@dataclass(frozen=True)
class Target:
    """Where entries go. `held`: a query with `control` (id, fence, step) as its parameters, that locks the control row.
    `checkpoint`: the statement with (range, rows) that notes a range; `counted` corrects its rows. `columns`: of the
    entries; `escaped`: those whose texts COPY escapes. `key`: the columns that two entries may not share, none if equal
    keys are not looked for; `nulls_equal`: two NULLs are equal. `primary`: the columns of the primary key. `log`: where
    suspects are noted."""

    login: Login
    held: str
    control: tuple[str, int, int]
    checkpoint: str
    counted: str
    entries: str
    log: str
    columns: tuple[str, ...]
    escaped: frozenset[str]
    key: tuple[str, ...]
    primary: tuple[str, ...]
    nulls_equal: bool


class _Ended(Exception):
    """This range is not loaded, for that reason."""


def loads(target: Target) -> Any:
    """What `mapInArrow` calls in each task: it loads the ranges of its batches, which lie one behind the other."""

    def load(batches: Iterator[Any]) -> Iterator[Any]:
        for number, rows, suspects, problem in load_all(target, batches):
            made = {RANGE: [number], "rows": [rows], "suspects": [suspects], "problem": [problem]}
            types = [(RANGE, pa.int32()), ("rows", pa.int64()), ("suspects", pa.int64()), ("problem", pa.string())]
            yield pa.RecordBatch.from_pydict(made, schema=pa.schema(types))

    return load


def tries(login: Login) -> Any:
    """The same for one task that only tries whether a worker has psycopg and reaches the server."""

    def attempt(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"problem": [reaches(login)]})

    return attempt


def reaches(login: Login) -> str:
    """DONE if the server answers here, else why not."""
    try:
        import psycopg
    except ImportError:
        return NO_DRIVER
    try:
        _session(login).close()
    except psycopg.Error as error:
        return _told(error)
    return DONE


def load_all(target: Target, batches: Iterator[Any]) -> Iterator[tuple[int, int, int, str]]:
    """Load ranges from batches: of each its number, rows, suspects, and why it was not loaded."""
    import psycopg

    ahead = _Ahead(batches)
    while (number := ahead.range()) is not None:
        rows = suspects = 0
        problem = DONE
        try:
            connection = _session(target.login)
            try:
                rows, suspects = _load(connection, target, number, ahead.of_range(number))
            finally:
                connection.close()
        except _Ended as error:
            problem = str(error)
        except psycopg.Error as error:
            problem = _told(error)
        for _ in ahead.of_range(number):
            continue
        yield number, rows, suspects, problem


def _told(error: Any) -> str:
    """The SQLSTATE and the first line. A connection that was lost has no SQLSTATE: it counts as 08006."""
    lines = str(error).strip().splitlines()
    return f"{error.sqlstate or '08006'} {lines[0] if lines else type(error).__name__}"


class _Ahead:
    """Batches cut at changes of the range. The first batch of a range is there before its transaction begins: a
    transaction that waits for rows is ended by the server."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._next: Any = None

    def range(self) -> int | None:
        """The number of the range that comes next; None at the end."""
        while self._next is None or not self._next.num_rows:
            self._next = next(self._batches, None)
            if self._next is None:
                return None
        return int(self._next.column(RANGE)[0].as_py())

    def of_range(self, number: int) -> Iterator[Any]:
        """The batches of that range that are left."""
        while self.range() == number:
            batch = self._next
            rows = pc.sum(pc.equal(batch.column(RANGE), number)).as_py()
            self._next = batch.slice(rows)
            yield batch.slice(0, rows)


def _session(login: Login) -> Any:
    import psycopg

    connection = psycopg.connect(
        login.url, autocommit=True, application_name=login.application, connect_timeout=10, client_encoding="utf-8"
    )
    for name, value in login.settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    return connection


def _load(connection: Any, target: Target, number: int, batches: Iterator[Any]) -> tuple[int, int]:
    """The rows that were loaded, and the suspects that were logged, in one transaction."""
    from psycopg import errors

    with connection.transaction(), tempfile.SpooledTemporaryFile(SUSPECTS_BYTES) as noted:
        if connection.execute(target.held, target.control).fetchone() is None:
            raise _Ended(FENCED)
        try:
            connection.execute(target.checkpoint, (number, 0))
        except errors.UniqueViolation:
            raise _Ended(SKIPPED) from None
        rows = suspects = 0
        with connection.cursor().copy(f"COPY {target.entries} ({', '.join(target.columns)}) FROM STDIN") as copy:
            for single, equal in apart(target, batches):
                if single.num_rows:
                    copy.write(lines(single, target.columns, target.escaped))
                if equal.num_rows:
                    noted.write(lines(equal, target.primary, target.escaped))
                rows, suspects = rows + single.num_rows, suspects + equal.num_rows
        if suspects:
            _log(connection, target, noted)
        connection.execute(target.counted, (rows, number))
        return rows, suspects


def _log(connection: Any, target: Target, noted: Any) -> None:
    noted.seek(0)
    with connection.cursor().copy(f"COPY {target.log} ({', '.join(target.primary)}) FROM STDIN") as copy:
        while part := noted.read(1 << 20):
            copy.write(part)


def apart(target: Target, batches: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    """Sorted batches, each as those rows whose key no neighbour has, and the others. The last row of a batch is held
    back: the next batch may begin with its key."""
    if not target.key:
        for batch in batches:
            yield batch, batch.slice(0, 0)
        return
    held: Any = None
    is_equal = False
    for batch in batches:
        rows = batch if held is None else pa.concat_batches([held, batch])
        same = pa.concat_arrays([pa.array([is_equal]), _same_as_before(target, rows)])
        last = rows.num_rows - 1
        mask = pc.or_(same.slice(0, last), same.slice(1, last))
        yield rows.slice(0, last).filter(pc.invert(mask)), rows.slice(0, last).filter(mask)
        held, is_equal = rows.slice(last), same[last].as_py()
    if held is not None:
        nothing = held.slice(0, 0)
        yield (nothing, held) if is_equal else (held, nothing)


def _same_as_before(target: Target, rows: Any) -> Any:
    """Of each row but the first: whether the row before it has its key."""
    found: Any = None
    for name in target.key:
        one = rows.column(name).slice(1)
        other = rows.column(name).slice(0, rows.num_rows - 1)
        equal = pc.fill_null(pc.equal(one, other), False)
        if target.nulls_equal:
            equal = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))
        found = equal if found is None else pc.and_(found, equal)
    return found


def lines(rows: Any, columns: tuple[str, ...], escaped: frozenset[str]) -> bytes:
    """The rows as COPY reads them, made by Arrow, column by column."""
    texts = [_field(rows.column(name).cast(pa.large_string()), name in escaped) for name in columns]
    tab, end, nothing = (pa.scalar(sign, pa.large_string()) for sign in ("\t", "\n", ""))
    line = pc.binary_join_element_wise(*texts, tab)
    ended = pc.binary_join_element_wise(line, nothing, end)
    _, offsets, data = ended.buffers()
    first, last = (int.from_bytes(offsets[8 * at : 8 * at + 8].to_pybytes(), "little") for at in (0, len(ended)))
    made: bytes = data.slice(first, last - first).to_pybytes()
    return made


def _field(texts: Any, may_be_special: bool) -> Any:
    if may_be_special and pc.any(pc.match_substring_regex(texts, SPECIAL)).as_py():
        for sign, escape in ESCAPES:
            texts = pc.replace_substring(texts, sign, escape)
    return pc.fill_null(texts, "\\N")
