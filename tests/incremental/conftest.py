"""One Spark for the whole suite."""

from tests.spark.conftest import spark

__all__ = ["spark"]
