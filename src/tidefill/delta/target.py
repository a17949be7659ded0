"""A Delta table as a target: one commit a step that carries the payload; the first one makes the table.

| changes | commit |
|---|---|
| a chunk, or nothing but new rows: above all that is there, or said to be new (`fresh`) | an append |
| up to some 10,000 keys | an overwrite of the rows that have one of these keys (replaceWhere) |
| the same, of an upstream that names the keys (`Put`) | the same overwrite, without a look at the changes before |
| up to so many, and all of them go | a DELETE |
| a few, of a table of few rows whose changes nobody reads | an overwrite with the rows in memory (`small_target`) |
| more | a MERGE |
| everything | an overwrite |
| everything, of a table whose changes somebody reads | one of the above with the rows that differ (`difference`) |

Delta skips a transaction number that it has seen, in silence; so the caller reads the log back. The log is the truth:
`log` tells what each commit did to the data, by its operation.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import assert_never
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from tidefill.core.after_commit import AfterCommit
from tidefill.core.confirm import NO_TABLE, Counts, Entry, Payload, payload_to_text
from tidefill.core.keys import Key
from tidefill.core.walk import Range
from tidefill.delta import catalog
from tidefill.delta.carrying import carrying
from tidefill.delta.changed_keys import ChangedKeys, changed_keys
from tidefill.delta.comparing import compared
from tidefill.delta.difference import difference, tells_apart
from tidefill.delta.history import wall_clock_s
from tidefill.delta.layout import Layout
from tidefill.delta.log.commits import entry_of
from tidefill.delta.log.table_log import TableLog
from tidefill.delta.merging import Counted, counted, merge_sql
from tidefill.delta.other_rows import OtherRows
from tidefill.delta.small_target import SmallTarget
from tidefill.delta.tidying import Tidying
from tidefill.delta.touched_keys import TouchedKeys
from tidefill.errors import (
    RetryLater,
    TargetTouched,
    TidefillError,
    UnknownTable,
    Unreadable,
    UnsupportedKey,
    UpstreamReplaced,
)
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Append, Compared, Merge, Put, Replace, TargetWrite
from tidefill.spark.coverage import key_types, literal
from tidefill.spark.coverage import within as is_within
from tidefill.spark.derive_rows import same
from tidefill.spark.faults import translated
from tidefill.spark.keeping import Kept
from tidefill.spark.names import HIDDEN, MARK, quoted, table_at
from tidefill.spark.session import small_step, without_constraint_propagation
from tidefill.spark.weights import went
from tidefill.spark.widening import holds, widened

PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.autoOptimize.autoCompact": "false",
}
NO_OPTIONS: Mapping[str, str] = {}


class DeltaTarget:
    """The table of one generation at a path of its own. The frames it is given come from the job's own session: the
    settings of that session carry the payload of a MERGE. `rounded`: columns that a recompute gives but for the last
    digits. Without a key it is only ever replaced. `order`: columns by which its files are laid out. `place`: columns
    by which a range of a comparison is told, if that is not the key. `fixed`: columns that no change of a row may
    change: another value of them is another row. `job_id`: the job whose earlier views in the catalog it may replace.
    """

    def __init__(
        self,
        session: SparkSession,
        path: str,
        schema: StructType,
        key: Sequence[str],
        name: str,
        *,
        rounded: Sequence[str] = (),
        order: Sequence[str] = (),
        place: Sequence[str] = (),
        fixed: Sequence[str] = (),
        job_id: str = "",
        now_s: Callable[[], float] = wall_clock_s,
    ) -> None:
        self._spark = session
        self._path = path
        self._log = TableLog(session, path)
        self._small = SmallTarget(session, path, key, self._log)
        self._upper = AfterCommit[Key]()
        self._kept = Kept()
        self._schema = schema
        self._key = tuple(key)
        self._name = name
        self._rounded = tuple(rounded)
        self._place = tuple(place or key)
        self._others = OtherRows(session, path, key, fixed) if fixed else None
        self._job_id = job_id
        self._is_published = False
        self._layout = Layout(tuple(order)) if order else None
        self.touched = TouchedKeys(order)
        self._clustering = "" if self._layout is None else self._layout.clause(schema)
        self._tidying = Tidying(session, path, self._log, now_s, clustering=self._clustering)
        self.resources: tuple[Resource, ...] = (Resource("path", path), Resource("view", f"{name}@{path}"))

    @property
    def _table(self) -> str:
        return table_at(self._path)

    def prepare(self) -> None:
        """The columns that it should have, if it is there."""
        wanted = self._schema
        try:
            self._look()
        except UnknownTable:
            return
        with translated():
            gone = [name for name in self._schema.fieldNames() if name not in wanted.fieldNames()]
            if gone:
                raise UpstreamReplaced(
                    f"{self._name} has a column {gone[0]}, its input has none any more",
                    hint="RESYNC the job to build it anew without the column.",
                )
            self._follow(wanted)

    def _follow(self, wanted: StructType) -> None:
        """The columns that the query gained, and the types that became wider, before the commit that needs them: that
        leaves the data alone."""
        known = {field.name: field.dataType for field in self._schema}
        new = [field for field in wanted if field.name not in known]
        wider = [field for field in wanted if not holds(known.get(field.name, field.dataType), field.dataType)]
        if new:
            self._alter(f"ADD COLUMNS ({StructType(new).toDDL()})")
        if wider:
            self._alter("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        for field in wider:
            self._alter(f"ALTER COLUMN {quoted(field.name)} TYPE {field.dataType.simpleString()}")
        if new or wider:
            self._small.forget()
            self._look()
            if self._is_published:
                self.publish()

    def _look(self) -> None:
        """Which columns it has, as the head of its log says; UnknownTable if it is not there."""
        with self._translated(UnknownTable):
            self._schema = self._spark.read.format("delta").load(self._path).schema

    def _alter(self, change: str) -> None:
        self._spark.sql(f"ALTER TABLE {self._table} {change}")

    def log(self, since: int | None = None) -> Sequence[Entry]:
        """The table's log, oldest commit first; mostly the newest commits will do."""
        found = self._read_log(since)
        self._small.judge(found)
        self._upper.judge(found)
        return found

    def small(self) -> DataFrame | None:
        """The rows as of the log that was read last, as constants of a statement; None if there are more than a few."""
        return self._small.frame(self._schema)

    def _read_log(self, since: int | None) -> Sequence[Entry]:
        with suppress(UnknownTable), self._translated(UnknownTable):
            if since is not None:
                recent = list(map(entry_of, self._log.since(max(0, since))))
                if any(entry.payload is not None for entry in recent):
                    return recent
            return list(map(entry_of, self._log.all()))
        return []

    @contextmanager
    def _translated(self, missing: type[TidefillError] = TargetTouched) -> Iterator[None]:
        """Files of our own that are gone were removed by a stranger; others are the upstream's affair."""
        try:
            with translated(missing):
                yield
        except Unreadable as error:
            if self._path in unquote(error.detail):
                raise TargetTouched("files of the target are gone", detail=error.detail, hint=error.hint) from error
            raise

    def _refuse_missing(self) -> None:
        """A commit to a path without a table would make one."""
        try:
            self._look()
        except UnknownTable as error:
            raise TargetTouched("the target is gone", detail=error.detail, hint="RESYNC the job.") from error

    def commit(self, write: TargetWrite[DataFrame], payload: Payload) -> None:
        """One commit; the change set of a MERGE is evaluated once and kept while it is counted and written."""
        self.touched.forget()
        if payload.planned_on == NO_TABLE:
            if not isinstance(write, Merge) and not self._clustering:
                self._write_all(_bare(write.rows), "error", payload)
                return
            self._make()
            write = write if isinstance(write, Merge) else Append(write.rows)
        self._refuse_missing()
        match write:
            case Append(rows):
                self._write_all(rows, "append", payload)
            case Replace(rows, read):
                if read and self._key and tells_apart(self._schema):
                    self._replace_changed(rows, payload)
                else:
                    self._write_all(rows, "overwrite", payload)
            case Merge():
                self._merge(write, payload)
            case Put(keys, rows):
                self._put(keys, rows, payload)
            case never:
                assert_never(never)

    def _make(self) -> None:
        """The empty table, for a MERGE needs one, and only a statement can say how its files are laid out."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        columns = self._schema.toDDL()
        with translated():
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING delta{self._clustering} "
                f"TBLPROPERTIES ({properties})"
            )

    def tidy(self, *, read: bool, vacuum: bool) -> None:
        """Before the commit and not after it, so that the newest commit is the one that carries the state."""
        with suppress(RetryLater, TargetTouched), self._translated():
            self._tidying.optimize()
            if vacuum and self._tidying.vacuum_is_due():
                self._tidying.vacuum(read=read)

    def _write_all(self, rows: DataFrame, mode: str, payload: Payload) -> None:
        """Any number of rows, in the order in which the files shall lie."""
        if self._layout is None:
            self._write(rows, mode, payload)
        else:
            self._write(self._layout.ordered(rows), mode, payload, self._layout.options)

    def _write(self, rows: DataFrame, mode: str, payload: Payload, options: Mapping[str, str] = NO_OPTIONS) -> None:
        """In the mode "error" it makes the table."""
        with self._translated():
            unmarked = rows.drop(MARK)
            if mode != "error":
                self._follow(unmarked.schema)
                unmarked = widened(unmarked, self._schema)
            (
                unmarked.write.format("delta")
                .mode(mode)
                .options(**options, **PROPERTIES if mode == "error" else NO_OPTIONS)
                .option("txnAppId", payload.generation_uuid)
                .option("txnVersion", payload.state.step)
                .option("userMetadata", payload_to_text(payload))
                .save(self._path)
            )

    def _merge(self, write: Merge[DataFrame], payload: Payload) -> None:
        """Few changes replace the rows that have their keys; more are merged. The change set is evaluated once, and
        kept while its keys are collected and its rows are written."""
        with self._translated(), small_step(write.changes.sparkSession, write.few):
            if write.fresh:
                self._write(write.changes, "append", payload)
                return
            self._follow(write.changes.drop(MARK).schema)
            self.touched.collect(write.touched, self._schema)
            change = self._small.changed(write.changes, self._schema) if write.few and write.exact else None
            if change is None:
                self._merge_by_key(write, payload)
                return
            if not change.changes.num_rows:
                self._write(
                    self._small.marked_rows(change, self._schema), "append", replace(payload, expected=Counts())
                )
            elif write.read:
                self._merge_by_key(replace(write, changes=self._small.marked_rows(change, self._schema)), payload)
            else:
                carried = replace(payload, expected=Counts(inserted=change.after.num_rows))
                self._write(self._small.all_rows(change, self._schema), "overwrite", carried)
            self._small.keep(payload.commit_uuid, change)

    def _replace_changed(self, rows: DataFrame, payload: Payload) -> None:
        """Write those rows that differ from what the table has, and delete what is not among the rows."""
        with self._translated():
            self._follow(rows.schema)
            found = self._spark.read.format("delta").load(self._path)
            changes = difference(widened(rows, self._schema), found, self._key)
        self._merge(Merge(changes, exact=True, read=True), payload)

    def _put(self, keys: tuple[Key, ...], rows: DataFrame, payload: Payload) -> None:
        """Rows in place of those with these keys."""
        with self._translated(), small_step(rows.sparkSession, True):
            if not keys:
                self._write(rows, "append", payload)
                return
            changed = ChangedKeys(keys, Counts(), self._key, tuple(key_types(self._schema, self._key)))
            with without_constraint_propagation(rows.sparkSession):
                self._write(rows, "overwrite", payload, {"replaceWhere": changed.named()})

    def _merge_by_key(self, write: Merge[DataFrame], payload: Payload) -> None:
        """Few changes with exact marks come from a Delta table whose log says that they are light: the driver can hold
        them. Rows of a server and messages may be few and large, so Spark keeps those."""
        light = write.few and write.exact
        kept = self._kept.keep_few(write.changes) if light else write.changes.cache()
        try:
            keys = self._keys_of(kept)
            if self._others is not None:
                self._others.refuse(kept, keys)
            rows = kept.coalesce(1) if light else kept  # constants are spread over all cores
            if keys is None or not self._write_few(rows, keys, payload, exact=write.exact):
                self._merge_many(replace(write, changes=kept), payload)
        finally:
            kept.unpersist()
            self._kept.let_go()

    def _keys_of(self, changes: DataFrame) -> ChangedKeys | None:
        """None if there are too many, or if they have no constants."""
        try:
            types = key_types(self._schema, self._key)
        except UnsupportedKey:
            return None
        return changed_keys(changes, self._key, types)

    def _write_few(self, changes: DataFrame, keys: ChangedKeys, payload: Payload, *, exact: bool) -> bool:
        """Whether it could be written without a MERGE. Deletes alone are a DELETE: an overwrite that puts no row in,
        and removes all rows of a file, does not say how many it removed."""
        adds = exact and keys.only_inserts and self._lies_below(keys)
        written = self._write_by_key(changes, keys, payload, exact=exact, adds=adds)
        known, greatest = self._upper.known(), keys.greatest()
        bounds = [bound for bound in (known, greatest) if bound is not None]
        if bounds and (adds or known is not None):
            self._upper.keep(payload.commit_uuid, max(bounds))
        return written

    def _write_by_key(
        self, changes: DataFrame, keys: ChangedKeys, payload: Payload, *, exact: bool, adds: bool
    ) -> bool:
        carried = replace(payload, expected=keys.counts) if exact else payload
        if adds or not keys.keys:
            self._write(changes, "append", carried)
            return True
        predicate = self.touched.narrowed(keys.predicate())
        if predicate is None:
            return False
        if exact and keys.only_deletes:
            return self._delete(predicate, carried)
        with without_constraint_propagation(changes.sparkSession):
            there = changes.where(f.col(MARK) != "D")
            self._write(there, "overwrite", carried, {"replaceWhere": predicate})
        return True

    def _delete(self, predicate: str, payload: Payload) -> bool:
        """Whether there was a commit. Delta makes none if no row has one of the keys; then a MERGE, which commits
        always, tells that the marks are wrong. (Of a step that was committed before, Delta answers nothing.)"""
        with carrying(self._spark, payload):
            answer = self._spark.sql(f"DELETE FROM {self._table} WHERE {predicate}").collect()
        return any(deleted > 0 for (deleted,) in answer)

    def _merge_many(self, write: Merge[DataFrame], payload: Payload) -> None:
        """Where nobody asks how many there are, and it is known between which keys they lie, they are not counted."""
        changes, kind = write.changes, self._lead_type
        if not write.exact and write.lead is not None:
            ends = ("", "") if kind is None else (literal(write.lead[0], kind), literal(write.lead[1], kind))
            self._run_merge(changes, payload, Counted(None, *ends), exact=False)
            return
        found = counted(changes, self._key, kind)
        carried = replace(payload, expected=found.counts) if write.exact else payload
        if write.exact and found.only_inserts and (found.is_nothing or self._ends_below(found.first)):
            self._write(changes, "append", carried)
        else:
            self._run_merge(changes, carried, found, exact=write.exact)

    def _run_merge(self, changes: DataFrame, payload: Payload, found: Counted, *, exact: bool) -> None:
        session, view = changes.sparkSession, "__tf_" + uuid.uuid4().hex
        changes.createOrReplaceTempView(view)
        try:
            with carrying(session, payload), without_constraint_propagation(session):
                session.sql(merge_sql(self._table, self._key, changes.columns, view, found, exact=exact)).collect()
        finally:
            session.catalog.dropTempView(view)

    def _lies_below(self, keys: ChangedKeys) -> bool:
        """Whether all that is there lies below these keys. If a bound of all keys is known from the last commit, nobody
        is asked: keys that are not above it are written in the other way, which is right for all."""
        known = self._upper.known()
        return self._ends_below(keys.first()) if known is None else keys.lie_above(known)

    def _ends_below(self, first: str | None) -> bool:
        """Whether all that is there lies below the new rows, the first of which begins with this value: as in a table
        that grows at its end. Statistics tell that nearly always without a look into a file."""
        here = self._spark.read.format("delta").load(self._path)
        return bool(first) and here.where(f"{quoted(self._key[0])} >= {first}").isEmpty()

    @property
    def _lead_type(self) -> DataType | None:
        try:
            return key_types(self._schema, [self._key[0]])[0]
        except UnsupportedKey:
            return None

    def compare(
        self, expected: DataFrame, version: int, but: DataFrame | None = None, within: Sequence[Range] | None = None
    ) -> Compared:
        """By buckets of the key: how many rows, and sums of their hashes. Only in buckets that differ rows are compared
        one by one."""
        columns = [quoted(name) for name in self._schema.fieldNames() if name in expected.columns]
        with self._translated():
            found = self._spark.read.format("delta").option("versionAsOf", version).load(self._path).select(*columns)
            wanted = expected.select(*columns)
            if within is not None:
                found = found.where(is_within(within, self._place, key_types(self._schema, self._place)))
            if but is None:
                return compared(wanted, found, self._key, self._rounded)
            keys = went(but).select(*map(quoted, self._key)).cache()
            try:
                wanted, found = (
                    rows.alias("o").join(keys.alias("n"), same(self._key), "left_anti") for rows in (wanted, found)
                )
                return compared(wanted, found, self._key, self._rounded)
            finally:
                keys.unpersist()

    def check_keys(self) -> None:
        """Where a column is fixed: then two chunks may have brought a row each."""
        if self._others is not None:
            with self._translated():
                self._others.check()

    def check_name(self) -> None:
        """Raise NameTaken if `publish` would."""
        catalog.check_name(self._spark, self._name, self._path, self._job_id)

    def publish(self) -> None:
        """A view in the session's catalog that shows the user's columns."""
        self._is_published = True
        shown = [name for name in self._schema.fieldNames() if not name.startswith(HIDDEN)]
        catalog.publish(self._spark, self._name, self._path, self._job_id, shown)


def _bare(rows: DataFrame) -> DataFrame:
    """Columns that bring nothing but a comment with them of what they come from."""
    columns = []
    for field in rows.schema:
        kept = {name: text for name, text in field.metadata.items() if name == "comment"}
        columns.append(f.col(quoted(field.name)).alias(field.name, metadata=kept))
    return rows.select(*columns)
