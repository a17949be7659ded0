"""A server for Spark Connect as a process of its own, to be killed: `python -m tests.engine.connect_server PORT`."""

from __future__ import annotations

import os
import sys

from tests.quick_spark import QUICK
from tidefill.local.spark import HOST, TOKEN_VARIABLE
from tidefill.spark.start import local_session


def main(port: str) -> None:
    settings = {
        **QUICK,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.connect.authenticate.token": os.environ[TOKEN_VARIABLE],
    }
    local_session(cores=2, extra_conf=settings)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
