"""From a statement to the call of the engine that does it, and to what a person is told.

Wishes are statements too, and this module imports nothing heavy, so a program that builds a statement as a value
need not parse one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, assert_never

from tidefill.delta.explain_document import (
    KIND_NAMES,
    explanation,
    facts,
    key_text,
    walk_facts,
)
from tidefill.engine.creating import NOTICE
from tidefill.engine.engine import Engine, Happened
from tidefill.engine.job import Job
from tidefill.errors import UnknownJob, UnknownTable, VerifyFailed
from tidefill.jobs.amounts import seconds_text, size_text
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    Kind,
    LakeIndexDefinition,
    OnServer,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.plain_text import FACTS as FACTS
from tidefill.jobs.row import Settings, name_key
from tidefill.jobs.settings import BY_SPARK, INCREMENTAL, SORTS, check_setting_names
from tidefill.jobs.sql_names import quoted
from tidefill.jobs.status import UNKNOWN, Status
from tidefill.postgres.index.explain import ExplainedIndex
from tidefill.sql.indexes import (
    backfill_indexes,
    defined,
    index_words,
    indexes_words,
    list_indexes,
    part_rows,
    violations,
)
from tidefill.sql.result import Result, Until, waits
from tidefill.sql.statements import (
    AlterJob,
    BackfillIndexes,
    CancelJob,
    CatalogTable,
    Create,
    CreateIndex,
    CreateIndexes,
    CreateReplica,
    CreateView,
    DropIndex,
    DropJob,
    DropReplica,
    DropView,
    Explain,
    Location,
    Options,
    PauseJob,
    Query,
    RegisterTable,
    ResumeJob,
    ResyncJob,
    ShowEvents,
    ShowIndexes,
    ShowJob,
    ShowJobs,
    ShowSteps,
    ShowTables,
    ShowViolations,
    Statement,
    UnregisterTable,
    Verify,
)
from tidefill.sql.steps import list_steps

ROWS_MAX = 1000  # of a SELECT: more than anybody reads, and little enough to hold
EVENTS_SHOWN_MAX = 10
DIFFERENCES_SHOWN_MAX = 10
OF_TOPICS = (
    "format", "columns", "include", "from", "on_bad_message", "mode", "key", "key_format", "incomplete",
)  # fmt: skip
_NAMED_OPTIONS: dict[type[Create], tuple[str, ...]] = {
    CreateReplica: ("publication", "slot", *OF_TOPICS), CreateView: ("refresh",), CreateIndex: ("method",),
    CreateIndexes: ("method",),
}  # fmt: skip
_KINDS = {DropView: Kind.VIEW, DropReplica: Kind.REPLICA, DropIndex: Kind.INDEX}


def execute(engine: Engine, statement: Statement) -> Result:
    """Do what the statement says. What is asked of a job is not waited for."""
    match statement:
        case RegisterTable():
            return _register(engine, statement)
        case UnregisterTable():
            return _unregister(engine, statement)
        case ShowTables():
            return _tables(engine)
        case CreateView() | CreateReplica() | CreateIndex() | CreateIndexes():
            return _create(engine, statement)
        case Explain(create, with_sql):
            return _explain(engine, create, with_sql)
        case DropView() | DropReplica() | DropIndex() | DropJob():
            return _drop(engine, statement)
        case ShowJobs():
            return _jobs(engine)
        case ShowJob(name):
            return _job(engine.job(name))
        case ShowEvents(name):
            return _events(engine, name)
        case ShowSteps(name):
            return list_steps(engine.job(name))
        case ShowIndexes(table):
            return list_indexes(engine, ".".join(table))
        case BackfillIndexes(table):
            return backfill_indexes(engine, ".".join(table))
        case ShowViolations(name):
            return violations(engine.job(name), name)
        case PauseJob() | ResumeJob() | CancelJob() | ResyncJob() | AlterJob():
            return _wish(engine.job(statement.name), statement)
        case Verify(name):
            return _verify(engine.job(name))
        case Query(sql):
            return _query(engine, sql)
        case never:
            assert_never(never)


# Tables and queries.


def _register(engine: Engine, statement: RegisterTable) -> Result:
    match statement.table:
        case Location(path):
            engine.register(statement.name, key=statement.key, walk=statement.walk, location=path)
        case CatalogTable(parts):
            engine.register(statement.name, key=statement.key, walk=statement.walk, table=".".join(map(quoted, parts)))
        case never:
            assert_never(never)
    return Result(message=f"table {statement.name} registered")


def _unregister(engine: Engine, statement: UnregisterTable) -> Result:
    try:
        engine.unregister(statement.name)
    except UnknownTable:
        if not statement.if_exists:
            raise
        return Result(message=f"there is no table {statement.name}; nothing to do")
    return Result(message=f"table {statement.name} unregistered")


def _tables(engine: Engine) -> Result:
    found = engine.registered()
    rows = [(each.name, ", ".join(each.key), ", ".join(each.walk), each.location or each.unreadable) for each in found]
    return Result(("table", "key", "walk", "location"), tuple(rows), "" if rows else "no tables")


def _query(engine: Engine, sql: str) -> Result:
    frame = engine.query(sql)
    from tidefill.spark.query import first_rows

    rows = first_rows(frame, ROWS_MAX + 1)
    message = f"only the first {ROWS_MAX} rows; LIMIT and WHERE show others" if len(rows) > ROWS_MAX else _count(rows)
    return Result(tuple(frame.columns), tuple(rows[:ROWS_MAX]), message)


def _count(rows: list[tuple[object, ...]]) -> str:
    return "1 row" if len(rows) == 1 else f"{len(rows)} rows"


# Making and ending.


def _create(engine: Engine, statement: Create) -> Result:
    settings = _create_settings(statement)
    known = {job.id for job in engine.jobs()}
    match statement:
        case CreateView(or_replace=True):
            return _create_or_replace(engine, statement, settings)
        case CreateView(name, sql):
            job = engine.create_view(name, sql, if_not_exists=statement.if_not_exists, **settings)
        case CreateReplica(name, source):
            job = engine.create_replica(name, ".".join(source), if_not_exists=statement.if_not_exists, **settings)
        case CreateIndex():
            wanted = index_words(statement)
            job = engine.create_index(statement.name, **wanted, if_not_exists=statement.if_not_exists, **settings)
        case CreateIndexes():
            wanted = indexes_words(statement)
            job = engine.create_indexes(statement.name, **wanted, if_not_exists=statement.if_not_exists, **settings)
        case never:
            assert_never(never)
    return _made(job, len(job.events()) if job.id in known else 0, "" if job.id in known else "created")


def _create_or_replace(engine: Engine, statement: CreateView, settings: dict[str, Any]) -> Result:
    """Of a view that is there already, with this query or with another one."""
    there = next((job for job in engine.jobs() if name_key(job.name) == name_key(statement.name)), None)
    before = None if there is None else there.asked_for()
    told = 0 if there is None else len(there.events())
    job = engine.create_view(statement.name, statement.sql, replace=True, **settings)
    if there is None:
        return _made(job, 0, "created")
    if job.asked_for() == before:
        return _made(job, told, "")
    read = "; its readers see the rows of the earlier query until those are there" if job.status().published else ""
    return _made(job, told, f"asked to be made by another query{read}")


def _made(job: Job, told: int, what: str) -> Result:
    """What came of CREATE; empty: nothing, the job was there already. `told`: how many events it had before."""
    status = job.status()
    what = what or f"{status.state}, {status.percent} %, and was there before"
    notices = [text for _, text in job.events()[told:] if text.startswith(NOTICE)]
    message = "\n".join([f"{KIND_NAMES.get(status.kind, 'job')} {job.name}: {what}", *notices])
    return Result(message=message, jobs=(job,), until=Until.LIVE)


def _create_settings(statement: Create) -> dict[str, Any]:
    """A replica also has names of what was made for it on the server, or the format of messages; a view has a way in
    which it is refreshed, and an index one in which it is filled."""
    named = _NAMED_OPTIONS[type(statement)]
    words = {"from": "begin"}  # no name of Python
    given = {words.get(name, name): str(value) for name, value in statement.options if name in named}
    return {**given, **_settings(tuple(option for option in statement.options if option[0] not in named))}


def _settings(options: Options) -> dict[str, Any]:
    """Checked here, as a name may not be one that the engine's methods have for something else."""
    check_setting_names(name for name, _ in options)
    return dict(options)


