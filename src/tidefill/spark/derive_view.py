"""Queries over several tables, or over groups of rows: the statements of a compiled plan, run by Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType
from sqlglot import exp

from tidefill.core.keys import Key, Value
from tidefill.core.state import Occurrence
from tidefill.core.step import Shape
from tidefill.errors import UpstreamReplaced
from tidefill.ports.frames import Changes, Judged, Merge
from tidefill.spark.coverage import collectable, key_of, key_types, literal
from tidefill.spark.derive_rows import same
from tidefill.spark.faults import translated
from tidefill.spark.judge import COMPILED, by_text
from tidefill.spark.keeping import Kept
from tidefill.spark.names import quoted
from tidefill.spark.session import small_step, without_constraint_propagation
from tidefill.spark.weights import came, weighted, went
from tidefill.views.plan.drivers import Drivers
from tidefill.views.plan.limits import NOTHING_KNOWN, Reading, rows_asked
from tidefill.views.plan.plan import TARGET, ViewPlan
from tidefill.views.plan.statement import Script
from tidefill.views.reading.dialect import Verbatim

LARGE_BYTES = 8 << 20
_NAMES = re.compile(r"`(__tf_\w+)`")


NO_CONSTANTS: Mapping[str, str] = {}


def statement(
    session: SparkSession,
    query: exp.Query,
    inputs: Mapping[str, DataFrame],
    constants: Mapping[str, str] = NO_CONSTANTS,
) -> DataFrame:
    """What the query gives, where `__tf_...` are these frames and constants. The names are known to this statement
    only."""
    text = query.sql(dialect=Verbatim).replace("{", "{{").replace("}", "}}")
    needed = inputs.keys() & set(_NAMES.findall(text))
    frames: dict[str, Any] = {name: inputs[name] for name in needed}
    known = {**constants, **{name: f"{{{name}}}" for name in needed}}
    return session.sql(_NAMES.sub(lambda found: known.get(found[1], found[0]), text), **frames)


class View:
    """`empty`: the inputs without rows, by occurrence; `target`: the view as it is. `small`: the same, if it has so few
    rows that they are at hand. `sizes`: of the table that an occurrence reads, in bytes. `text`: the query as the user
    wrote it."""

    def __init__(
        self,
        session: SparkSession,
        plan: ViewPlan,
        drivers: Drivers,
        empty: Mapping[Occurrence, DataFrame],
        target: Callable[[], DataFrame],
        sizes: Callable[[Occurrence], int] = lambda name: 0,
        *,
        text: str,
        small: Callable[[], DataFrame | None] = lambda: None,
    ) -> None:
        self._session = session
        self._plan = plan
        self._empty = dict(empty)
        self._target = target
        self._small = small
        self._kept = Kept()
        self._last: tuple[tuple[frozenset[Occurrence], Reading], Script] | None = None
        self._sizes = sizes
        self._text = text
        self.shape = Shape(
            tables={scan.occurrence: scan.table for scan in plan.scans},
            walked=drivers.occurrences,
            appends=drivers.appends,
            group_columns=drivers.group_columns,
            starts_empty=drivers.starts_empty,
        )

    def append(self, rows: Mapping[Occurrence, DataFrame], whole: Mapping[Occurrence, DataFrame]) -> DataFrame:
        """The outputs of the chunks alone: what else is walked has had its turn, or will have it."""
        return self.whole({name: rows.get(name, whole.get(name, empty)) for name, empty in self._empty.items()})

    def whole(self, rows: Mapping[Occurrence, DataFrame]) -> DataFrame:
        """The outputs of everything."""
        return statement(self._session, self._plan.whole(), self._named("new", rows))

    @contextmanager
    def judged(self, rows: Mapping[Occurrence, DataFrame]) -> Iterator[Judged[DataFrame]]:
        """By the user's text, in which what it leaves open is settled as the plan does."""
        settled = self._plan.settled
        if settled.reason:
            yield Judged(self.whole(rows), notes=(f"{COMPILED}{settled.reason}",))
            return
        unseen = map(quoted, dict.fromkeys((*self._plan.key, *self._plan.hidden)))
        hidden = self.whole(rows).select(*unseen) if self._plan.hidden else None
        sql = self._text if settled.query is None else settled.query.sql(dialect=Verbatim)
        tables = {self.shape.tables[name]: frame for name, frame in rows.items()}
        with by_text(self._session, sql, tables) as found:
            yield Judged(found, hidden, settled.notes)

    def with_chunk(self, changes: Changes[DataFrame] | None, chunk: DataFrame) -> Changes[DataFrame]:
        """The chunk's rows among those that came."""
        new = weighted(chunk, 1)
        if changes is None:
            return Changes(new, images=True, is_chunk=True, removes=False)
        return Changes(changes.rows.unionByName(new), images=True)

    def nothing(self) -> DataFrame:
        """Outputs without rows. (An aggregate without groups has one always.)"""
        return self.whole(self._empty).where("false")

    def changes(
        self, changes: Mapping[Occurrence, Changes[DataFrame]], new: Mapping[Occurrence, DataFrame]
    ) -> Merge[DataFrame]:
        """By the plan's script for just the inputs that changed. What is asked for more than once is computed here, so
        that Spark need not plan and compute it each time; the last of it is planned here, and the target's to keep."""
        assert all(change.images for change in changes.values()), "a view needs both images of a change"
        self._kept.let_go()
        few = all(change.few for change in changes.values())
        small = self._small() if few and self._plan.reads_target else None
        script = self._script(changes, small_target=small is not None)
        once = small is not None and self._plan.reads_changes_once
        deltas = {name: change.rows if once else self._delta(change) for name, change in changes.items()}
        inputs = self._named("delta", deltas)
        inputs |= self._inputs(script, new, deltas)
        if self._plan.reads_target:
            inputs[TARGET] = self._target() if small is None else small
        constants: dict[str, str] = {}
        with translated():
            for stage in script.stages:
                with small_step(self._session, few and not _reads_inputs(stage.query)):
                    if stage.limits:
                        values = self._limits(stage.query, inputs, constants, few=few)
                        constants |= dict(zip(stage.limits, values, strict=True))
                        continue
                    found = statement(self._session, stage.query, inputs, constants)
                    inputs[stage.name] = self._kept.keep_few(found) if few else self._kept.keep(found)
            last = statement(self._session, script.last, inputs, constants)
            if _reads_inputs(script.last):
                return Merge(self._kept.plan(last), exact=True, few=few)
            if small is not None:
                return Merge(last, exact=True, few=few)
            with without_constraint_propagation(self._session), small_step(self._session, few):
                return Merge(self._kept.plan(last), exact=True, few=few)

    def _limits(
        self, query: exp.Query, inputs: Mapping[str, DataFrame], constants: Mapping[str, str], *, few: bool
    ) -> list[str]:
        """What the query gives, as constants in SQL. Over a few rows that are at hand no job is started for it."""
        if not few or _reads_inputs(query):
            return _constants(statement(self._session, query, inputs, constants))
        rows, columns = rows_asked(query)
        found = statement(self._session, rows, inputs, constants)
        return _extremes(found) if columns else [str(bool(found.collect())).lower()]

    def _script(self, changes: Mapping[Occurrence, Changes[DataFrame]], *, small_target: bool) -> Script:
        """The plan's script for these inputs; mostly the one of the step before."""
        chunks = any(change.is_chunk for change in changes.values())
        reading = replace(NOTHING_KNOWN if chunks else self._reading(), small_target=small_target)
        asked = frozenset(changes), reading
        if self._last is None or self._last[0] != asked:
            self._last = asked, self._plan.changes(changes, reading)
        return self._last[1]

    def _inputs(
        self, script: Script, new: Mapping[Occurrence, DataFrame], deltas: Mapping[Occurrence, DataFrame]
    ) -> dict[str, DataFrame]:
        """The inputs as they are and as they were, as far as the script reads them: each costs a look at its table."""
        read = {table.name for query in script.queries for table in query.find_all(exp.Table)}
        found: dict[str, DataFrame] = {}
        for number, scan in enumerate(self._plan.scans):
            name, is_now, was = scan.occurrence, f"__tf_new_{number}", f"__tf_old_{number}"
            if is_now in read or was in read:
                found[is_now] = new[name]
            if was in read and name in deltas:
                found[was] = self._before(name, deltas[name], found[is_now])
        return found

    def let_go(self) -> None:
        """Keep nothing of the last changes in Spark's memory."""
        self._kept.let_go()

    def _reading(self) -> Reading:
        """What is small is read whole sooner than limits are found for it."""
        types, large = dict[str, str](), set[str]()
        for scan in self._plan.scans:
            schema = self._empty[scan.occurrence].schema
            for column, source in zip(scan.columns, scan.sources, strict=True):
                types[column] = schema[source].dataType.simpleString()
            if self._sizes(scan.occurrence) >= LARGE_BYTES:
                large.update(scan.columns)
        return Reading(types, large)

    def _delta(self, change: Changes[DataFrame]) -> DataFrame:
        """Changes are few. A chunk is as large as a chunk is, and is read once."""
        if change.few:
            with translated(UpstreamReplaced), small_step(self._session, change.few):
                return self._kept.keep_few(change.rows)
        if change.kept or change.is_chunk:
            return change.rows
        with translated(UpstreamReplaced):
            return self._kept.keep(change.rows)

    def _before(self, name: Occurrence, delta: DataFrame, new: DataFrame) -> DataFrame:
        """What the input was: what it is, without what came, with what went. Files of the old version may be gone."""
        (scan,) = (scan for scan in self._plan.scans if scan.occurrence == name)
        key = [source for column, source in zip(scan.columns, scan.sources, strict=True) if column in scan.key]
        return new.alias("o").join(came(delta).alias("n"), same(key), "left_anti").unionByName(went(delta))

    def _named(self, what: str, frames: Mapping[Occurrence, DataFrame]) -> dict[str, DataFrame]:
        numbers = {scan.occurrence: number for number, scan in enumerate(self._plan.scans)}
        return {f"__tf_{what}_{numbers[name]}": frame for name, frame in frames.items()}


