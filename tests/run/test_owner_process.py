"""Who holds a lease, and whether that process is gone."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidefill.run.owner_process import is_gone, new_owner


def test_a_living_process_is_not_gone() -> None:
    assert new_owner() != new_owner()
    assert not is_gone(new_owner())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a process can be looked up on Linux only")
def test_a_killed_process_is_gone_even_before_its_parent_has_noticed() -> None:
    program = (
        "import sys; from tidefill.run.owner_process import new_owner; print(new_owner(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        assert not is_gone(owner)
        child.kill()
        deadline_s = time.monotonic() + 30
        while not is_gone(owner):
            assert time.monotonic() < deadline_s
        assert Path(f"/proc/{child.pid}/stat").exists(), "nobody has waited for it"
    assert is_gone(owner)


def test_of_another_machine_or_another_form_nothing_is_known() -> None:
    boot, namespace, _, _, name = new_owner().split(":")
    gone = f"{boot}:{namespace}:4194305:17:{name}"
    assert is_gone(gone) == bool(boot)
    assert not is_gone(f"other:{namespace}:4194305:17:{name}")
    assert not is_gone(f"{boot}:other:4194305:17:{name}")
    for text in ("", "r1", "a:b:c:d:e", f"{boot}:{namespace}:4194305::{name}"):
        assert not is_gone(text)


def test_without_a_proc_file_system_nobody_is_gone(tmp_path: Path) -> None:
    owner = new_owner(tmp_path)
    assert not is_gone(owner)
    assert not is_gone(owner, tmp_path)