def _drop(engine: Engine, statement: DropView | DropReplica | DropIndex | DropJob) -> Result:
    name, kind = statement.name, _KINDS.get(type(statement))
    job = next((job for job in engine.jobs() if job.has_name(name)), None)
    if job is None and statement.if_exists:
        return Result(message=f"there is no {_kind_name(kind)} {name}; nothing to do")
    found = None if job is None else job.status().kind
    if job is not None and kind is not None and found not in (kind.value, UNKNOWN):
        other = KIND_NAMES[str(found)]
        fact, hint = f"there is no {_kind_name(kind)} {name}", f"DROP {other.upper()} {quoted(job.name)}"
        raise UnknownJob(fact, detail=f"{job.name} is a {other}.", hint=hint)
    job = job or engine.job(name)
    part = job.part_named(name)
    if part:
        job.drop_part(part)
        return Result(message=f"{part}: asked to drop", jobs=(job,))
    return _ended(job, "drop", job.drop(cascade=statement.cascade))


def _kind_name(kind: Kind | None) -> str:
    return "job" if kind is None else KIND_NAMES[kind.value]


def _ended(job: Job, verb: str, others: list[Job]) -> Result:
    """Asked of the job, and of those that end with it."""
    along = f", and with it {', '.join(other.name for other in others)}" if others else ""
    return Result(message=f"{job.name}: asked to {verb}{along}", jobs=(job, *others), until=Until.GONE)


