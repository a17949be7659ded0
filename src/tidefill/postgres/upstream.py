"""A PostgreSQL table as an upstream: a version is a snapshot, the set of transactions that it sees.

The log tells which keys changed, the snapshot tells what they are now: rows of a fill and rows that changed are read by
the same queries, under the same exported snapshot, and a key that is nowhere is gone. What the log tells of belongs to
a step by visibility, never by its place: a transaction may be in the log and not yet visible. So the slot is advanced
only to the first commit that the version in the target does not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, pairwise
from typing import Any, Generic

import psycopg

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.sample import SAMPLE_KEYS, Sample
from tidefill.core.version import Snapshot, Version
from tidefill.core.walk import Coverage, Range, Split, above, covered_ranges, rest
from tidefill.errors import Unreadable
from tidefill.ports.frames import Changes, F
from tidefill.ports.upstream import UpstreamLook
from tidefill.postgres import head as heads
from tidefill.postgres.backlog import KeyTexts, News, Transaction
from tidefill.postgres.head import Head
from tidefill.postgres.log import lsn_text
from tidefill.postgres.queries import Queries, keys_of_leaf, known_parts, sampling, selected, sent
from tidefill.postgres.reader import Reader
from tidefill.postgres.server import PostgresServer
from tidefill.postgres.slot import Slot
from tidefill.postgres.survey import Leaf, PgTable, Survey, check_same
from tidefill.postgres.types import INTEGER_TYPES, PgColumn, is_sent_as_logged, key_type

READERS = 4  # of a chunk
READER_ROWS_MIN = 20_000
KEYS_PER_QUERY = 20_000
KEYS_NAMED_MAX = 10_000  # these, with texts of so many characters in all, a target is given as values
KEYS_TEXT_MAX = 1 << 18
KEYS_SHARE_MAX = 0.5  # of what is covered: then it is read again
KEYS_TAKEN_MAX = 5_000_000  # in one step: they go to Spark in the text of queries, which its driver holds
NEW = 1 << 62  # a transaction that no snapshot of before sees


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
        self._slot = Slot(table, self._admin, own_slot=own_slot, own_publication=own_publication)
        self._head: Head | None = None
        self._rows = 0
        self._sampled: tuple[Key, ...] | None = None
        self._seen: Survey | None = None
        self.resources = self._slot.resources(server.name)

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
        """The publication and the slot are there, and what the slot does not tell of is known."""
        self._look_at(self._slot.prepare(self._survey, released))

    # Versions.

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """A snapshot of now."""
        with heads.open_head(self._server, self._table, self._application) as head:
            self._look_at(head.survey)
            if first:
                self._slot.wait_for_older(head)
            self._head = head
            carry = {"safe": lsn_text(head.told.safe), "end": lsn_text(head.end), **head.survey.carried()}
            yield Version(head.survey.identity, head.snapshot, json.dumps(carry))

    def newest_from(self, base: str, number: int) -> None:
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

    @property
    def _queries(self) -> Queries:
        assert self._seen is not None
        return Queries(self._table, self._seen, self._walk)

    def _open(self, at: Version) -> Head:
        if self._head is None or not self.readable(at):
            raise Unreadable("the snapshot is gone")
        return self._head

    def readable(self, at: Version) -> bool:
        """Only inside its head."""
        return self._head is not None and self._head.alive and self._head.snapshot == _snapshot(at)

    def look(self, at: Version) -> UpstreamLook:
        """The log is kept for as long as it is needed, by the slot."""
        return UpstreamLook(self.readable(at), lag_s=self._lag_s(at), log_kept=self._slot.kept())

    def notices(self) -> tuple[str, ...]:
        """Columns whose type is not known."""
        return tuple(self._seen.notices()) if self._seen is not None else ()

    def _lag_s(self, at: Version) -> float:
        """The age of the first commit to the table that was not taken in."""
        head = self._head
        if head is None or not head.alive:
            return 0.0
        first_s = self._news(at, head).first_s
        return 0.0 if first_s is None else max(0.0, head.at_s - first_s)

    def check(self, at: Version) -> None:
        """The same table, and a slot that still holds all that was not taken in."""
        seen = self._survey()
        check_same(self._table, json.loads(at.carry), at.identity, seen)
        self._slot.check(at, seen.confirmed)

    def on_unreadable(self, at: Version) -> None:
        """`readable` knows."""
        if self._head is not None and self._head.snapshot == _snapshot(at):
            self._head.closed.set()

    # Changes.

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the log; which of the rows were covered is not known."""
        head = self._open(upto)
        self._slot.check(after, head.confirmed)
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
        found = head.query(f"SELECT coalesce(pg_get_partition_constraintdef({leaf.oid}), 'true')")
        query = keys_of_leaf(self._table, self._key, leaf, found[0][0], most)
        yield from head.batches(query, heads.LOG_ROWS_AT_A_TIME)

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[F]:
        """Keys from the log, rows from the snapshot."""
        head = self._open(upto)
        self._slot.check(after, head.confirmed)
        self._add_new_leaves(after, head, KEYS_TAKEN_MAX)
        queries = self._queries
        where = f"{queries.within(covered_ranges(coverage), 't')} AND {known_parts(head.survey)}"
        went: list[F] = []
        came: list[F] = []
        ends: set[int] = set()
        batches = head.told.backlog.batches(_snapshot(after), KEYS_PER_QUERY)
        named: tuple[Key, ...] | None = None
        for batch in chain([next(batches, [])], batches):
            ends = self._ends(ends, batch)
            keys, named = queries.keys(batch), self._named(batch)
            went.append(
                self._read(head, queries.key_columns, f"{keys} k", "k", "true")
                if named is None
                else self._reader.constants(queries.key_columns, named)
            )
            came.append(self._read(head, head.survey.columns, queries.rows_of(keys), "t", where))
        lead = (min(ends), max(ends)) if ends else None
        few = len(went) == 1
        at_hand = named if few else None
        return Changes(self._reader.changes(went, came), images=False, lead=lead, few=few, keys=at_hand)

    def _named(self, batch: Sequence[KeyTexts]) -> tuple[Key, ...] | None:
        """The keys as values, if they are few and the log writes them as they are sent."""
        columns = self._queries.key_columns
        few = len(batch) <= KEYS_NAMED_MAX and sum(map(len, chain.from_iterable(batch))) <= KEYS_TEXT_MAX
        if not few or not all(map(is_sent_as_logged, columns)):
            return None
        types = [key_type(column) for column in columns]
        return tuple(Key(tuple(kind.value(text) for kind, text in zip(types, key, strict=True))) for key in batch)

    def _ends(self, ends: set[int], keys: Sequence[KeyTexts]) -> set[int]:
        """The least and the greatest of these and of what is in the first column of the keys, if it is of integers."""
        if self._queries.key_columns[0].base not in INTEGER_TYPES or not keys:
            return ends
        values = ends | {int(key[0]) for key in keys}
        return {min(values), max(values)}

    # Rows.

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """From the snapshot, while its head is open, by several readers."""
        head = self._open(at)
        parts: list[Range | None] = [piece for part in ranges for piece in self._cut(part)]
        known = known_parts(head.survey)
        frames = [
            self._read(
                head, head.survey.columns, f"{self._table.sql} t", "t",
                "false" if part is None else f"{self._queries.within([part], 't')} AND {known}",
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

    def _read(self, head: Head, columns: Sequence[PgColumn], source: str, alias: str, where: str) -> F:
        return self._reader.read(head, columns, selected(head.snapshot, columns, source, alias, where))

    # Places.

    def _keys_in(self, head: Head, sql: str) -> list[Key]:
        types = [key_type(head.survey.column(name)) for name in self._walk]
        texts = ", ".join(f"({sent(head.survey.column(name), 't')})::text" for name in self._walk)
        found = head.query(f"SELECT {texts} FROM {self._table.sql} t {sql}")
        return [
            Key(tuple(None if text is None else kind.value(text) for kind, text in zip(types, row, strict=True)))
            for row in found
        ]

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """From a sample. Where the server cannot compare as we do without reading everything, there are none."""
        if rest(split) is None or not self._queries.is_ordered:
            return ()
        if self._sampled is None:
            self._sampled = self._sample_of(self._open(at))
        return Sample(self._sampled, self._rows).bounds(split, rows)

    def _sample_of(self, head: Head) -> tuple[Key, ...]:
        if self._rows <= SAMPLE_KEYS:
            self._rows = int(head.query(f"SELECT count(*) FROM {self._table.sql}")[0][0])
        return tuple(sorted(set(self._keys_in(head, sampling(self._rows)))))

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Above the greatest key."""
        return above(self._greatest(at))

    def _greatest(self, at: Version) -> Key | None:
        """In the snapshot."""
        head = self._open(at)
        order = f"WHERE {known_parts(head.survey)} ORDER BY {self._queries.from_the_greatest} LIMIT 1"
        return next(iter(self._keys_in(head, order)), None)

    def rows_written(self, after: Version, upto: Version) -> int:
        """The log is read for keys alone, and reads the table again by itself where they are many."""
        return 0

    def row_count(self, at: Version) -> int:
        """About."""
        return self.row_estimate()

    def comparable(self, at: Version) -> None:
        """Everywhere: it forgets no row."""

    def row_estimate(self) -> int:
        """By the server's statistics, or the last count."""
        return self._rows

    def check_keys(self, at: Version) -> None:
        """The server enforces its primary key."""
        self._open(at)

    def release(self, version: Version) -> None:
        """Let the slot go on to the first commit that the version does not see."""
        self._slot.release(version)


def _has_new_values(was: dict[str, Any], seen: Survey) -> bool:
    """Whether rows may have got values without a word in the log: in a column that is new, unless it began empty; or in
    one that was altered while the table was rewritten."""
    rewritten = any(was["leaves"].get(leaf.mark, leaf.file) != leaf.file for leaf in seen.leaves)
    known = {number: mark for number, _, _, mark in was["columns"]}
    new = [column for column in seen.columns if column.number not in known]
    altered = any(known.get(column.number, column.mark) != column.mark for column in seen.columns)
    return any(column.has_default for column in new) or (rewritten and (altered or bool(new)))


def application(table: PgTable) -> str:
    """The name under which sessions that read the table are seen on the server."""
    return f"tidefill {table.slot}"[:63]


def _snapshot(version: Version) -> Snapshot:
    assert isinstance(version.point, Snapshot)
    return version.point
