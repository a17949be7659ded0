"""One Spark and one PostgreSQL for the whole suite."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.replica.harness import Postgres
from tests.spark.conftest import connect_url as connect_url
from tests.spark.conftest import empty_catalog as empty_catalog
from tests.spark.conftest import spark as spark
from tidefill.local.postgres import local_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with local_postgres() as server:
        made = Postgres(server, psycopg.connect(server.url(), autocommit=True))
        made.set_up()
        yield made
        made.owner.close()
