"""A PostgreSQL table as an upstream: a version is a snapshot, the set of transactions that it sees.

The log tells which keys changed, the snapshot tells what they are now: rows of a fill and rows that changed are read by
the same queries, under the same exported snapshot, and a key that is nowhere is gone. What the log tells of belongs to
a step by visibility, never by its place: a transaction may be in the log and not yet visible. So the slot is advanced
only to the first commit that the version in the target does not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, pairwise
from typing import Any, Generic

import psycopg

from tidefill.core import ranges_sql as conditions
from tidefill.core.budget import Kept
from tidefill.core.keys import TOP, Key
from tidefill.core.ranges_sql import Conditions
from tidefill.core.sample import SAMPLE_KEYS, Sample
from tidefill.core.step import Changed
from tidefill.core.version import Snapshot, Version
from tidefill.core.walk import Coverage, Range, Split, covered_ranges, rest
from tidefill.errors import HistoryGone, NotYet, Unreadable, UpstreamUnfit
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import F, Halves
from tidefill.postgres import head as heads
from tidefill.postgres.backlog import KeyTexts, News, Transaction
from tidefill.postgres.head import Head
from tidefill.postgres.log import lsn_number, lsn_text, snapshot_text
from tidefill.postgres.reader import SNAPSHOT_GONE, Reader
from tidefill.postgres.server import PostgresServer, identifier, translated
from tidefill.postgres.survey import (
    PARTITIONED,
    RESYNC,
    Leaf,
    PgTable,
    Survey,
    check_fit,
    check_published,
    check_same,
    kept_by,
    log_gone,
)
from tidefill.postgres.types import INTEGER_TYPES, PgColumn, is_text, key_type, mapped, quoted_text

READERS = 4  # of a chunk
READER_ROWS_MIN = 20_000
SAMPLE_SPREAD = 10  # times as many blocks as the rows of a sample would fill
KEYS_PER_QUERY = 20_000
KEYS_SHARE_MAX = 0.5  # of what is covered: then it is read again
KEYS_TAKEN_MAX = 5_000_000  # in one step: they go to Spark in the text of queries, which its driver holds
NEW = 1 << 62  # a transaction that no snapshot of before sees
SLOT_S_MAX = 10
POSTGRES = Conditions(equals="=")


class PostgresUpstream(Generic[F]):
    """A table of a server, read through one slot and one publication, which are ours to make and to remove unless
    somebody else's are named. `reader` makes frames of queries. `walk` is the key if none is given."""

    lasting = False

    def __init__(
        self,
        reader: Reader[F],
        server: PostgresServer,
        table: PgTable,
        *,
        walk: Sequence[str] = (),
        own_slot: bool = True,
        own_publication: bool = True,
    ) -> None:
        self._reader = reader
        self._server = server
        self._table = table
        self._given_walk = tuple(walk)
        self._own_slot = own_slot
        self._own_publication = own_publication
        self._head: Head | None = None
        self._first_xid: int | None = None
        self._slot_then: int | None = None
        self._released = 0
        self._rows = 0
        self._sampled: tuple[Key, ...] | None = None
        self._seen: Survey | None = None
        slot = Resource("slot", f"{server.name}/{table.slot}")
        publication = Resource("publication", f"{server.name}/{table.publication}")
        self.resources = tuple(one for own, one in ((own_slot, slot), (own_publication, publication)) if own)

    # What it needs.

    @contextmanager
    def _admin(self) -> Iterator[psycopg.Connection[Any]]:
        """A session outside of any snapshot: the open head's, or one of its own."""
        if self._head is not None and self._head.alive and not self._head.admin.closed:
            yield self._head.admin
        else:
            with closing(self._server.session(self._application)) as session:
                yield session

    def _survey(self) -> Survey:
        with self._admin() as admin:
            return self._table.survey(admin)

    @property
    def _application(self) -> str:
        return application(self._table)

    def prepare(self, released: Version | None) -> None:
        """The publication, then the slot, then, once, a transaction number: every transaction that the slot does not
        tell of is older. (A new number each time would wait for ever while there is always somebody writing.)"""
        seen = self._survey()
        check_fit(self._table, seen)
        if not seen.publication and self._own_publication:
            self._make_publication()
            seen = self._survey()
        check_published(self._table, seen)
        if not seen.has_slot:
            self._make_slot()
        if self._first_xid is None:
            self._take_number()
        self._released = _safe(released) if released is not None else 0
        self._look_at(seen)

    def _make_publication(self) -> None:
        sql = f"CREATE PUBLICATION {identifier(self._table.publication)} FOR TABLE {self._table.sql}"
        try:
            with (
                translated(f"the table {self._table.sql}"),
                suppress(psycopg.errors.DuplicateObject),
                self._admin() as admin,
            ):
                admin.execute(sql.encode())
        except UpstreamUnfit as error:
            raise UpstreamUnfit(
                f"the role may not publish {self._table.sql}",
                detail=error.detail,
                hint=f"As its owner: {sql}; then name it: WITH (publication = '{self._table.publication}')",
            ) from error

    def _make_slot(self) -> None:
        """It waits for those who write at this moment; somebody may take long."""
        if not self._own_slot:
            raise UpstreamUnfit(
                f"there is no slot {self._table.slot}",
                hint=f"SELECT pg_create_logical_replication_slot('{self._table.slot}', 'pgoutput')",
            )
        with self._admin() as admin, translated(f"the slot {self._table.slot}"):
            try:
                with admin.transaction():
                    admin.execute(f"SET LOCAL statement_timeout = {SLOT_S_MAX * 1000}")
                    admin.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._table.slot,))
            except psycopg.errors.DuplicateObject:
                return
            except psycopg.errors.QueryCanceled:
                raise NotYet(f"waits for {_oldest(admin)} to end, to make a slot") from None

    def _take_number(self) -> None:
        with self._admin() as admin, translated("the server"):
            confirmed = self._table.confirmed(admin)
            if confirmed is None:
                raise self._slot_gone()
            row = admin.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        self._first_xid, self._slot_then = int(row[0]), confirmed

    def _wait_for_older(self, head: Head) -> None:
        """The first version has to see every transaction that the slot does not tell of. If somebody has moved the slot
        since the number was taken, the number is worth nothing."""
        if head.confirmed is None:
            raise self._slot_gone()
        if head.confirmed != self._slot_then:
            self._take_number()
        if head.snapshot.xmin <= (self._first_xid or 0):
            with translated("the server"):
                raise NotYet(f"waits for {_oldest(head.admin)} to end, which is older than the slot")

    def _slot_gone(self) -> HistoryGone:
        with self._admin() as admin:
            if self._table.is_lost(admin):
                return log_gone(self._table)
        return HistoryGone(f"the slot {self._table.slot} was dropped or moved by somebody else", hint=RESYNC)

    # Versions.

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """A snapshot of now."""
        with heads.open_head(self._server, self._table, self._application) as head:
            self._look_at(head.survey)
            if first:
                self._wait_for_older(head)
            self._head = head
            carry = {"safe": lsn_text(head.told.safe), "end": lsn_text(head.end), **head.survey.carried()}
            yield Version(head.survey.identity, head.snapshot, json.dumps(carry))

    def before(self, base: str, number: int) -> None:
        """No version of it has a number."""

    def _look_at(self, seen: Survey) -> None:
        self._seen = seen
        self._rows = max(self._rows, seen.rows)

    @property
    def _key(self) -> tuple[str, ...]:
        return self._seen.key if self._seen else ()

    @property
    def _walk(self) -> tuple[str, ...]:
        return self._given_walk or self._key

    def _open(self, at: Version) -> Head:
        if self._head is None or not self.readable(at):
            raise Unreadable("the snapshot is gone")
        return self._head

    def readable(self, at: Version) -> bool:
        """Only inside its head."""
        return self._head is not None and self._head.alive and self._head.snapshot == _snapshot(at)

    def pressing(self, at: Version) -> bool:
        """The log is kept for as long as it is needed, or `kept` says how much is left."""
        return False

    def kept(self) -> Kept | None:
        """By the slot."""
        with self._admin() as admin:
            return kept_by(admin, self._table.slot)

    def lag_s(self, at: Version) -> float:
        """The age of the first commit to the table that was not taken in."""
        head = self._head
        if head is None or not head.alive:
            return 0.0
        first_s = self._news(at, head).first_s
        return 0.0 if first_s is None else max(0.0, head.at_s - first_s)

    def notices(self) -> Sequence[str]:
        """Columns whose type is not known."""
        return self._seen.notices() if self._seen is not None else ()

    def check(self, at: Version) -> None:
        """The same table, and a slot that still holds all that was not taken in."""
        seen = self._survey()
        check_same(self._table, json.loads(at.carry), at.identity, seen)
        self._check_slot(at, seen.confirmed)

    def _check_slot(self, after: Version, confirmed: int | None) -> None:
        if confirmed is None or confirmed > max(_safe(after), self._released):
            raise self._slot_gone()

    def lost(self, at: Version) -> None:
        """`readable` knows."""
        if self._head is not None and self._head.snapshot == _snapshot(at):
            self._head.closed.set()

    # Changes.

    def changed(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the log; which of the rows were covered is not known."""
        head = self._open(upto)
        self._check_slot(after, head.confirmed)
        many = min(KEYS_TAKEN_MAX, max(KEYS_PER_QUERY, int(self._covered_rows(coverage) * KEYS_SHARE_MAX)))
        if self._is_all_changed(after, head) or self._news(after, head).keys > many:
            return Changed.ALL
        self._add_new_leaves(after, head, many)
        keys = self._news(after, head).keys
        return Changed.ALL if keys > many else Changed.SOME if keys else Changed.NOTHING

    def _news(self, after: Version, head: Head) -> News:
        """By visibility: all in the backlog is seen by the head."""
        return head.told.backlog.after(_snapshot(after))

    def _is_all_changed(self, after: Version, head: Head) -> bool:
        """Rows came or went of which the log names no keys."""
        was = json.loads(after.carry)
        gone = set(was["leaves"]) - {leaf.mark for leaf in head.survey.leaves}
        return bool(gone) or self._news(after, head).truncated or _has_new_values(was, head.survey)

    def _covered_rows(self, coverage: Coverage) -> float:
        """By the sample, if there is one."""
        ranges = covered_ranges(coverage)
        if self._sampled is None:
            return self._rows
        sample = Sample(self._sampled, self._rows)
        return sample.rows_per_key * sum(any(part.holds(key) for part in ranges) for key in sample.keys)

    def _new_leaves(self, after: Version, head: Head) -> list[Leaf]:
        known = set(json.loads(after.carry)["leaves"])
        return [leaf for leaf in head.survey.leaves if leaf.mark not in known]

    def _add_new_leaves(self, after: Version, head: Head, many: int) -> None:
        """Of a new partition all keys count: it may have come with rows. No more are read than are needed to know that
        there are too many. (A key that is there without need does no harm: its row is read again.)"""
        backlog = head.told.backlog
        for leaf in self._new_leaves(after, head):
            for keys in self._keys_of(leaf, head, many + 1):
                backlog.add(NEW, Transaction(NEW, head.end, head.at_s, set(keys)))

    def _keys_of(self, leaf: Leaf, head: Head, most: int) -> Iterator[list[KeyTexts]]:
        """Through the table: that is what we may read. The partition's constraint lets the server leave out others."""
        found = head.query(f"SELECT coalesce(pg_get_partition_constraintdef({leaf.oid}), 'true')")
        texts = ", ".join(f"format('%s', {identifier(name)})" for name in self._key)  # as the log writes them
        inside = f"tableoid = {leaf.oid} AND ({found[0][0]})"
        yield from head.batches(
            f"SELECT {texts} FROM {self._table.sql} WHERE {inside} LIMIT {most}", heads.LOG_ROWS_AT_A_TIME
        )

    def changes(self, after: Version, upto: Version, coverage: Coverage) -> Halves[F]:
        """Keys from the log, rows from the snapshot."""
        head = self._open(upto)
        self._check_slot(after, head.confirmed)
        self._add_new_leaves(after, head, KEYS_TAKEN_MAX)
        names = [identifier(name) for name in self._key]
        inside = self._within(covered_ranges(coverage), "t")
        same = " AND ".join(f"t.{name} = k.{name}" for name in names)
        removed: list[F] = []
        added: list[F] = []
        ends: set[int] = set()
        batches = head.told.backlog.batches(_snapshot(after), KEYS_PER_QUERY)
        for batch in chain([next(batches, [])], batches):
            ends = self._ends(ends, batch)
            keys = self._keys_sql(batch)
            removed.append(self._read(head, self._key_columns, f"{keys} k", "k", "true"))
            rows = f"{keys} k JOIN {self._table.sql} t ON {same}"
            where = f"{inside} AND {self._known_parts(head)}"
            added.append(self._read(head, head.survey.columns, rows, "t", where))
        lead = (min(ends), max(ends)) if ends else None
        return Halves(self._reader.union(removed), self._reader.union(added), images=False, lead=lead)

    def _ends(self, ends: set[int], keys: Sequence[KeyTexts]) -> set[int]:
        """The least and the greatest of these and of what is in the first column of the keys, if it is of integers."""
        if self._key_columns[0].base not in INTEGER_TYPES or not keys:
            return ends
        values = ends | {int(key[0]) for key in keys}
        return {min(values), max(values)}

    @property
    def _key_columns(self) -> list[PgColumn]:
        assert self._seen is not None
        return [self._seen.column(name) for name in self._key]

    def _keys_sql(self, keys: Sequence[KeyTexts]) -> str:
        """The keys as a table, whose columns have the names and the types of the key's."""
        arrays = [
            f"{_array([key[place] for key in keys])}::{column.declared}[]"
            for place, column in enumerate(self._key_columns)
        ]
        names = ", ".join(identifier(name) for name in self._key)
        return f"(SELECT * FROM unnest({', '.join(arrays)}) AS u({names}))"

    # Rows.

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """From the snapshot, while its head is open, by several readers."""
        head = self._open(at)
        parts: list[Range | None] = [piece for part in ranges for piece in self._cut(part)]
        known = self._known_parts(head)
        frames = [
            self._read(
                head, head.survey.columns, f"{self._table.sql} t", "t",
                "false" if part is None else f"{self._within([part], 't')} AND {known}",
            )
            for part in parts or [None]
        ]  # fmt: skip
        return self._reader.union(frames)

    def _cut(self, part: Range) -> list[Range]:
        """In pieces of about the same size, for as many readers."""
        if self._sampled is None:
            return [part]
        inside = [key for key in self._sampled if part.holds(key)]
        rows = len(inside) * Sample(self._sampled, self._rows).rows_per_key
        readers = min(READERS, max(1, int(rows / READER_ROWS_MIN)))
        ends = [inside[len(inside) * number // readers] for number in range(1, readers)]
        edges = [part.after, *dict.fromkeys(ends), part.upto]
        return [Range(after, upto) for after, upto in pairwise(edges)]

    def _within(self, ranges: Sequence[Range], alias: str) -> str:
        walk = [self._column(name, alias) for name in self._walk]
        simple = [self._simple(part, walk) for part in ranges]
        if simple and all(simple):
            return f"({' OR '.join(simple)})"
        found = POSTGRES.within(ranges, walk)
        return str(found).lower() if isinstance(found, bool) else found

    def _simple(self, part: Range, walk: Sequence[conditions.Column]) -> str:
        """As a comparison of rows, which an index serves; empty if NULLs or open ends are in the way."""
        assert self._seen is not None
        bounds = [bound for bound in (part.after, part.upto) if bound is not None]
        whole = all(
            len(bound.values) == len(walk) and None not in bound.values and TOP not in bound.values for bound in bounds
        )
        if not whole or not all(self._seen.column(name).not_null for name in self._walk):
            return ""
        row = f"({', '.join(column.name for column in walk)})"

        def constants(bound: Key) -> str:
            return ", ".join(column.literal(value) for column, value in zip(walk, bound.values, strict=True))

        tests = [
            f"{row} {operator} ({constants(bound)})"
            for operator, bound in ((">", part.after), ("<=", part.upto))
            if bound is not None
        ]
        return f"({' AND '.join(tests)})" if tests else "true"

    def _column(self, name: str, alias: str) -> conditions.Column:
        assert self._seen is not None
        column = self._seen.column(name)
        collated = '::text COLLATE "C"' if is_text(column) else ""
        return conditions.Column(f"{alias}.{identifier(name)}{collated}", key_type(column).literal)

    def _known_parts(self, head: Head) -> str:
        """Of a partitioned table only the partitions that it had in the snapshot: one that is attached later can be
        read in an old snapshot too."""
        if head.survey.kind != PARTITIONED:
            return "true"
        return "t.tableoid = ANY ('{" + ",".join(str(leaf.oid) for leaf in head.survey.leaves) + "}'::oid[])"

    def _read(self, head: Head, columns: Sequence[PgColumn], source: str, alias: str, where: str) -> F:
        """Rows of the source, as Spark's types. It fails where the snapshot was not taken over."""
        sent = [f"{_sent(column, alias)} AS c{column.number}" for column in columns]
        guard = (
            f"(SELECT CASE pg_current_snapshot()::text WHEN '{snapshot_text(head.snapshot)}' THEN true "
            f"ELSE ('{SNAPSHOT_GONE} ' || pg_current_snapshot()::text)::boolean END)"
        )
        query = f"SELECT {', '.join(sent)} FROM {source} WHERE {where} AND {guard}"
        return self._reader.read(head, columns, query)

    # Places.

    def _keys_in(self, head: Head, sql: str) -> list[Key]:
        types = [key_type(head.survey.column(name)) for name in self._walk]
        texts = ", ".join(f"({_sent(head.survey.column(name), 't')})::text" for name in self._walk)
        found = head.query(f"SELECT {texts} FROM {self._table.sql} t {sql}")
        return [
            Key(tuple(None if text is None else kind.value(text) for kind, text in zip(types, row, strict=True)))
            for row in found
        ]

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """From a sample. Where the server cannot compare as we do without reading everything, there are none."""
        if rest(split) is None or not self._is_ordered():
            return ()
        if self._sampled is None:
            self._sampled = self._sample_of(self._open(at))
        return Sample(self._sampled, self._rows).bounds(split, rows)

    def _is_ordered(self) -> bool:
        assert self._seen is not None
        return all(self._seen.column(name).bytewise for name in self._walk if is_text(self._seen.column(name)))

    def _sample_of(self, head: Head) -> tuple[Key, ...]:
        if self._rows <= SAMPLE_KEYS:
            self._rows = int(head.query(f"SELECT count(*) FROM {self._table.sql}")[0][0])
        return tuple(sorted(set(self._keys_in(head, _sampling(self._rows)))))

    def greatest(self, at: Version) -> Key | None:
        """In the snapshot."""
        head = self._open(at)
        order = ", ".join(f"{self._column(name, 't').name} DESC NULLS LAST" for name in self._walk)
        return next(iter(self._keys_in(head, f"WHERE {self._known_parts(head)} ORDER BY {order} LIMIT 1")), None)

    def written(self, after: Version, upto: Version) -> int:
        """The log is read for keys alone, and reads the table again by itself where they are many."""
        return 0

    def count(self, at: Version) -> int:
        """About."""
        return self.estimate()

    def estimate(self) -> int:
        """By the server's statistics, or the last count."""
        return self._rows

    def check_keys(self, at: Version) -> None:
        """The server enforces its primary key."""
        self._open(at)

    def release(self, version: Version) -> None:
        """Let the slot go on to the first commit that the version does not see."""
        safe = _safe(version)
        self._released = max(self._released, safe)
        with suppress(NotYet), translated(f"the slot {self._table.slot}"), self._admin() as admin:
            confirmed = self._table.confirmed(admin)
            if confirmed is not None and safe > confirmed:
                admin.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self._table.slot, lsn_text(safe)))


def _has_new_values(was: dict[str, Any], seen: Survey) -> bool:
    """Whether rows may have got values without a word in the log: in a column that is new, unless it began empty; or in
    one that was altered while the table was rewritten."""
    rewritten = any(was["leaves"].get(leaf.mark, leaf.file) != leaf.file for leaf in seen.leaves)
    known = {number: mark for number, _, _, mark in was["columns"]}
    new = [column for column in seen.columns if column.number not in known]
    altered = any(known.get(column.number, column.mark) != column.mark for column in seen.columns)
    return any(column.has_default for column in new) or (rewritten and (altered or bool(new)))


def _sampling(rows: int) -> str:
    """Few rows of many blocks: the server reads whole blocks, and neighbours tell little of the rest. (All rows of few
    blocks left the four readers of a million rows with 21 to 31 % of them each, few rows of many with 24 to 27 %.)"""
    share = SAMPLE_KEYS / max(rows, 1)
    if share >= 1:
        return ""
    blocks = min(1.0, share * SAMPLE_SPREAD)
    return f"TABLESAMPLE SYSTEM ({100 * blocks:.6f}) REPEATABLE (1) WHERE random() < {share / blocks:.6f}"


def application(table: PgTable) -> str:
    """The name under which sessions that read the table are seen on the server."""
    return f"tidefill {table.slot}"[:63]


def _oldest(admin: psycopg.Connection[Any]) -> str:
    """Who has been writing for the longest time, in words."""
    prepared = "SELECT 'the prepared transaction ' || gid FROM pg_prepared_xacts ORDER BY prepared LIMIT 1"
    running = (
        "SELECT 'the transaction of ' || usename || ' (process ' || pid || ', ' || application_name || ')' "
        "FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY age(backend_xid) DESC LIMIT 1"
    )
    for query in (prepared, running):
        row = admin.execute(query.encode()).fetchone()
        if row is not None:
            return str(row[0])
    return "a transaction"


def kept_by_slot(server: PostgresServer, name: str) -> Kept | None:
    """None if it is not there."""
    with closing(server.session("tidefill")) as session:
        return kept_by(session, name)


def remove_slot(server: PostgresServer, name: str) -> None:
    """If it is there."""
    with server.session("tidefill") as session, translated(f"the slot {name}"):
        session.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active", (name,)
        )
        session.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,)
        )


def remove_publication(server: PostgresServer, name: str) -> None:
    """If it is there."""
    with server.session("tidefill") as session, translated(f"the publication {name}"):
        session.execute(f"DROP PUBLICATION IF EXISTS {identifier(name)}".encode())


def _sent(column: PgColumn, alias: str) -> str:
    return mapped(column).sent.format(f"{alias}.{identifier(column.name)}")


def _array(texts: Sequence[str]) -> str:
    """An array of these values as a constant."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return quoted_text("{" + ",".join(f'"{text}"' for text in escaped) + "}")


def _snapshot(version: Version) -> Snapshot:
    assert isinstance(version.point, Snapshot)
    return version.point


def _safe(version: Version) -> int:
    return lsn_number(json.loads(version.carry)["safe"])
