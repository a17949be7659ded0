"""What scripts/test and scripts/full share: parts that run side by side, and the table that closes a run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).parents[1]
RUN = """
set -uo pipefail
logs=$1
limit_s=1
. scripts/parts
one_more slow sleep 60
limit_s=60
one_more suite sh -c 'echo "2 failed, 3 passed, 4 skipped, 1 error in 5.00s"; exit 1'
one_more broken sh -c 'echo "no such file"; exit 4'
one_more simulator echo "10 histories, no violation"
one_more clean echo "7 passed, 9 deselected in 5.00s"
all_done
table
exit $failed
"""


def test_a_part_that_fails_stops_no_other_and_is_counted(tmp_path: Path) -> None:
    command = ["bash", "-c", RUN, "run", str(tmp_path)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    *_, slow, suite, broken, simulator, clean, last = done.stdout.splitlines()
    rows = [line.split()[:4] for line in (slow, suite, broken, simulator, clean)]
    assert rows == [
        ["slow", "0", "1", "0"],
        ["suite", "3", "3", "4"],
        ["broken", "0", "1", "0"],
        ["simulator", "1", "0", "0"],
        ["clean", "7", "0", "0"],
    ]
    assert last.startswith("11 passed, 5 failed, 4 skipped in ")
    assert last.endswith(f"logs: {tmp_path}")
    assert done.returncode == 1
    assert "no such file" in (tmp_path / "broken.log").read_text()


RUN_AGAIN = """
set -uo pipefail
logs=$1 passed=$2 limit_s=60
mkdir -p "$logs" "$passed"
. scripts/parts
one_more one sh -c 'echo ran >>"$0"; echo "2 passed in 5.00s"' "$2/../one"
one_more two sh -c 'echo ran >>"$0"; echo "1 failed in 5.00s"; exit 1' "$2/../two"
all_done
table
exit $failed
"""


def test_a_part_that_has_passed_on_this_commit_is_not_repeated(tmp_path: Path) -> None:
    for time in ("first", "second"):
        command = ["bash", "-c", RUN_AGAIN, "run", str(tmp_path / time), str(tmp_path / "passed")]
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
        *_, one, two, last = done.stdout.splitlines()
        assert [line.split()[:3] for line in (one, two)] == [["one", "2", "0"], ["two", "0", "1"]]
        assert last.startswith("2 passed, 1 failed")
        assert done.returncode == 1
    assert (tmp_path / "one").read_text().split() == ["ran"]
    assert (tmp_path / "two").read_text().split() == ["ran", "ran"]


PARTS = ("operators", "engine", "lake", "index", "views", "delta", "replica", "kafka", "web", "postgres", "simulator")
OF_TESTS = re.compile(r"^from (tests\.[a-z_.]+) import", re.MULTILINE)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_reads_all_that_its_files_import(part: str) -> None:
    """Else a part that has passed would not be repeated when a file changed that it needs."""
    command = ["bash", "-c", '. scripts/parts; read_by "$0"', part]
    told = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=True).stdout
    read = {line.partition("\t")[2] for line in told.splitlines()}
    assert "src/tidefill/core/step.py" in read
    missing = {
        (name, module)
        for name in read
        if name.startswith("tests/") and name.endswith(".py")
        for module in OF_TESTS.findall((REPO / name).read_text())
        if module.replace(".", "/") + ".py" not in read and not (REPO / module.replace(".", "/")).is_dir()
    }
    assert not missing
