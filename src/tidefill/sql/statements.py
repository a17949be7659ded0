"""What a user can say in SQL, one frozen value per statement.

Names are unquoted and as written: whether they exist, and that capitals make no difference, is the engine's matter. So
is which options there are, and which values they take.
"""

from __future__ import annotations

from dataclasses import dataclass

Value = int | float | str | bool | None
"""What can stand after an option. None lifts a limit."""

Options = tuple[tuple[str, Value], ...]
"""Names, in lower case and each of them once, with their values, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Location:
    """A table by where it lies."""

    path: str


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table by its name in the catalog, in parts."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """Name a table, and say which columns identify a row. `walk` is empty if the user leaves it to us."""

    name: str
    table: Location | CatalogTable
    key: tuple[str, ...]
    walk: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnregisterTable:
    """Forget a name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowTables:
    """List the registered tables."""


@dataclass(frozen=True, slots=True)
class CreateView:
    """Make a materialized view. `sql` is the user's own text, which Spark reads later. `or_replace`: a view that has
    the name gets the query."""

    name: str
    sql: str
    options: Options = ()
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateReplica:
    """Make a copy of `source`, a name in one to three parts."""

    name: str
    source: tuple[str, ...]
    options: Options = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Make an index on `table`, a name in one to three parts. `columns`, `where`: SQL of the server that has the table,
    or of Spark."""

    name: str
    table: tuple[str, ...]
    columns: tuple[str, ...]
    unique: bool = False
    include: tuple[str, ...] = ()
    where: str = ""
    options: Options = ()
    if_not_exists: bool = False
    nulls_not_distinct: bool = False


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One of several indexes of a statement."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    include: tuple[str, ...] = ()
    where: str = ""
    nulls_not_distinct: bool = False


@dataclass(frozen=True, slots=True)
class CreateIndexes:
    """Make several indexes on `table` by one job, which has the `name`, and one scan."""

    name: str
    table: tuple[str, ...]
    indexes: tuple[IndexPart, ...]
    options: Options = ()
    if_not_exists: bool = False


Create = CreateView | CreateReplica | CreateIndex | CreateIndexes


@dataclass(frozen=True, slots=True)
class BackfillIndexes:
    """Begin all deferred indexes of `table`."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explain:
    """Say what `create` would do, and do nothing. `with_sql`: show the generated SQL too."""

    create: Create
    with_sql: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    """Remove a view, whatever its state. `cascade`: and all that reads it."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class DropReplica:
    """Remove a replica, whatever its state. `cascade`: and all that reads it."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Remove an index, whatever its state."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class DropJob:
    """Remove a job, whatever it makes and whatever its state. `cascade`: and all that reads it."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class ShowJobs:
    """List the jobs and how they stand."""


@dataclass(frozen=True, slots=True)
class ShowJob:
    """Say how one job stands."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowEvents:
    """List what happened: to one job, or to all of them."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class ShowSteps:
    """List the steps of a job that are kept."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """List the indexes, of all tables or of one."""

    table: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowViolations:
    """List the keys of a unique index that several rows have; on a server, that they had when its build failed."""

    name: str


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Let a job stand still. `fill_only`: stop filling, and keep what is there fresh."""

    name: str
    fill_only: bool = False


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Let a job go on, after a pause or a failure."""

    name: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Remove a job before it is live. `cascade`: and all that reads it."""

    name: str
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class ResyncJob:
    """Build what a job makes anew."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterJob:
    """Change the settings of a job while it runs. There is at least one option."""

    name: str
    options: Options


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare what a job has made with a recompute."""

    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """Read tables that are registered or made by jobs. `sql` is the user's own text."""

    sql: str


Statement = (
    RegisterTable
    | UnregisterTable
    | ShowTables
    | CreateView
    | CreateReplica
    | CreateIndex
    | CreateIndexes
    | BackfillIndexes
    | Explain
    | DropView
    | DropReplica
    | DropIndex
    | DropJob
    | ShowJobs
    | ShowJob
    | ShowEvents
    | ShowSteps
    | ShowIndexes
    | ShowViolations
    | PauseJob
    | ResumeJob
    | CancelJob
    | ResyncJob
    | AlterJob
    | Verify
    | Query
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement, with its own text (without the semicolon) and the line, from 1, on which that begins in its script.

    For messages: what goes wrong when the statement is executed shall name it as the user wrote it.
    """

    statement: Statement
    text: str
    line: int
