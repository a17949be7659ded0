"""Whether the disks that can be known have room for an index: CREATE refuses it, or says that it may not fit."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index.harness import Indexed
from tests.postgres.index.test_jobs import engine, table
from tidefill.engine.engine import Engine
from tidefill.errors import InvalidSetting, UpstreamUnfit
from tidefill.indexes.sizes import Sizes
from tidefill.postgres.index import room

__all__ = ["engine", "table"]  # fixtures

Make = Callable[..., Indexed]
Usage = namedtuple("Usage", "free")
FITS, TIGHT, SMALL = 1 << 30, 350_000, 1_000
"""Of three indexes of a thousand rows: what is enough, what is enough for one of them alone, and what never is."""


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free))


def test_what_is_free_is_that_of_the_servers_disk(
    indexed: Make, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, asked, real = indexed([(1, 0, "a")]), list[str](), shutil.disk_usage

    def usage(path: str) -> Usage:
        asked.append(path)
        return Usage(real(path).free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    session = index.session.connection
    assert room.free_on_server(session)
    assert [Path(path) for path in asked] == [postgres.server.data]
    with monkeypatch.context() as patch:
        patch.setattr(room, "_FOLDERS", room._FOLDERS.replace("SELECT system_identifier", "SELECT system_identifier+1"))
        assert room.free_on_server(session) is None, "a folder of another server"
    role = f"{index.name}_plain"
    index.sql(f"CREATE ROLE {role}")
    try:
        session.execute(f"SET ROLE {role}")
        assert room.free_on_server(session) is None, "a plain owner may not ask"
    finally:
        session.execute("RESET ROLE")
        index.sql(f"DROP ROLE {role}")


@pytest.mark.parametrize(("free", "says"), [(None, 0), (4000, 0), (3999, 1), (2000, 1)])
def test_twice_the_size_is_asked_for(free: int | None, says: int) -> None:
    sizes = (Sizes(1500, 500, 0), "")
    assert len(room.check_server([sizes], free)) == says


def test_what_cannot_stay_is_refused_unless_it_may_be_less() -> None:
    sizes = Sizes(1500, 500, 0)
    with pytest.raises(UpstreamUnfit, match="has no room"):
        room.check_server([(sizes, "")], 1999)
    (notice,) = room.check_server([(sizes, "v > 0")], 1999)
    assert "may be too small" in notice


def test_create_and_explain_say_so(engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = f"INDEX ix_{table} ON shop.{table} (email)"
    three = (
        f"INDEXES all_{table} ON shop.{table} (a_{table} (email), b_{table} (email, note), c_{table} (region, email))"
    )
    notices = {}
    for free in (FITS, TIGHT):
        with_free(monkeypatch, free)
        notices[free] = [
            [text for name, text in engine.execute(f"EXPLAIN CREATE {words}").rows if name == "notice"]
            for words in (one, three)
        ]
    assert notices[FITS] == [[], []]
    (nothing, (notice,)) = notices[TIGHT]
    assert nothing == []
    assert "the server's disk may be too small" in str(notice)
    with_free(monkeypatch, SMALL)
    for words in (one, three):
        with pytest.raises(UpstreamUnfit, match="has no room"):
            engine.execute(f"CREATE {words}")
    assert engine.jobs() == []


def test_the_warehouse_is_asked_for_what_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes(1500, 500, 0)
    for free, says in ((3000, 0), (2999, 1)):
        with_free(monkeypatch, free)
        assert len(room.check_warehouse(sizes, "", tmp_path / "not" / "there")) == says
    with_free(monkeypatch, 1499)
    with pytest.raises(InvalidSetting, match="warehouse"):
        room.check_warehouse(sizes, "", tmp_path)
