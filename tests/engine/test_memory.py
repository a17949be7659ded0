"""Memory does not grow with the table."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suites import in_longer_runs

PROCESS = Path(__file__).with_name("memory_process.py")


@pytest.mark.parametrize("rows", in_longer_runs(4_000_000, 20_000_000))
def test_a_gibibyte_is_enough_however_many_rows(tmp_path: Path, rows: int) -> None:
    command = [sys.executable, str(PROCESS), str(rows), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert (done.stdout.strip(), done.returncode) == (str(rows), 0), done.stderr