# Wishes.


def _wish(job: Job, wish: PauseJob | ResumeJob | CancelJob | ResyncJob | AlterJob) -> Result:
    match wish:
        case PauseJob(_, fill_only):
            job.pause(fill_only=fill_only)
            return Result(message=f"{job.name}: asked to {'stop filling' if fill_only else 'pause'}", jobs=(job,))
        case ResumeJob():
            job.resume()
            return Result(message=f"{job.name}: asked to resume", jobs=(job,), until=Until.LIVE)
        case CancelJob(_, cascade):
            return _ended(job, "cancel", job.cancel(cascade=cascade))
        case ResyncJob():
            job.resync()
            return Result(message=f"{job.name}: asked to be built anew", jobs=(job,), until=Until.LIVE)
        case AlterJob(_, options):
            job.alter(**_settings(options))
            changed = ", ".join(f"{name} = {'NONE' if value is None else value}" for name, value in options)
            return Result(message=f"{job.name}: asked for {changed}", jobs=(job,))
        case never:
            assert_never(never)


# Looking.


def _jobs(engine: Engine) -> Result:
    columns = ("job", "kind", "state", "percent", "rows", "version", "waiting for", "runs")
    rows = [
        (
            each.name,
            each.kind,
            each.state,
            each.percent,
            each.rows,
            each.version,
            waits(each, each.condition),
            each.runs,
        )
        for each in engine.statuses()
    ]
    return Result(columns, tuple(rows), "" if rows else "no jobs")


def _does(status: Status) -> Iterator[tuple[str, object]]:
    """The step that is under way, if one is."""
    if status.doing is not None:
        yield "doing", ": ".join(part for part in (str(status.doing), ", ".join(status.doing.ranges)) if part)
        yield "for seconds", round(status.doing.for_s)


def _job(job: Job) -> Result:
    status = job.status()
    definition = None if status.kind == UNKNOWN else job.definition()
    known = [] if definition is None else [*_defined(definition), *_earlier(job)]
    on_server = isinstance(definition, OnServer)
    stands = [*_stands(status), *_set(status, on_server), *part_rows(status), *_split_rows(status)]
    rows = [*known, *stands, *_recent(job)]
    return Result(FACTS, (("job", job.name), *(row for row in rows if row[1] is not None)))


def _defined(definition: JobDefinition) -> Iterator[tuple[str, object]]:
    yield "kind", KIND_NAMES[definition.kind.value]
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            yield "reads", definition.input
        case LakeIndexDefinition():
            yield from defined(definition)
            yield "primary key", key_text(definition)
            yield from walk_facts(definition)
            return
        case RowViewDefinition() | PlannedViewDefinition() | FullViewDefinition():
            yield "reads", ", ".join(definition.tables)
            yield "query", definition.sql
        case IndexDefinition() | IndexesDefinition():
            yield from defined(definition)
            return
        case never:
            assert_never(never)
    yield "key", key_text(definition)
    yield from walk_facts(definition)


def _earlier(job: Job) -> Iterator[tuple[str, object]]:
    """Which query the rows are of that readers see, while another one is made."""
    earlier = job.earlier_definition()
    if isinstance(earlier, RowViewDefinition | PlannedViewDefinition | FullViewDefinition):
        yield "readers see", earlier.sql


def _stands(status: Status) -> Iterator[tuple[str, object]]:
    """What is not known is None."""
    yield "state", status.state
    yield "condition", status.condition or None
    yield "phase", status.phase or None
    yield "percent", status.percent
    yield "rows filled", status.rows
    yield "rows/s", round(status.rows_per_s, 1) if status.rows_per_s else None
    yield "seconds left", None if status.eta_s is None else round(status.eta_s)
    yield "version", status.version
    yield "versions behind", status.lag_versions
    yield "seconds behind", None if status.lag_s is None else round(status.lag_s)
    yield "log kept for it", None if status.log_bytes is None else size_text(status.log_bytes)
    yield from _does(status)
    yield "waiting for", status.waiting or None
    yield "asked to", ", ".join(status.wishes) or None
    yield "generation", status.generation
    yield "can be read", status.published
    yield "a runner runs it", status.runs
    if status.failure is not None:
        yield "failure", f"{status.failure.fact} [{status.failure.code}]"
        yield "detail", status.failure.detail or None
        yield "hint", status.failure.hint or None


