"""What a user may set of a job, by the names and in the words that he writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, assert_never

from tidefill.errors import InvalidSetting
from tidefill.jobs.amounts import seconds_of, size_of
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
)
from tidefill.jobs.row import Settings

OF_CHUNKS = ("rate_limit", "parallelism", "chunk_rows")
WAITING = ("wait_timeout", "abort_waiting")  # of an index, for transactions of others
OF_INDEX_ALONE = (*WAITING, "log_limit", "start", "sort")
OF_INDEX = (*OF_CHUNKS, *OF_INDEX_ALONE)
OF_SERVER_LOG = ("wal_budget", "wal_limit")  # of the log of a server that a replica is made from
SIZES = (*OF_SERVER_LOG, "log_limit")
SWITCHES = ("verify", "vacuum", "abort_waiting")
SETTINGS = ("target_lag", *OF_CHUNKS, *SWITCHES, *SIZES, "refresh", "wait_timeout", "start", "sort")
AUTO, INCREMENTAL, FULL = "auto", "incremental", "full"
"""How changes are taken in: by steps or by a recompute, whichever is cheaper; by steps alone; or, of a view that is
computed from nothing each time, by a recompute alone."""
AT_ONCE, DEFERRED = "now", "deferred"
"""When an index is made: with CREATE, or with BACKFILL INDEXES."""
SORTS = ("spark", "server", "none")
"""Who sorts the entries of an index: see `indexes.sorting`."""
BY_SPARK = ("spark", "none")
TIMES_AND_MORE = frozenset(("target_lag", "wait_timeout", "refresh", "start", "sort", *SIZES))
"""Those whose values are worked out here."""
FULL_LAG_S = 600.0  # how old what is computed anew may become, if nobody says


def check_setting_names(names: Iterable[str]) -> None:
    """InvalidSetting if a job has no such setting."""
    for name in names:
        if name not in SETTINGS:
            near = get_close_matches(name, SETTINGS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There is: {', '.join(SETTINGS)}."
            raise InvalidSetting(f"there is no setting {name}", hint=hint)


def changed_settings(before: Settings, asked: Mapping[str, Any]) -> Settings:
    """The settings, with what was asked for. InvalidSetting if that makes no sense."""
    check_setting_names(asked)
    changes = {name: value for name, value in asked.items() if name not in TIMES_AND_MORE}
    for name, value in changes.items():
        if name in SWITCHES:
            if type(value) is not bool:
                raise InvalidSetting(f"{name} is {value!r}", hint="Set it on or off.")
        elif not (type(value) is int or (value is None and name != "parallelism")):
            raise InvalidSetting(f"{name} is {value!r}", hint="Give a whole number.")
    if "target_lag" in asked:
        changes["target_lag_s"] = _seconds("target_lag", asked["target_lag"])
    if "wait_timeout" in asked:
        given = asked["wait_timeout"]
        changes["wait_timeout_s"] = None if given is None else _seconds("wait_timeout", given)
    if "start" in asked:
        changes["deferred"] = _is_deferred(asked["start"])
    if "sort" in asked:
        changes["sort"] = sort_asked(asked)
    if "refresh" in asked:
        changes["steps_only"] = _steps_only(asked["refresh"])
    changes |= {name: _bytes(name, asked[name]) for name in SIZES if name in asked}
    return replace(before, **changes)


def _steps_only(refresh: object) -> bool:
    if str(refresh).lower() == FULL:
        raise InvalidSetting(
            f"refresh cannot become {FULL}",
            hint=f"CREATE OR REPLACE MATERIALIZED VIEW ... WITH (refresh = {FULL}), with the same query.",
        )
    return _checked_refresh(str(refresh)) == INCREMENTAL


def _is_deferred(start: object) -> bool:
    if str(start).lower() not in (AT_ONCE, DEFERRED):
        raise InvalidSetting(f"start is {start!r}", hint=f"Set it to {AT_ONCE} or {DEFERRED}.")
    return str(start).lower() == DEFERRED


def sort_asked(asked: Mapping[str, Any]) -> str | None:
    """Who shall sort; None if nobody says. In SQL, NONE is also the word for no value."""
    if "sort" not in asked:
        return None
    found = "none" if asked["sort"] is None else str(asked["sort"]).lower()
    if found not in SORTS:
        raise InvalidSetting(f"sort is {asked['sort']!r}", hint=f"There is: {', '.join(SORTS)}.")
    return found


def _seconds(name: str, time: object) -> float:
    """`30 seconds`, 30, or a timedelta."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, (int, float)) and not isinstance(time, bool):
        return float(time)
    found_s = seconds_of(str(time))
    if found_s is None:
        raise InvalidSetting(f"{name} is {time!r}", hint="Write it like '30 seconds' or '5 minutes'.")
    return found_s


