"""One Spark for the whole suite."""

from tests.spark.conftest import empty_catalog, spark

__all__ = ["empty_catalog", "spark"]