def _set(status: Status, on_server: bool) -> Iterator[tuple[str, object]]:
    """`on_server`: it is an index on a server."""
    settings = status.settings
    by_spark = settings.sort in BY_SPARK
    yield "parallelism", settings.parallelism
    yield "rate_limit", "NONE" if settings.rate_limit is None else settings.rate_limit
    usual = "50,000, or 5,000 of initput" if on_server else "by the time that one takes"
    usual = "250,000" if by_spark else usual
    yield "chunk_rows", usual if settings.chunk_rows is None else settings.chunk_rows
    if on_server:
        timeout_s = settings.wait_timeout_s
        yield "wait_timeout", "NONE" if timeout_s is None else seconds_text(timeout_s)
        yield "abort_waiting", settings.abort_waiting
        yield "log_limit", _size(settings.log_limit)
        yield "sort", settings.sort or SORTS[1]
    else:
        yield "target_lag", seconds_text(settings.target_lag_s)
        yield "verify", settings.verify
        yield "vacuum", settings.vacuum
    if settings.steps_only:
        yield "refresh", INCREMENTAL
    if status.log_bytes is not None:
        yield "wal_budget", _size(settings.wal_budget)
        yield "wal_limit", _size(settings.wal_limit)
    yield "paused", status.pause


def _size(size: int | None) -> str:
    return "NONE" if size is None else size_text(size)


def _split_rows(status: Status) -> Iterator[tuple[str, object]]:
    for split in status.splits:
        yield "split", f"{split.range}: {split.reached}"


def _recent(job: Job) -> Iterator[tuple[str, object]]:
    for at_s, text in job.events()[-EVENTS_SHOWN_MAX:]:
        yield "event", f"{_moment(at_s)} {text}"


def _events(engine: Engine, name: str | None) -> Result:
    found = engine.events() if name is None else _events_of(engine, name)
    rows = [(_moment(each.at_s), each.job, each.text) for each in found]
    return Result(("at", "job", "event"), tuple(rows), "" if rows else "no events")


def _events_of(engine: Engine, name: str) -> list[Happened]:
    """Also those of a job that was dropped just now; UnknownJob if there are none and no job."""
    found = [each for each in engine.events() if each.job.casefold() == name.casefold()]
    if not found:
        engine.job(name)
    return found


def _moment(at_s: float) -> str:
    """In the time zone of this machine, with its distance from UTC."""
    return datetime.fromtimestamp(at_s, UTC).astimezone().isoformat(" ", "seconds")


def _verify(job: Job) -> Result:
    found = job.verify()
    at = "" if found.version is None else f" at version {found.version}"
    told = f"{found.rows} rows{at}, in {found.took_s:.1f} s"
    if found.differences:
        shown = "\n".join(found.differences[:DIFFERENCES_SHOWN_MAX])
        hint = f"RESYNC JOB {quoted(job.name)} builds it anew. Please report it with the log."
        raise VerifyFailed(f"{job.name} differs from a recompute: {told}", detail=shown, hint=hint)
    return Result(message="; ".join((f"{job.name}: equal to a recompute, {told}", *found.notes)))


# Explaining.


def _explain(engine: Engine, create: Create, with_sql: bool) -> Result:
    settings = _create_settings(create)
    match create:
        case CreateIndex():
            found = engine.explain_index(create.name, **index_words(create), **settings)
            if isinstance(found, ExplainedIndex):
                return Result(FACTS, tuple(found.facts()), document=found.document())
            explained = found
        case CreateIndexes():
            indexes = engine.explain_indexes(create.name, **indexes_words(create), **settings)
            return Result(FACTS, tuple(indexes.facts()), document=indexes.document())
        case CreateView(name, sql):
            explained = engine.explain_view(sql, replaces=name if create.or_replace else None, **settings)
        case CreateReplica(_, source):
            explained = engine.explain_replica(".".join(source), **settings)
        case never:
            assert_never(never)
    chunks = {name: settings[name] for name in ("chunk_rows", "rate_limit") if name in settings}
    asked = Settings(**chunks, steps_only=settings.get("refresh") == INCREMENTAL)
    told = explanation(create.name, explained, asked, with_sql=with_sql)
    return Result(FACTS, tuple(facts(told, explained.definition)), document=told)
