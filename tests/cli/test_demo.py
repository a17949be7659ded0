"""The demo without its Spark: the shop in PostgreSQL, what is left out if that is not installed, and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.cli.stores import row
from tests.signals import take_ctrl_c
from tidefill.cli import main
from tidefill.cli.demo import shop as demo_shop
from tidefill.cli.demo.home import Home
from tidefill.cli.demo.report import Outcome, figures_of, outcomes_table
from tidefill.cli.demo.shop import Ledger, Shop
from tidefill.cli.demo.stage import Stage
from tidefill.config import load
from tidefill.core.confirm import Counts, Effect, Entry, Payload
from tidefill.core.keys import Key
from tidefill.core.state import JobState
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, above, start, whole
from tidefill.jobs.status import status_of

WAIT_S_MAX = 60.0
OPEN = """
import time
from tests.signals import take_ctrl_c
from tidefill.cli.demo import shop as demo_shop
with demo_shop.opening() as shop:
    shop.result()
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with demo_shop.opening() as opened:
        yield opened.result()


def until(so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def test_the_writer_keeps_a_true_ledger_over_all_partitions(shop: Shop) -> None:
    stop = threading.Event()
    writer = threading.Thread(target=demo_shop.write, args=(shop.owner_url, stop))
    writer.start()
    until(lambda: shop.ledger().transactions >= 3, "the writer writes")
    stop.set()
    writer.join()
    done = shop.ledger()
    each = done.transactions * demo_shop.EACH
    assert done == Ledger(done.transactions, inserts=each, updates=each, deletes=each)
    with psycopg.connect(shop.owner_url) as owner:
        found = owner.execute("SELECT count(*), count(DISTINCT tableoid), count(*) FILTER (WHERE id > %s) FROM orders",
                              [demo_shop.ROWS]).fetchone()  # fmt: skip
    assert found == (demo_shop.ROWS, len(demo_shop.QUARTERS) - 1, each)


def test_tidefill_may_read_there_and_no_more(shop: Shop) -> None:
    with psycopg.connect(shop.url, autocommit=True) as ours:
        flags = ours.execute("SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles "
                             "WHERE rolname = current_user").fetchone()  # fmt: skip
        assert flags == (False, False, False, True)
        for statement in ("DELETE FROM orders", "SELECT * FROM ledger", "DROP PUBLICATION tidefill_orders"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ours.execute(statement.encode())


def test_what_the_replica_has_not_taken_in_and_what_is_left_is_seen() -> None:
    with demo_shop.opening() as opened:
        shop = opened.result()
        assert not shop.is_taken_in("0/0"), "there is no slot that says so"
        with psycopg.connect(shop.url, autocommit=True) as ours:
            ours.execute("SELECT pg_create_logical_replication_slot('left', 'pgoutput')")
            with psycopg.connect(shop.owner_url, autocommit=True) as owner:
                owner.execute("INSERT INTO ledger VALUES (1, 1, 1, 1)")
            end = shop.log_end()
            assert not shop.is_taken_in(end)
            ours.execute("SELECT pg_replication_slot_advance('left', pg_current_wal_lsn())")
            assert shop.is_taken_in(end)
        assert shop.clear() == ["left"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_the_demo(number: signal.Signals) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # PostgreSQL may run as somebody else
        process = subprocess.Popen(
            [sys.executable, "-c", OPEN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"TMPDIR": folder}, preexec_fn=take_ctrl_c,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        (lock,) = Path(folder).glob("*/data/postmaster.pid")
        pid = int(lock.read_text().splitlines()[0])
        process.send_signal(number)
        process.wait(WAIT_S_MAX)
        process.stdout.close()
        until(lambda: not Path(f"/proc/{pid}").exists() and not list(Path(folder).iterdir()), "the server is gone")


def test_without_the_extras_one_line_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_shop.require()
    monkeypatch.setattr(demo_shop, "NEEDED", {"no_such_module": "local", "nor_this": "postgres"})
    assert main(["demo", "--postgres"]) == 2
    assert "pip install 'tidefill[local,postgres]'" in capsys.readouterr().err


def test_the_settings_of_the_runner_hold_no_password(tmp_path: Path) -> None:
    Home(tmp_path, kept=False).configure("sc://localhost:1", {"shop": "SHOP_URL"})
    config = load(tmp_path, None, {})
    assert config.connection_url("shop", {"SHOP_URL": "postgresql://host/db"}) == "postgresql://host/db"
    assert (config.store, config.remote) == (str(tmp_path / "store"), "sc://localhost:1")
    assert "SHOP_URL" in (tmp_path / "tidefill.toml").read_text()


def test_a_line_tells_only_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(quiet=False)
    abroad, paid = (status_of(row(name), 0.0) for name in ("abroad", "paid"))
    stage.bars([abroad, paid])
    stage.bars([replace(abroad, share=0.2), paid])
    stage.bars([replace(abroad, share=0.3), paid])
    stage.bars([replace(abroad, share=0.3), replace(paid, state="live", share=1.0)])
    lines = [line.split(" s  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["abroad created 0 %, paid created 0 %", "abroad created 30 %", "paid live 100 %"]


def step(number: int, coverage: Coverage, counts: Counts) -> Entry:
    state = JobState(1, number, {"t": Version("id", Number(number))}, {"t": coverage})
    return Entry(number, Effect.WRITE, Payload(state, "generation", f"commit {number}", number - 1), counts)


def test_a_table_that_is_filled_at_once_was_filled_by_its_first_commit() -> None:
    born, tidied = Entry(0, Effect.CREATED), Entry(9, Effect.NONE)
    at_once = [born, step(1, whole(), Counts(inserted=200)), step(2, whole(), Counts(1, 2, 3)), tidied]
    assert figures_of(at_once) == (2, 1, 6)
    begun = start(above(Key((9,))))
    later = [born, step(1, begun, Counts()), step(2, whole(), Counts(200, 4)), step(3, whole(), Counts(deleted=5))]
    assert figures_of(later) == (3, 1, 9)


def test_a_replica_has_no_number_of_versions_in_the_table() -> None:
    view = Outcome("returned", 5, 2, 1, 3, versions=4, live_s=9.0, kills=1, equal=True)
    table = outcomes_table([view, replace(view, name="shop_orders", versions=None)], 80, ascii=True)
    (line,) = [line for line in table.splitlines() if line.startswith("versions")]
    assert line.split()[-2:] == ["4", "-"]
