"""A runner as a process of its own, to be killed: `python -m tests.spark.runner_process WAREHOUSE STORE`."""

from __future__ import annotations

import sys

from tidefill import connect, runner, service
from tidefill.engine import Engine
from tidefill.spark.session import JAVA_OPTIONS, local_session

LEASE_S = 4.0  # a killed runner keeps its jobs for so long


def main(warehouse: str, store: str) -> None:
    runner.LEASE_S = service.LEASE_S = LEASE_S  # type: ignore[attr-defined]
    service.HEARTBEAT_S = LEASE_S / 4
    spark = local_session(cores=2, extra_conf={JAVA_OPTIONS: "-XX:TieredStopAtLevel=1"})
    engine: Engine = connect(spark, warehouse, store)
    engine.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
