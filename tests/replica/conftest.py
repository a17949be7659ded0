"""One Spark and one PostgreSQL for the whole suite."""

from collections.abc import Iterator

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.replica.harness import Postgres
from tests.spark.conftest import PORT, free_port
from tidefill.local.postgres import local_postgres
from tidefill.spark.session import JAVA_OPTIONS, local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    extra_conf = {
        JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        PORT: str(free_port()),
    }
    session = local_session(cores=2, extra_conf=extra_conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    return f"sc://127.0.0.1:{spark.conf.get(PORT)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with local_postgres() as server:
        made = Postgres(server, psycopg.connect(server.url(), autocommit=True))
        made.set_up()
        yield made
        made.owner.close()
