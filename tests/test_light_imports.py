"""Looking at jobs, pausing them and simulating must start at once, and work where no Spark is installed."""

import subprocess
import sys
import tempfile

import pytest

HEAVY = {
    "pyspark",
    "delta",
    "pandas",
    "numpy",
    "pyarrow",
    "sqlalchemy",
    "psycopg",
    "sqlglot",
    "grpc",
    "confluent_kafka",
}
LIGHT = [
    "tidefill", "tidefill.errors", "tidefill.core.step", "tidefill.ports", "tidefill.run.runner",
    "tidefill.jobs.status",
    "tidefill.cli", "tidefill.cli.render.jobs", "tidefill.cli.render.findings", "tidefill.cli.render.lines",
    "tidefill.cli.render.tables", "tidefill.cli.render.screen",
    "tidefill.cli.arguments", "tidefill.cli.failures", "tidefill.cli.look", "tidefill.cli.wishes",
    "tidefill.cli.answers", "tidefill.cli.checks", "tidefill.cli.run", "tidefill.cli.prompt", "tidefill.cli.web",
]  # fmt: skip


@pytest.mark.parametrize("module", LIGHT)
def test_nothing_heavy_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_the_engine_needs_no_spark_until_it_reads_a_table() -> None:
    program = (
        "import sys, tidefill; e = tidefill.connect(store=sys.argv[1]); e.jobs(); e.tables(); e.close();"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == {"sqlalchemy"}
