"""A local Spark that several processes use: it lives in one of them, the others reach it over Spark Connect.

A second Spark would cost a second start and a second heap; and who is killed takes only itself down.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidefill.local.sockets import free_port
from tidefill.spark.start import JAVA_OPTIONS, local_session

HOST = "localhost"  # the client sends its token to no other host without TLS
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# For a Spark that lives for minutes on few cores: no threads for garbage, no proof that the classes of Spark are
# well-formed, and no second compiler, which pays off only after minutes (and without which Java has to be told to keep
# enough room for machine code).
QUICK_START = (
    "-XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
)


@dataclass(frozen=True, slots=True)
class SharedSpark:
    """The session of this process, and what the others need: the URL, and the variable with the token that keeps
    strangers out."""

    session: SparkSession
    url: str
    variables: dict[str, str]


def shared_spark(extra_conf: Mapping[str, str]) -> SharedSpark:
    """Start it, with these settings."""
    port, token = free_port(HOST), secrets.token_hex(16)
    settings = {
        **extra_conf,
        JAVA_OPTIONS: QUICK_START,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
    }
    session = local_session(extra_conf=settings)
    return SharedSpark(session, f"sc://{HOST}:{port}", {TOKEN_VARIABLE: token})
