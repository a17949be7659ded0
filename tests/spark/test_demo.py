"""The demo, on a small table, as a person without a terminal runs it."""

import subprocess
import sys

import pytest


@pytest.mark.soak
def test_the_demo_ends_with_two_views_that_are_equal_to_a_recompute() -> None:
    # R11
    command = [sys.executable, "-m", "tidefill.cli", "demo", "--rows", "100000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "kill -9" in done.stdout
    assert "Both views are equal to a recompute. Everything is dropped, nothing is left." in done.stdout
