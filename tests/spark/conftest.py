"""One Spark for the whole suite: a start takes as long as fifty tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidefill.spark.session import JAVA_OPTIONS, local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # The tests are many small queries, each compiled anew: without the second compiler they take half the time.
    session = local_session(cores=2, extra_conf={JAVA_OPTIONS: "-XX:TieredStopAtLevel=1"})
    yield session
    session.stop()
