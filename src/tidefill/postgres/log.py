"""What PostgreSQL's log tells: which transactions committed, in the order of their commit records, and the keys of the
rows that each of them touched. Values are left alone: the snapshot tells what a row is.

The messages are those of pgoutput, protocol version 1, tuples as text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidefill.core.version import Snapshot
from tidefill.errors import Bug, HistoryGone
from tidefill.postgres.backlog import Backlog, KeyTexts, Transaction

PART_KEYS = 50_000  # of a transaction at a time
YEAR_2000_S = 946_684_800  # where PostgreSQL's clock begins
_BEGIN = struct.Struct(">qqI")
_U32, _U16 = struct.Struct(">I"), struct.Struct(">H")
_TEXT, _NULL, _UNCHANGED = ord("t"), ord("n"), ord("u")
_NEW = ord("N")


def transactions(messages: Iterable[bytes], relations: frozenset[int], key: Sequence[str]) -> Iterator[Transaction]:
    """Read the messages of whole transactions; a large one comes in parts. `relations`: the parts of the table; `key`:
    its key columns."""
    places: dict[int, tuple[int, ...]] = {}
    open_: Transaction | None = None
    for message in messages:
        match chr(message[0]):
            case "B":
                at, micros, xid = _BEGIN.unpack_from(message, 1)
                open_ = Transaction(xid, at, YEAR_2000_S + micros / 1e6)
            case "C":
                yield _inside(open_)
                open_ = None
            case "R":
                relation, columns = _relation(message)
                if relation in relations:
                    places[relation] = _places(columns, key)
            case "I" | "U" | "D":
                relation = _U32.unpack_from(message, 1)[0]
                if relation in relations:
                    part = _inside(open_)
                    part.keys.update(_keys(message, places[relation]))
                    if len(part.keys) >= PART_KEYS:
                        yield part
                        open_ = Transaction(part.xid, part.at, part.at_s)
            case "T":
                count = _U32.unpack_from(message, 1)[0]
                if relations.intersection(struct.unpack_from(f">{count}I", message, 6)):
                    _inside(open_).truncated = True


def _places(columns: Sequence[tuple[str, bool]], key: Sequence[str]) -> tuple[int, ...]:
    """Where the key is. HistoryGone if the log did not tell it for a while: then rows may be gone without a word."""
    told = {name: place for place, (name, is_told) in enumerate(columns) if is_told}
    if not set(key) <= told.keys():
        raise HistoryGone(
            "the log did not tell the key of deleted rows for a while",
            detail=f"The replica identity was ({', '.join(told)}).",
            hint="RESYNC the job to build it anew.",
        )
    return tuple(told[name] for name in key)


def _inside(transaction: Transaction | None) -> Transaction:
    if transaction is None:
        raise Bug("the log of PostgreSQL has a change outside of a transaction")
    return transaction


def _keys(message: bytes, places: Sequence[int]) -> Iterator[KeyTexts]:
    """The key before, if the message has it, and the key after. (A large one that did not change is not repeated.)"""
    place, told = 5, False
    while place < len(message):
        kind = message[place]
        values, place = _tuple(message, place + 1)
        key = tuple(values[number] for number in places)
        if None not in key:
            yield tuple(text for text in key if text is not None)
        elif kind != _NEW or not told:
            raise Bug("a row of PostgreSQL's log has no key")
        told = True


def _tuple(message: bytes, place: int) -> tuple[list[str | None], int]:
    (count,) = _U16.unpack_from(message, place)
    place += 2
    values: list[str | None] = []
    for _ in range(count):
        kind = message[place]
        place += 1
        if kind == _TEXT:
            (length,) = _U32.unpack_from(message, place)
            values.append(message[place + 4 : place + 4 + length].decode())
            place += 4 + length
        elif kind in (_NULL, _UNCHANGED):
            values.append(None)
        else:
            raise Bug(f"PostgreSQL's log has a value of an unknown kind {chr(kind)!r}")
    return values, place


def _relation(message: bytes) -> tuple[int, list[tuple[str, bool]]]:
    """Its number, and its columns: their names, and whether they are part of the replica identity."""
    (relation,) = _U32.unpack_from(message, 1)
    _, place = _name(message, 5)
    _, place = _name(message, place)
    (count,) = _U16.unpack_from(message, place + 1)
    place += 3
    columns = []
    for _ in range(count):
        is_told = bool(message[place] & 1)
        name, place = _name(message, place + 1)
        columns.append((name, is_told))
        place += 8
    return relation, columns


def _name(message: bytes, place: int) -> tuple[str, int]:
    end = message.index(0, place)
    return message[place:end].decode(), end + 1


# Positions and snapshots as PostgreSQL writes them.


def lsn_number(text: str) -> int:
    """`16/B374D848` as a number."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(number: int) -> str:
    """The inverse."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def snapshot_of(text: str) -> Snapshot:
    """`xmin:xmax:xip,xip` of pg_current_snapshot()."""
    xmin, xmax, xip = text.split(":")
    return Snapshot(int(xmin), int(xmax), frozenset(map(int, xip.split(","))) if xip else frozenset())


def snapshot_text(snapshot: Snapshot) -> str:
    """The inverse."""
    return f"{snapshot.xmin}:{snapshot.xmax}:{','.join(map(str, sorted(snapshot.xip)))}"


def whole_xid(short: int, newest: Snapshot) -> int:
    """The 64 bits of a transaction's number of which the log keeps 32: the nearest to the newest snapshot's end. (An
    old snapshot may lie more than half a circle behind.)"""
    distance = (short - newest.xmax) & 0xFFFFFFFF
    return newest.xmax + (distance - (1 << 32) if distance >= 1 << 31 else distance)


@dataclass(frozen=True, slots=True)
class Told:
    """What the log told up to some place that the snapshot `seen` sees, and where the first commit begins that it does
    not see (or where the reading ended): up to there the log is needed no more once it is in."""

    seen: Snapshot
    backlog: Backlog
    safe: int


def told(log: Iterable[Transaction], seen: Snapshot, end: int, backlog: Backlog) -> Told:
    """Keep what the snapshot sees, in the backlog."""
    safe = end
    for one in log:
        xid = whole_xid(one.xid, seen)
        if seen.sees(xid):
            backlog.add(xid, one)
        else:
            safe = min(safe, one.at)
    return Told(seen, backlog, safe)
