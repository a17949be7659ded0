"""The Spark of an engine: started when it is needed, and another one when it is lost."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidefill.errors import RetryLater, SparkLost, Unavailable
from tidefill.extras import with_extra
from tidefill.kafka.connections import Topics
from tidefill.postgres.connections import Databases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidefill.delta.build import Builder
    from tidefill.delta.define import Definer
    from tidefill.delta.inputs import Tables
    from tidefill.delta.warehouse import Warehouse
    from tidefill.kafka.replica import TopicReplicas
    from tidefill.postgres.replica import Replicas


@dataclass(frozen=True, slots=True)
class Lake:
    """Everything that is done with one Spark session."""

    spark: SparkSession
    warehouse: Warehouse
    tables: Tables
    builder: Builder
    definer: Definer
    replicas: Replicas
    topics: Topics

    @property
    def topic_replicas(self) -> TopicReplicas:
        """Of the topics of Kafka, whose client is installed on request."""
        with with_extra("kafka"):
            from tidefill.kafka.replica import TopicReplicas
        return TopicReplicas(self.topics, self.tables, self.builder)


class Lakes:
    """The lake of an engine. `given`: a session, or what starts one; None for a local Spark. `starting` is entered
    while Spark starts. `catalog_lasts`: Spark's catalog may outlive this process."""

    def __init__(
        self,
        given: SparkSession | Callable[[], SparkSession] | None,
        place: str,
        databases: Databases,
        topics: Topics,
        starting: Callable[[], AbstractContextManager[object]],
        *,
        catalog_lasts: bool,
    ) -> None:
        self._given = given
        self._place = place
        self._databases = databases
        self._topics = topics
        self._starting = starting
        self._catalog_lasts = catalog_lasts
        self._made: Lake | None = None
        self._making = threading.Lock()

    def lake(self) -> Lake:
        """The lake; Spark is started if it has not been."""
        with self._making:
            if self._made is None:
                with self._starting(), with_extra("spark"):
                    self._made = self._make()
        from tidefill.spark.session import make_active

        make_active(self._made.spark)
        return self._made

    @property
    def started(self) -> bool:
        """Whether there is a lake now, and so a Spark."""
        return self._made is not None

    def _make(self) -> Lake:
        from tidefill.delta.build import Builder
        from tidefill.delta.define import Definer
        from tidefill.delta.inputs import Tables
        from tidefill.delta.warehouse import Warehouse, prepare_warehouse
        from tidefill.postgres.replica import Replicas

        prepare_warehouse(self._place)
        spark = self._session()
        warehouse, tables = Warehouse(self._place), Tables(spark)
        builder = Builder(tables, warehouse)
        replicas = Replicas(self._databases, tables, builder)
        return Lake(spark, warehouse, tables, builder, Definer(tables, builder), replicas, self._topics)

    def _session(self) -> SparkSession:
        from tidefill.spark.session import check_session
        from tidefill.spark.start import local_session

        if self._given is None:
            return local_session()
        return self._given() if callable(self._given) else check_session(self._given)

    def may_have_views(self) -> bool:
        """Whether there may be views of jobs in Spark's catalog now. A Spark of our own keeps its catalog in memory, so
        while none runs in this process there are none."""
        if self._made is not None or self._catalog_lasts or {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
            return True
        if "pyspark" not in sys.modules:
            return False
        from tidefill.spark.start import runs_here

        return runs_here()

    def lost(self, error: Exception) -> RetryLater | None:
        """What to raise if the error came because Spark is gone: another one is started next time, unless the session
        was given."""
        if self._made is None:
            return None
        from tidefill.spark.session import is_gone
        from tidefill.spark.start import forget

        if not is_gone(self._made.spark, error):
            return None
        detail = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        if self._given is not None and not callable(self._given):
            hint = "Start Spark again, then run the jobs with a new session. They go on from where they are."
            return SparkLost("the Spark session that was given is gone", detail=detail, hint=hint)
        forget(self._made.spark)
        self._made = None
        return Unavailable("Spark does not answer any more, so another session is started", detail=detail)
