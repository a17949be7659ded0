"""What suites share: one profile for all property tests (the same examples in every run, and no verdict that depends on
a slow machine), one Spark and one PostgreSQL for each run of pytest.

A start of Spark takes as long as fifty tests. Other processes reach it over Spark Connect. Nothing of Spark is imported
before a test asks for it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.engine.shop import Shop
    from tests.postgres.harness import Postgres

PORT = "spark.connect.grpc.binding.port"
SECRET = ("spark.hadoop.fs.s3a.secret.key", "a secret: not for everybody\\")  # see spark/test_seclusion.py

settings.register_profile("tidefill", max_examples=60, deadline=None, derandomize=True, database=None)
settings.load_profile("tidefill")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tests.quick_spark import QUICK
    from tidefill.local.sockets import free_port
    from tidefill.local.spark import HOST, TOKEN_VARIABLE
    from tidefill.spark.start import local_session

    token = os.environ[TOKEN_VARIABLE] = secrets.token_hex(16)  # for the processes that tests start
    extra_conf = {
        **QUICK,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.authenticate.token": token,
        PORT: str(free_port(HOST)),
        SECRET[0]: SECRET[1],
    }
    session = local_session(cores=2, extra_conf=extra_conf)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def empty_catalog(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test finds what another left in the catalog: names that are taken there are refused."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        views = {row.viewName for row in session.sql("SHOW VIEWS").collect() if not row.isTemporary}
        for row in session.sql("SHOW TABLES").collect():
            if not row.isTemporary:
                kind = "VIEW" if row.tableName in views else "TABLE"
                session.sql(f"DROP {kind} IF EXISTS spark_catalog.default.`{row.tableName}`")


@pytest.fixture(autouse=True)
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of tests are so small that a recompute is mostly cheaper; what is tested are steps. So no job here
    learns what its steps took."""
    if "spark" in request.fixturenames and "learns" not in request.keywords:
        from tidefill.run.machine import BackfillMachine

        monkeypatch.setattr(BackfillMachine, "_samples_of", lambda self, job: ())


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    from tidefill.local.spark import HOST

    return f"sc://{HOST}:{spark.conf.get(PORT)}"


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    from tests.engine.shop import Shop

    made = Shop(spark, tmp_path)
    yield made
    made.engine.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    import psycopg

    from tests.postgres.harness import Postgres
    from tidefill.local.postgres import local_postgres

    with local_postgres() as server:
        made = Postgres(server, psycopg.connect(server.url(), autocommit=True))
        made.set_up()
        yield made
        made.owner.close()
