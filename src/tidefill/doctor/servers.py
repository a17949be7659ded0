"""The connections of the settings, and the PostgreSQL servers and Kafka clusters that they lead to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tidefill.config import FROM_VARIABLE, KAFKA, Connection, is_secret, masked
from tidefill.doctor.case import Case
from tidefill.doctor.findings import Finding, Verdict, not_too_many, with_detail
from tidefill.doctor.reading import read_rows, read_store_id
from tidefill.errors import InvalidSetting, TidefillError
from tidefill.kafka.connections import Topics
from tidefill.kafka.settings import check_settings
from tidefill.postgres.connections import Databases


def check_connections(case: Case) -> Iterator[Finding]:
    """Whether the URL of each connection is known, and kept as a secret is."""
    for connection in case.config.connections:
        yield _connection(case, connection)


def _connection(case: Case, connection: Connection) -> Finding:
    what = f"connection {connection.name}"
    if connection.kind == KAFKA:
        return _cluster_settings(case, connection, what)
    variable = connection.variable
    if variable is None:
        if masked(connection.url) == connection.url:
            return Finding(what, Verdict.OK, f"its URL is in {case.config.path}")
        remedy = 'Put the URL into an environment variable, and in its place write url = "env:VARIABLE"'
        return Finding(what, Verdict.WARNING, f"its password is in {case.config.path}", remedy)
    try:
        case.config.connection_url(connection.name, case.environ)
    except InvalidSetting as error:
        return Finding(what, Verdict.BAD, error.fact, error.hint)
    return Finding(what, Verdict.OK, f"{variable} is set")


def check_servers(case: Case) -> Iterator[Finding]:
    """Those that can be asked: what is wrong with a connection's settings is found by `check_connections`."""
    if not case.config.connections:
        return
    listed = {resource.name.rpartition("/")[2] for row in read_rows(case) or () for resource in row.resources}
    for connection in case.config.connections:
        if connection.kind == KAFKA:
            yield from _cluster(case, connection.name)
            continue
        with suppress(InvalidSetting):
            yield from _server(case, connection.name, case.config.connection_url(connection.name, case.environ), listed)


def _server(case: Case, name: str, url: str, listed: set[str]) -> Iterator[Finding]:
    what, store_id = f"server of {name}", read_store_id(case)
    try:
        answer = Databases([name], lambda _: url, lambda: store_id).answer(name)
    except TidefillError as error:
        remedy = error.hint or "Check the URL, that the server runs, and that it lets you in: psql URL"
        yield Finding(what, Verdict.BAD, masked(with_detail(error.fact, error.detail)), remedy)
        return
    yield Finding(what, Verdict.OK, f"PostgreSQL {answer.release} answers, {_slots(answer.slots_left)}")
    if answer.slots_left < 1:
        remedy = "Drop a slot that nobody uses (pg_replication_slots), or raise max_replication_slots and restart it."
        yield Finding(what, Verdict.WARNING, "no more replicas can be made: it has no free replication slot", remedy)
    orphans = [slot for slot in answer.slots if slot not in listed] if store_id else []
    yield from not_too_many(what, [_orphaned_slot(what, slot) for slot in orphans])


def _cluster_settings(case: Case, connection: Connection, what: str) -> Finding:
    open_secrets = [
        name for name, text in connection.settings if is_secret(name) and not text.startswith(FROM_VARIABLE)
    ]
    try:
        check_settings(connection.name, dict(connection.settings))
        case.config.client_settings(connection.name, case.environ)
    except InvalidSetting as error:
        return Finding(what, Verdict.BAD, error.fact, error.hint)
    if open_secrets:
        remedy = f'Put it into an environment variable, and in its place write "{open_secrets[0]}" = "env:VARIABLE"'
        return Finding(what, Verdict.WARNING, f"{open_secrets[0]} is in {case.config.path}", remedy)
    return Finding(what, Verdict.OK, f"its settings are in {case.config.path}")


def _cluster(case: Case, name: str) -> Iterator[Finding]:
    """Whether the cluster answers."""
    what = f"cluster of {name}"
    try:
        server = Topics([name], lambda one: case.config.client_settings(one, case.environ)).server(name)
        cluster, brokers = server.answer()
    except InvalidSetting:
        return
    except TidefillError as error:
        remedy = error.hint or "Check bootstrap.servers, that the brokers run, and that they let you in."
        yield Finding(what, Verdict.BAD, masked(with_detail(error.fact, error.detail)), remedy)
        return
    yield Finding(what, Verdict.OK, f"Kafka answers: cluster {cluster}, {brokers} broker{'s' * (brokers != 1)}")


def _slots(left: int) -> str:
    return "1 replication slot is left" if left == 1 else f"{left} replication slots are left"


def _orphaned_slot(what: str, slot: str) -> Finding:
    fact = f"no job of this store knows the slot {slot}, which keeps the log of the server"
    return Finding(what, Verdict.WARNING, fact, f"SELECT pg_drop_replication_slot('{slot}')")