def _bytes(name: str, size: object) -> int | None:
    """`10 GB`, a number of bytes, or None."""
    found = size if size is None or type(size) is int else size_of(str(size))
    if found is None and size is not None:
        raise InvalidSetting(f"{name} is {size!r}", hint="Write it like '10 GB' or '500 MB', or NONE.")
    return found


def check_use(definition: JobDefinition, asked: Iterable[str]) -> None:
    """InvalidSetting for settings that would say nothing of such a job, or that would have us drop what is not ours."""
    match definition:
        case ServerReplicaDefinition():
            unused, slot = frozenset(("refresh",)), definition.slot
        case TopicReplicaDefinition():
            unused, slot = frozenset(("refresh", *OF_SERVER_LOG)), ""
        case ReplicaDefinition() | RowViewDefinition() | PlannedViewDefinition():
            unused, slot = frozenset(OF_SERVER_LOG), ""
        case FullViewDefinition():
            unused, slot = frozenset((*OF_SERVER_LOG, *OF_CHUNKS, "refresh")), ""
        case IndexDefinition() | IndexesDefinition():
            check_use_of_index(asked)
            return
        case never:
            assert_never(never)
    for name in asked:
        if name in OF_INDEX_ALONE:
            raise InvalidSetting(f"{name} is for indexes on a server", hint="Leave it out.")
        if name in unused and name in OF_SERVER_LOG:
            raise InvalidSetting(f"{name} is for replicas of another database's tables", hint="Leave it out.")
        if name == "wal_limit" and slot:
            raise InvalidSetting(
                f"wal_limit would drop the slot {slot}, which somebody else made",
                hint="Set max_slot_wal_keep_size on the server instead.",
            )
        if name in unused and name == "refresh":
            raise InvalidSetting("refresh cannot be set of this job: there is one way only", hint="Leave it out.")
        if name in unused:
            raise InvalidSetting(
                f"{name} is for what is filled in chunks; this view is computed whole", hint="Leave it out."
            )


def check_use_of_index(asked: Iterable[str]) -> None:
    """InvalidSetting for settings that say nothing of an index: writers keep it themselves, so it has no lag."""
    for name in asked:
        if name not in OF_INDEX:
            raise InvalidSetting(f"{name} cannot be set of an index", hint=f"There is: {', '.join(OF_INDEX)}.")


def check_altered(definition: JobDefinition, before: Settings, asked: Mapping[str, Any]) -> None:
    """InvalidSetting for settings that cannot be changed of such a job, or would say nothing of it."""
    check_use(definition, asked)
    if "sort" in asked:
        raise InvalidSetting("sort is chosen when an index is created", hint="Drop the index, and create it again.")
    if isinstance(definition, IndexesDefinition):
        check_several(asked)


def check_several(asked: Iterable[str]) -> None:
    """InvalidSetting for `parallelism` of several indexes: one session fills them all from one scan."""
    if "parallelism" in asked:
        raise InvalidSetting("parallelism is for a job with one index", hint="Leave it out.")


def is_full(refresh: str) -> bool:
    """Whether a view is to be computed from nothing each time."""
    return _checked_refresh(refresh) == FULL


def settings_of_view(refresh: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with what `refresh` says, if it was given, beside the kind of the view."""
    return dict(settings) if refresh is None or is_full(refresh) else {**settings, "refresh": refresh}


def _checked_refresh(refresh: str) -> str:
    found = refresh.lower()
    if found not in (AUTO, INCREMENTAL, FULL):
        raise InvalidSetting(f"refresh is {refresh!r}", hint=f"Set it to {AUTO}, {INCREMENTAL} or {FULL}.")
    return found
