"""How an engine is made: from a session and a warehouse, or from the settings of a project."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from tidefill.config import KAFKA, POSTGRES, SPARK_REMOTE, Config
from tidefill.engine.engine import Engine
from tidefill.kafka.connections import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connect(
    spark: SparkSession | None = None,
    warehouse: str | os.PathLike[str] = "lake",
    store: str | os.PathLike[str] = ".tidefill",
    connections: Mapping[str, str | Mapping[str, str]] | None = None,
) -> Engine:
    """An engine over the store in that directory, or in the PostgreSQL database at that URL (its log is then in
    ./.tidefill). Without a session, a local Spark is started when it is needed. `connections`: the URLs of databases,
    or the client settings of Kafka clusters, by the names that they have here."""
    urls = {name: url for name, url in (connections or {}).items() if isinstance(url, str)}
    clusters = {name: settings for name, settings in (connections or {}).items() if not isinstance(settings, str)}
    return Engine(
        spark, os.fspath(warehouse), store, connections=urls, url_of=urls.__getitem__,
        catalog_lasts=spark is not None, topics=Topics(tuple(clusters), clusters.__getitem__),
    )  # fmt: skip


def connect_as(config: Config, starting: Callable[[], AbstractContextManager[object]] = nullcontext[None]) -> Engine:
    """An engine with the settings of a project. `starting` is entered while Spark starts."""

    def start() -> SparkSession:
        from tidefill.spark.start import local_session, remote_session

        settings = dict(config.spark)
        remote = settings.pop(SPARK_REMOTE, None)
        return local_session(extra_conf=settings) if remote is None else remote_session(remote, settings)

    names, topics = config.names_of(POSTGRES), Topics(config.names_of(KAFKA), config.client_settings)
    place, logs = config.store_place(), config.log_folder
    lasts = any(word in name for name in dict(config.spark) for word in (SPARK_REMOTE, "catalog", "hive"))
    return Engine(
        start, config.warehouse, place, starting, names, config.connection_url, logs,
        catalog_lasts=lasts, topics=topics,
    )  # fmt: skip
