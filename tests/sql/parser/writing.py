"""The inverse of `parse`: statements of every kind, and the words that they are written with."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from hypothesis import strategies as st

from tidefill.sql.statements import (
    AlterJob,
    BackfillIndexes,
    CancelJob,
    CatalogTable,
    CreateIndex,
    CreateIndexes,
    CreateReplica,
    CreateView,
    DropIndex,
    DropJob,
    DropReplica,
    DropView,
    Explain,
    IndexPart,
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
    Value,
    Verify,
)

names = st.text(min_size=1).filter(lambda name: not name.lower().startswith("__tf_"))
columns = st.lists(names, min_size=1, max_size=3).map(tuple)
flags = st.booleans()
texts = st.text(st.characters(exclude_categories=["Cs"]))

queries = st.lists(st.sampled_from(["a", "(b)", "';'", "`;`", '"it\'s"', "/* ; */ 1", "-- '\n1"]), min_size=1).map(
    lambda words: " ".join(["SELECT", *words])
)

values: st.SearchStrategy[Value] = (
    st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | flags
    | st.none()
)

options = st.dictionaries(names.map(str.lower), values, min_size=1, max_size=3).map(lambda found: tuple(found.items()))
maybe_options = st.just(()) | options
tables = st.builds(Location, texts.filter(bool)) | st.builds(CatalogTable, columns)

index_columns = st.lists(
    st.sampled_from(["a", "lower(a)", "(a::date)", "(a || ', (')", "f(a, b)"]), min_size=1, max_size=3
).map(tuple)  # fmt: skip
conditions = st.sampled_from(["", "a <> 'WITH ('", "(a > 1 and b in (1, 2))"])

index_parts = st.builds(IndexPart, names, index_columns, flags, st.just(()) | columns, conditions, flags)

creates = (
    st.builds(CreateView, names, queries, maybe_options, flags)
    | st.builds(CreateView, names, queries, maybe_options, or_replace=st.just(True))
    | st.builds(CreateReplica, names, columns, maybe_options, flags)
    | st.builds(
        CreateIndex,
        names,
        columns,
        index_columns,
        flags,
        st.just(()) | columns,
        conditions,
        maybe_options,
        flags,
        flags,
    )
    | st.builds(
        CreateIndexes, names, columns, st.lists(index_parts, min_size=1, max_size=3).map(tuple), maybe_options, flags
    )
)

statements: st.SearchStrategy[Statement] = st.one_of(
    st.builds(RegisterTable, names, tables, columns, st.just(()) | columns),
    st.sampled_from([ShowTables(), ShowJobs(), ShowEvents()]),
    st.sampled_from([UnregisterTable, CancelJob, PauseJob]).flatmap(lambda kind: st.builds(kind, names, flags)),
    st.sampled_from([DropView, DropReplica, DropIndex, DropJob]).flatmap(
        lambda kind: st.builds(kind, names, flags, flags)
    ),
    st.sampled_from([ShowJob, ShowEvents, ShowSteps, ShowViolations, ResumeJob, ResyncJob, Verify]).flatmap(
        lambda kind: st.builds(kind, names)
    ),
    st.builds(ShowIndexes, st.just(()) | columns),
    st.builds(BackfillIndexes, columns),
    creates,
    st.builds(Explain, creates, flags),
    st.builds(AlterJob, names, options),
    st.builds(Query, queries),
)

blanks = st.sampled_from([" ", "\n", "\t \r\n", " /* ; ' */ ", " -- ; `\n"])


OfJobs: TypeAlias = (
    ShowTables | ShowJobs | ShowJob | ShowEvents | ShowSteps | ShowIndexes | ShowViolations
    | PauseJob | ResumeJob | CancelJob | ResyncJob | AlterJob | Verify
)  # fmt: skip


def written(statement: Statement) -> list[str]:
    """The inverse of `parse`, as words, all names in backticks."""
    match statement:
        case RegisterTable(name, table, key, walk):
            where = ["LOCATION", quoted(table.path)] if isinstance(table, Location) else ["AS", *dotted(table.parts)]
            walked = ["WALK", *listed(walk)] if walk else []
            return ["REGISTER", "TABLE", ticked(name), *where, "KEY", *listed(key), *walked]
        case UnregisterTable(name, if_exists):
            return ["UNREGISTER", "TABLE", *(["IF", "EXISTS"] if if_exists else []), ticked(name)]
        case CreateView(name, sql, found, if_not_exists, or_replace):
            made = ["CREATE", *(["OR", "REPLACE"] if or_replace else []), "MATERIALIZED", "VIEW"]
            return [*made, *unless(if_not_exists), ticked(name), *having(found), "AS", sql]
        case CreateReplica(name, source, found, if_not_exists):
            made = ["CREATE", "REPLICA", *unless(if_not_exists), ticked(name)]
            return [*made, "FROM", *dotted(source), *having(found)]
        case CreateIndex():
            return _written_index(statement)
        case CreateIndexes(name, table, indexes, found, if_not_exists):
            made = ["CREATE", "INDEXES", *unless(if_not_exists), ticked(name), "ON", *dotted(table), "("]
            parts = [word for one in indexes for word in (",", *_written_part(one))][1:]
            return [*made, *parts, ")", *having(found)]
        case BackfillIndexes(table):
            return ["BACKFILL", "INDEXES", "ON", *dotted(table)]
        case Explain(create, with_sql):
            return ["EXPLAIN", *(["SQL"] if with_sql else []), *written(create)]
        case (
            DropView(name, if_exists, cascade)
            | DropReplica(name, if_exists, cascade)
            | DropIndex(name, if_exists, cascade)
            | DropJob(name, if_exists, cascade)
        ):
            kind = _DROPPED[type(statement)]
            exists, along = ["IF", "EXISTS"] if if_exists else [], ["CASCADE"] if cascade else []
            return ["DROP", *kind, *exists, ticked(name), *along]
        case Query(sql):
            return [sql]
        case _:
            return _written_of_job(statement)


_DROPPED = {
    DropView: ["MATERIALIZED", "VIEW"], DropReplica: ["REPLICA"], DropIndex: ["INDEX"], DropJob: ["JOB"],
}  # fmt: skip


def _written_part(part: IndexPart) -> list[str]:
    include = ["INCLUDE", *listed(part.include)] if part.include else []
    where = ["WHERE", part.where] if part.where else []
    unique = ["UNIQUE"] if part.unique else []
    nulls = ["NULLS", "NOT", "DISTINCT"] if part.nulls_not_distinct else []
    return [*unique, ticked(part.name), "(", ", ".join(part.columns), ")", *include, *nulls, *where]


def _written_index(statement: CreateIndex) -> list[str]:
    unique = ["UNIQUE"] if statement.unique else []
    made = ["CREATE", *unique, "INDEX", *unless(statement.if_not_exists), ticked(statement.name)]
    keys = [word for column in statement.columns for word in (",", column)][1:]
    include = ["INCLUDE", *listed(statement.include)] if statement.include else []
    where = ["WHERE", statement.where] if statement.where else []
    nulls = ["NULLS", "NOT", "DISTINCT"] if statement.nulls_not_distinct else []
    more = [*include, *nulls, *where, *having(statement.options)]
    return [*made, "ON", *dotted(statement.table), "(", *keys, ")", *more]


def _written_of_job(statement: OfJobs) -> list[str]:
    match statement:
        case ShowTables():
            return ["SHOW", "TABLES"]
        case ShowJobs():
            return ["SHOW", "JOBS"]
        case ShowJob(name):
            return ["SHOW", "JOB", ticked(name)]
        case ShowEvents(job):
            return ["SHOW", "EVENTS", *(["FOR", ticked(job)] if job is not None else [])]
        case ShowSteps(name):
            return ["SHOW", "STEPS", ticked(name)]
        case ShowIndexes(table):
            return ["SHOW", "INDEXES", *(["ON", *dotted(table)] if table else [])]
        case ShowViolations(name):
            return ["SHOW", "VIOLATIONS", ticked(name)]
        case PauseJob(name, fill_only):
            return ["PAUSE", "JOB", ticked(name), *(["FILL"] if fill_only else [])]
        case ResumeJob(name):
            return ["RESUME", "JOB", ticked(name)]
        case CancelJob(name, cascade):
            return ["CANCEL", "JOB", ticked(name), *(["CASCADE"] if cascade else [])]
        case ResyncJob(name):
            return ["RESYNC", "JOB", ticked(name)]
        case AlterJob(name, found):
            return ["ALTER", "JOB", ticked(name), "SET", *assigned(found)]
        case Verify(name):
            return ["VERIFY", ticked(name)]
        case _:
            assert_never(statement)


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def dotted(parts: tuple[str, ...]) -> list[str]:
    return [word for part in parts for word in (".", ticked(part))][1:]


def listed(parts: tuple[str, ...]) -> list[str]:
    return ["(", *[word for part in parts for word in (",", ticked(part))][1:], ")"]


def unless(if_not_exists: bool) -> list[str]:
    return ["IF", "NOT", "EXISTS"] if if_not_exists else []


def having(found: Options) -> list[str]:
    return ["WITH", "(", *assigned(found), ")"] if found else []


def assigned(found: Options) -> list[str]:
    return [word for name, value in found for word in (",", ticked(name), "=", literal(value))][1:]


def literal(value: Value) -> str:
    return quoted(value) if isinstance(value, str) else str(value)
