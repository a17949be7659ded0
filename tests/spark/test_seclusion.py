"""What other users of the machine can see of a local Spark, and reach of it."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.conftest import SECRET
from tidefill.local.spark import TOKEN_VARIABLE

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks into /proc")
LISTENS = "0A"


def our_java() -> int:
    """The process that this one has started Spark in."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            text = status.read_text()
            if f"PPid:\t{os.getpid()}\n" in text and text.startswith("Name:\tjava\n"):
                return int(status.parent.name)
    raise AssertionError("there is no Java")


def listening(pid: int) -> Iterator[str]:
    """The local addresses where the process waits for others, as the kernel writes them."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.update(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in sockets:
                yield fields[1].partition(":")[0]


def test_secrets_of_settings_are_on_no_command_line(spark: SparkSession) -> None:
    name, value = SECRET
    assert spark.conf.get(name) == value
    seen = b""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            seen += command.read_bytes()
    assert b"SparkSubmit" in seen
    assert value.encode() not in seen
    assert os.environ[TOKEN_VARIABLE].encode() not in seen


def test_no_port_is_open_to_other_machines(spark: SparkSession) -> None:
    addresses = list(listening(our_java()))
    assert len(addresses) >= 2, "Spark Connect, and the gateway of Python"
    assert [address for address in addresses if int(address, 16) == 0] == []


def test_spark_connect_asks_for_a_token(connect_url: str) -> None:
    with grpc.insecure_channel(connect_url.removeprefix("sc://")) as channel:
        service = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
        request = base_pb2.AnalyzePlanRequest(
            session_id=str(uuid.uuid4()), spark_version=base_pb2.AnalyzePlanRequest.SparkVersion()
        )
        with pytest.raises(grpc.RpcError) as refused:
            service.AnalyzePlan(request)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        known = (("authorization", f"Bearer {os.environ[TOKEN_VARIABLE]}"),)
        assert service.AnalyzePlan(request, metadata=known).spark_version.version
