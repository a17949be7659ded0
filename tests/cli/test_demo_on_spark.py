"""The demo, on a small table, as a person without a terminal runs it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "tidefill.cli", "demo", "--postgres", "--rows", "100000"]
WAIT_S_MAX = 60.0


@pytest.mark.full
def test_the_demo_ends_with_views_and_a_replica_that_are_equal_to_a_recompute() -> None:
    # R11
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=1000, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "kill -9" in done.stdout
    (equal,) = [line for line in done.stdout.splitlines() if line.startswith("equal to a recompute")]
    assert equal.split()[-4:] == ["yes"] * 4
    (names,) = [
        line for line in done.stdout.splitlines() if line.split() == ["abroad", "paid", "shop_orders", "returned"]
    ]
    assert names
    assert "All are equal to a recompute. Everything is dropped, nothing is left." in done.stdout


def test_ctrl_c_leaves_no_server_and_no_file_behind() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # PostgreSQL may run as somebody else
        demo = subprocess.Popen(
            DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": folder}
        )
        pid = _postmaster(Path(folder))
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=WAIT_S_MAX)
        assert (demo.returncode, said) == (130, "")
        _until_gone(pid)
        assert [path.name for path in Path(folder).iterdir() if path.name.startswith("tidefill-")] == []


def _until_gone(pid: int) -> None:
    """A server removes its files a moment before it is gone itself."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline_s, "the server is still there"
        time.sleep(0.05)


def _postmaster(folder: Path) -> int:
    """The process of the server, once that is up."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        for lock in folder.glob("tidefill-postgres-*/data/postmaster.pid"):
            lines = lock.read_text().splitlines()
            if len(lines) >= 8 and lines[7].strip() == "ready":
                return int(lines[0])
        time.sleep(0.05)
    raise AssertionError("no server came up")