def _reads_inputs(query: exp.Query) -> bool:
    """And not only changes, what was computed from them, and the target: then bounds that hold for one input may hold
    for another."""
    return any(table.name.startswith(("__tf_new_", "__tf_old_")) for table in query.find_all(exp.Table))


def _constants(limits: DataFrame) -> list[str]:
    """The values of its one row, as constants in SQL."""
    types, (row,) = _collected(limits)
    return [_constant(value, kind) for value, kind in zip(row.values, types, strict=True)]


def _extremes(rows: DataFrame) -> list[str]:
    """The least and the greatest value of each column, as constants in SQL. Keys have the order that Spark has."""
    types, found = _collected(rows)
    ends: list[str] = []
    for at, kind in enumerate(types):
        there = [Key((row.values[at],)) for row in found if row.values[at] is not None]
        least, greatest = (min(there), max(there)) if there else (Key((None,)), Key((None,)))
        ends += [_constant(least.values[0], kind), _constant(greatest.values[0], kind)]
    return ends


def _collected(rows: DataFrame) -> tuple[Sequence[DataType], list[Key]]:
    types = key_types(rows.schema, rows.columns)
    return types, [key_of(tuple(row), types) for row in rows.select(*collectable(rows.columns, types)).collect()]


def _constant(value: Value, kind: DataType) -> str:
    return "NULL" if value is None else literal(value, kind)
