"""The demo of topics, on a small one, as a person without a terminal runs it."""

import subprocess
import sys

import pytest

DEMO = [sys.executable, "-m", "tidefill.cli", "demo", "--kafka", "--rows", "40000", "--rate", "50"]


@pytest.mark.full
def test_replica_and_view_are_equal_to_the_topic_though_runner_and_broker_are_killed() -> None:
    # R11, R26
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=850, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = " ".join(done.stdout.split())
    assert told.count("kill -9") == 2
    assert "regions says the same" in told
    assert "Replica and view are equal to the topic. Everything is dropped, nothing is left." in told
