"""Puts jobs over Delta tables into the store, and gives views another query: what is checked last, and what is kept.

Another query is a wish in the job's row. Nothing is made here: the runner of the job begins a generation of the new
definition beside what readers see, as RESYNC does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidefill.delta.explain_document import explanation
from tidefill.engine.inputs import Inputs
from tidefill.errors import InUse, NameTaken, TidefillError, WrongState
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import FullViewDefinition, Kind, LakeDefinition, job_from_text, job_to_text
from tidefill.jobs.graph import Graph, definition_of, names_needed, names_read, newest_definition_of
from tidefill.jobs.namespace import USERS_NAMED_MAX, Definitions, Replacement, check_replaced, ends, readers_of
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.replacing import Shown, missed
from tidefill.jobs.row import Job as Row
from tidefill.jobs.row import Settings
from tidefill.jobs.settings import FULL_LAG_S, changed_settings
from tidefill.jobs.wishes import Wish, same_wish
from tidefill.ports.clock import Clock
from tidefill.store.sql_store import SqlStore

if TYPE_CHECKING:
    from tidefill.delta.explain_result import Explained
    from tidefill.delta.inputs import Input
    from tidefill.engine.lakes import Lake

NOTICE = "notice: "  # begins an event that tells what a person should know of a job that was created


class Creating:
    """CREATE of jobs over Delta tables. `lake` starts Spark if it has to."""

    def __init__(self, store: SqlStore, clock: Clock, inputs: Inputs, lake: Callable[[], Lake]) -> None:
        self._store = store
        self._clock = clock
        self._inputs = inputs
        self._lake = lake

    def attached(self, name: str, wish: Wish, any_will_do: bool) -> Row | None:
        """The job that has the name, if it was created by the same wish, or if `any_will_do`; else None."""
        row = self._store.find(name)
        if row is None or not (any_will_do or same_wish(wish, job_from_text(row.newest_definition))):
            return None
        _check_stays(row)
        return row

    def create(self, name: str, wish: Wish, explained: Explained, asked: Mapping[str, Any]) -> Row:
        """The new job; or the one that has the name, if it was created by the same wish meanwhile."""
        definition, settings = explained.definition, changed_settings(_usual(explained), asked)
        known = self._store.find(name)
        if known is not None and same_wish(wish, job_from_text(known.newest_definition)):
            return known
        if known is None and self._store.table(name) is None:
            self._check_name(name)
        if known is None:
            self._check_keys(definition)
        told = explanation(name, explained, settings, with_sql=False)
        row = Row(uuid.uuid4().hex, name, job_to_text(definition), settings=settings)
        made = self._store.create(row, names_read(row), as_json(told))
        self._tell(made, explained if made.id == row.id else None)
        return made

    def _check_name(self, name: str) -> None:
        """Raise NameTaken if a new job of that name could not be shown in the session's catalog."""
        from tidefill.delta.catalog import check_name

        check_name(self._lake().spark, name)

    def _check_keys(self, definition: LakeDefinition) -> None:
        """KeyNotUnique if a registered table does not keep the promise of its key, where that matters."""
        for table in () if isinstance(definition, FullViewDefinition) else definition.tables:
            if self._store.table(table) is not None:
                self._lake().tables.check_keys(self._inputs.find((table,)))

    def _tell(self, row: Row, explained: Explained | None) -> None:
        for notice in () if explained is None else explained.notices:
            self._store.add_event(row.id, self._clock.now_s(), f"{NOTICE}{notice}")

    # CREATE OR REPLACE.

    def view_to_replace(self, name: str) -> Row | None:
        """The view of that name; None if the name is free; NameTaken if something else has it."""
        if (table := self._store.table(name)) is not None:
            raise _is_no_view(table.name, "registered table", f"UNREGISTER TABLE {table.name}")
        row = self._store.find(name)
        if row is None:
            return None
        _check_stays(row)
        kind = definition_of(row).kind
        if kind is not Kind.VIEW:
            raise _is_no_view(name, kind.value, f"DROP {kind.value.upper()} {name}")
        jobs.check_settings(row)
        return row

    def replace(self, row: Row, explained: Explained, asked: Mapping[str, Any]) -> Row:
        """Give the view another query. Raises what stands against that, before anything is changed."""
        readers = self.check_readers(row, explained)
        self._check_keys(explained.definition)
        settings = _settings_of_replaced(row, explained, asked)
        told = as_json(explanation(row.name, explained, settings(row.settings), with_sql=False))
        text = job_to_text(explained.definition)
        wish = jobs.wish_replace(text, settings)
        replacement = Replacement(explained.definition.tables, names_needed, readers, told)
        made = self._store.replace(row.id, wish, replacement)
        self._tell(made, explained)
        return made

    def check_readers(self, row: Row, explained: Explained) -> Mapping[str, Definitions]:
        """The definitions of all that read the view. UnsupportedQuery if the view would read itself. InUse, naming
        those that could not go on over what the view will show."""
        rows = [one for one in self._store.jobs() if not ends(one)]
        wished = replace(row, wanted_definition=job_to_text(explained.definition))
        readers = readers_of(row, rows, names_needed)
        others = [one for one in rows if one.id != row.id]
        check_replaced(wished, others, Replacement((), names_needed, readers))
        self._refuse_loss(row, explained.definition, [one for one in others if one.id in readers])
        self._check_mixtures(row, [replace(row, definition=job_to_text(explained.definition)), *others])
        return readers

    def _refuse_loss(self, row: Row, definition: LakeDefinition, readers: Sequence[Row]) -> None:
        if not readers:
            return
        after = self._inputs.future(row.name, definition)
        shown, will_show = self._shown(self._inputs.find((row.name,))), self._shown(after)
        refused = {one.name: self._why_not(one, after, shown, will_show) for one in readers}
        named = [f"{name} ({why})" for name, why in sorted(refused.items()) if why]
        if named:
            more = f"; and {len(named) - USERS_NAMED_MAX} more" if len(named) > USERS_NAMED_MAX else ""
            raise InUse(
                f"{row.name} cannot have this query: others could not read it any more",
                detail=f"They would miss: {'; '.join(named[:USERS_NAMED_MAX])}{more}.",
                hint="Keep what they read, or replace or drop them first.",
            )

    def _why_not(self, reader: Row, after: Input, shown: Shown, will_show: Shown) -> str:
        """What keeps the reader from going on, by its definition and by the one that it is to have; empty if nothing
        does."""
        for text in dict.fromkeys((reader.definition, reader.newest_definition)):
            of_reader = definition_of(replace(reader, definition=text))
            why = missed(of_reader, after.name, shown, will_show)
            if why:
                return why
            try:
                self._lake().definer.check_reader(of_reader, self._inputs.find, after)
            except TidefillError as error:
                return error.fact
        return ""

    def _shown(self, table: Input) -> Shown:
        """The columns that users see, and those of the key."""
        tables = self._lake().tables
        every, seen = tables.empty(table, tables.spark).schema, tables.shown(table).names
        kinds = {field.name: field.dataType.simpleString() for field in every}
        return Shown({name: kinds[name] for name in kinds if name in seen or name in table.key}, table.key)

    def _check_mixtures(self, row: Row, rows: list[Row]) -> None:
        """UnsupportedQuery if two replicas of one table would come together in what reads the view, however far
        above."""
        graph, above = Graph(rows), {row.name}
        while True:
            found = {one.name for one in rows if any(used.name in above for used in graph.inputs_by_name(one) if used)}
            if found <= above:
                break
            above |= found
        for one in (one for one in rows if one.name in above):
            self._inputs.refuse_mixtures(names_read(one), graph)


