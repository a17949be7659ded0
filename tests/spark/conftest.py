"""One Spark for the whole suite: a start takes as long as fifty tests. Other processes reach it over Spark Connect."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.quick_spark import QUICK
from tests.spark.shop import Shop
from tidefill.sockets import free_port
from tidefill.spark.session import local_session
from tidefill.spark.shared import HOST, TOKEN_VARIABLE

PORT = "spark.connect.grpc.binding.port"
SECRET = ("spark.hadoop.fs.s3a.secret.key", "a secret: not for everybody\\")  # see test_seclusion.py


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
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


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    return f"sc://{HOST}:{spark.conf.get(PORT)}"


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(spark, tmp_path)
    yield made
    made.engine.close()
