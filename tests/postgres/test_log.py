"""What PostgreSQL's log tells, from its messages."""

from __future__ import annotations

import struct

import pytest

from tidefill.core.version import Snapshot, lies_between
from tidefill.errors import Bug
from tidefill.postgres import log as postgres_log
from tidefill.postgres.backlog import Backlog
from tidefill.postgres.log import lsn_number, lsn_text, snapshot_of, snapshot_text, told, transactions, whole_xid

OURS, OTHER = 100, 200


def begin(xid: int, at: int = 5) -> bytes:
    return b"B" + struct.pack(">qqI", at, 0, xid)


def commit() -> bytes:
    return b"C" + struct.pack(">Bqqq", 0, 0, 0, 0)


def relation(oid: int, *columns: str) -> bytes:
    named = b"".join(b"\x01" + name.encode() + b"\x00" + struct.pack(">Ii", 23, -1) for name in columns)
    return b"R" + struct.pack(">I", oid) + b"public\x00t\x00d" + struct.pack(">H", len(columns)) + named


def values(kind: str, *texts: str | None) -> bytes:
    parts = [b"n" if text is None else b"t" + struct.pack(">I", len(text)) + text.encode() for text in texts]
    return kind.encode() + struct.pack(">H", len(texts)) + b"".join(parts)


def row(operation: str, oid: int, *tuples: bytes) -> bytes:
    return operation.encode() + struct.pack(">I", oid) + b"".join(tuples)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(">IB", len(oids), 0) + struct.pack(f">{len(oids)}I", *oids)


def test_keys_of_rows_before_and_after() -> None:
    # R22
    messages = [
        begin(7, at=11),
        relation(OURS, "v", "id"),
        relation(OTHER, "id"),
        row("I", OURS, values("N", "x", "1")),
        row("U", OURS, values("N", "x", "2")),
        row("U", OURS, values("K", None, "3"), values("N", "x", "4")),
        row("U", OURS, values("O", "y", "5"), values("N", "x", "5")),
        row("D", OURS, values("K", None, "6")),
        row("I", OTHER, values("N", "99")),
        b"Mwhatever",
        commit(),
        begin(8, at=22),
        truncate(OTHER),
        commit(),
        begin(9, at=33),
        truncate(OTHER, OURS),
        commit(),
    ]
    first, second, third = transactions(messages, frozenset({OURS}), ["id"])
    assert (first.xid, first.at, first.truncated) == (7, 11, False)
    assert first.keys == {("1",), ("2",), ("3",), ("4",), ("5",), ("6",)}
    assert (second.keys, second.truncated) == (set(), False)
    assert third.truncated


def test_a_key_of_several_columns_in_its_own_order() -> None:
    messages = [begin(7), relation(OURS, "a", "b"), row("I", OURS, values("N", "1", "2")), commit()]
    (one,) = transactions(messages, frozenset({OURS}), ["b", "a"])
    assert one.keys == {("2", "1")}


@pytest.mark.parametrize(
    "messages",
    [
        [relation(OURS, "id"), row("I", OURS, values("N", "1"))],
        [begin(1), relation(OURS, "id"), row("I", OURS, values("N", None))],
    ],
)
def test_what_cannot_be_is_a_bug(messages: list[bytes]) -> None:
    with pytest.raises(Bug):
        list(transactions(messages, frozenset({OURS}), ["id"]))


def test_the_log_is_needed_from_the_first_commit_that_is_not_seen() -> None:
    # R22
    seen = Snapshot(10, 13, frozenset({11}))
    messages = [part for xid, at in ((10, 1), (11, 2), (12, 3)) for part in (begin(xid, at), commit())]
    found = told(transactions(messages, frozenset({OURS}), ["id"]), seen, 9, Backlog(1))
    assert ({xid for xid, _ in found.backlog.held()}, found.safe) == ({10, 12}, 2)
    assert told((), seen, 9, Backlog(1)).safe == 9


def test_a_large_transaction_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    # R38
    monkeypatch.setattr(postgres_log, "PART_KEYS", 10)
    inserts = [row("I", OURS, values("N", str(number))) for number in range(25)]
    parts = list(transactions([begin(7, 3), relation(OURS, "id"), *inserts, commit()], frozenset({OURS}), ["id"]))
    assert [(part.xid, part.at, len(part.keys)) for part in parts] == [(7, 3, 10), (7, 3, 10), (7, 3, 5)]
    backlog = told(parts, Snapshot(9, 9), 9, Backlog(1)).backlog
    assert backlog.after(Snapshot(7, 7)).keys == 25


def test_a_number_of_32_bits_is_the_nearest_to_the_newest_snapshot() -> None:
    # R22
    circle = 1 << 32
    newest = Snapshot(5 * circle + 10, 5 * circle + 20)
    assert whole_xid(19, newest) == 5 * circle + 19
    assert whole_xid(circle - 1, newest) == 5 * circle - 1
    old = Snapshot(4 * circle - 100, 4 * circle - 90)
    assert lies_between(whole_xid(19, newest), old, newest), "an old snapshot would have it a circle too early"


def test_texts_of_the_server() -> None:
    assert lsn_number("16/B374D848") == 0x16_B374D848
    assert lsn_text(lsn_number("16/B374D848")) == "16/B374D848"
    for text in ("10:20:10,14,15", "10:10:"):
        assert snapshot_text(snapshot_of(text)) == text