def _check_stays(row: Row) -> None:
    if ends(row):
        raise WrongState(f"{row.name} is being dropped", hint="Create it again when it is gone.")


def _is_no_view(name: str, kind: str, remove: str) -> NameTaken:
    article = "an" if kind[0] in "aeiou" else "a"
    return NameTaken(
        f"{name} is {article} {kind}, and no view",
        detail="CREATE OR REPLACE gives another query to a materialized view, and to nothing else.",
        hint=f"Choose another name, or first {remove}.",
    )


def _usual(explained: Explained) -> Settings:
    """The settings of a new job, if nobody says anything."""
    usual = Settings(chunk_rows=explained.chunk_rows, parallelism=explained.parallelism)
    if isinstance(explained.definition, FullViewDefinition):
        return replace(usual, target_lag_s=FULL_LAG_S, verify=False)
    return usual


def _settings_of_replaced(row: Row, explained: Explained, asked: Mapping[str, Any]) -> Callable[[Settings], Settings]:
    """The settings stay, but for what is given, and for the size of chunks, which goes by the query. A view that is
    computed whole from now on, or no longer, begins with the usual ones."""
    usual = _usual(explained)
    was_full = isinstance(newest_definition_of(row), FullViewDefinition)
    is_full = isinstance(explained.definition, FullViewDefinition)

    def settings(before: Settings) -> Settings:
        kept = replace(before, chunk_rows=usual.chunk_rows) if was_full is is_full else usual
        return changed_settings(kept, asked)

    return settings
