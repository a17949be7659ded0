"""A server for Spark Connect as a process of its own, to be killed: `python -m tests.spark.connect_server PORT`."""

from __future__ import annotations

import sys

from tests.quick_spark import QUICK
from tidefill.spark.session import local_session


def main(port: str) -> None:
    plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    local_session(cores=2, extra_conf={**QUICK, **plugin, "spark.connect.grpc.binding.port": port})
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
