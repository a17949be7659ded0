"""Looking at jobs, pausing them and simulating must start at once, and work where no Spark is installed."""

import subprocess
import sys

import pytest

HEAVY = {"pyspark", "delta", "pandas", "numpy", "pyarrow", "sqlalchemy", "psycopg"}
LIGHT = ["tidefill", "tidefill.errors", "tidefill.core.step", "tidefill.ports", "tidefill.runner", "tidefill.cli"]


@pytest.mark.parametrize("module", LIGHT)
def test_nothing_heavy_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
