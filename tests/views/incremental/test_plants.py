"""Each rule, broken on purpose: the query that is about it must show it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest
from sqlglot import exp

from tests.views.incremental import world
from tests.views.incremental.history import is_noticed, move_and_lessen
from tests.views.incremental.queries import DIRECTED
from tests.views.incremental.world import Walks, World
from tidefill.views.plan import changes, drivers, limits, plan, sums
from tidefill.views.plan.changes import Changes
from tidefill.views.relations import joins, keys, sets, subqueries, texts, using
from tidefill.views.relations.relations import InnerJoin, LeftJoin, Matched, Relation, scans

Plant = Callable[[pytest.MonkeyPatch], None]


def _always_new(patch: pytest.MonkeyPatch) -> None:
    rows = Changes.rows
    patch.setattr(Changes, "rows", lambda self, relation, at: rows(self, relation, "new"))


def _everything_has_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Changes, "has_changed", lambda self, relation: True)


def _forget_the_right_side(patch: pytest.MonkeyPatch) -> None:
    def of_left(self: Changes, relation: LeftJoin | Matched) -> exp.Query:
        changed = self.has_changed(relation.left)
        left = self.delta(relation.left) if changed else self.delta(relation.right)
        columns = relation.left.columns if changed else ()
        items = [(column, texts.col(column) if column in columns else exp.null()) for column in relation.columns]
        weighted = texts.select([*items, *changes._WEIGHTED], texts.table(left), where=None if changed else exp.false())
        if not changed:
            return weighted
        return self._outer(relation, left, self.rows(relation.right, "new"), weighted=True)

    patch.setattr(Changes, "_delta_of_outer", of_left)


def _changed_left_rows_meet_what_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_MET", changes._AT["new"])


def _left_rows_meet_both(patch: pytest.MonkeyPatch) -> None:
    outer = Changes._outer
    patch.setattr(Changes, "_outer", lambda *arguments, also=(), **named: outer(*arguments, **named))


def _what_came_was_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_came", exp.false)


def _any_changes_tell_by_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "tells_by_key", lambda relation: True)


def _partitions_of_both_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "apart", lambda window: window)


def _ties_of_those_that_changed_suffice(patch: pytest.MonkeyPatch) -> None:
    inner = Changes._inner

    def loosely(self: Changes, relation: InnerJoin, steps: Sequence[str], first: int, *, weighted: bool = False):  # type: ignore[no-untyped-def]
        if weighted and isinstance(relation.inputs[0], InnerJoin):
            relation = replace(relation, conditions=())
        return inner(self, relation, steps, first, weighted=weighted)

    patch.setattr(Changes, "_inner", loosely)


def _null_is_no_match(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subqueries, "coalesce", lambda value, instead: value)


def _keys_by_plain_equality(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "same", lambda left, right: exp.EQ(this=left, expression=right))


def _never_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sums, "lost", lambda kept, before, change, *, netted: exp.false())


def _what_comes_stays(patch: pytest.MonkeyPatch) -> None:
    found = sums.lost
    patch.setattr(sums, "lost", lambda kept, before, change, *, netted: found(kept, before, change, netted=True))


def _sums_without_a_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sums, "_comes", lambda: exp.true())


def _groups_by_plain_equality(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "same", lambda left, right: exp.EQ(this=left, expression=right))


def _any_equality_tells_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keys, "one_to_one", lambda types, left, right: True)


def _any_join_tells_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keys, "determines", lambda left, right, on, types: True)


def _conditions_before_every_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joins, "_adds_rows", lambda joins: False)


def _groups_of_nothing_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "_mark_of_count", lambda grouped: exp.Literal.string("U"))


def _walk_any_side(patch: pytest.MonkeyPatch) -> None:
    def every(relation: Relation, walks: drivers.Walks) -> Iterator[drivers._Choice]:
        for scan in reversed(list(scans(relation))):
            yield drivers._Choice(drivers.Drivers((scan.occurrence,)))

    patch.setattr(drivers, "_choices", every)


def _no_netting(patch: pytest.MonkeyPatch) -> None:
    select = texts.select

    def without_having(*arguments: object, **named: object) -> exp.Select:
        named.pop("having", None)
        return select(*arguments, **named)  # type: ignore[arg-type]

    patch.setattr(changes, "select", without_having)


def _using_is_the_left_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(using, "_chosen", lambda names, pairs, kind, fresh: ([left for left, _ in pairs], []))


def _except_does_not_take_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sets, "_kept", lambda tree, first, last: exp.EQ(this=first, expression=exp.Literal.number(0)))


def _only_where_rows_come(patch: pytest.MonkeyPatch) -> None:
    delta = Changes.delta

    def affected(self: Changes, child: Relation, values: list[exp.Expr]) -> str:
        comes = texts.select(changes._affected(values), texts.table(delta(self, child)), where=changes._COMES)
        return self._distinct(comes, len(values))

    patch.setattr(Changes, "_affected_by", affected)


def _a_count_of_nothing_is_null(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subqueries, "counts", lambda call: False)


def _limits_keep_null_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "is_null", lambda value: exp.false())


def _limits_of_what_comes(patch: pytest.MonkeyPatch) -> None:
    def asked(step: str, columns: Sequence[str]) -> exp.Select:
        return found(step, columns).where("__tf_w > 0") if "delta" in step else found(step, columns)

    found = limits.asked
    patch.setattr(limits, "asked", asked)


def _limits_of_any_types(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "one_to_one", lambda types, left, right: True)


def _chunks_cut_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(world, "end_of_group", lambda key, columns: key)


def _any_groups_are_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drivers, "_by_groups", lambda one, values, walks: replace(one.drivers, group_columns=1))


def _the_last_groups_decide(patch: pytest.MonkeyPatch) -> None:
    def by_groups(one: drivers._Choice, values: Iterable[exp.Expr], walks: drivers.Walks) -> drivers.Drivers:
        return found(replace(one, drivers=replace(one.drivers, appends=True)), values, walks)

    found = drivers._by_groups
    patch.setattr(drivers, "_by_groups", by_groups)


def _any_column_of_the_walk_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(itertools, "takewhile", filter)


def _finer_bounds_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drivers, "_coarser", max)


PLANTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "old inputs are taken for new ones": (
        _always_new,
        ("join of many to many", "three tables", "self join", "value", "window of a join"),
    ),
    "what did not change is taken for changed": (_everything_has_changed, ("foreign key join", "left join")),
    "a left join minds its left side only": (_forget_the_right_side, ("left join", "NOT EXISTS", "full join")),
    "changed left rows meet what the right side is": (
        _changed_left_rows_meet_what_is,
        ("left join", "NOT EXISTS", "EXISTS"),
    ),
    "left rows meet what the right side was and is": (_left_rows_meet_both, ("left join", "NOT EXISTS", "EXISTS")),
    "what came was there before": (
        _what_came_was_there,
        ("nested aggregate", "row number", "EXISTS", "left join"),
    ),
    "the changes of a join tell by its key what came": (_any_changes_tell_by_key, ("window of a join",)),
    "what is and what was are in one partition": (_partitions_of_both_times, ("row number", "aggregates over")),
    "those that changed are tied to the others by nothing": (
        _ties_of_those_that_changed_suffice,
        ("three tables", "theta join"),
    ),
    "NOT IN ignores NULL": (_null_is_no_match, ("NOT IN, with NULL",)),
    "affected rows are found by plain equality": (
        _keys_by_plain_equality,
        ("count distinct", "nested aggregate", "INTERSECT", "row number"),
    ),
    "an extreme that is taken away stays": (_never_lost, ("min and max", "min of a join", "scalar")),
    "what goes is added": (_sums_without_a_sign, ("sum", "average")),
    "the group of NULL is never found": (_groups_by_plain_equality, ("count", "DISTINCT", "HAVING", "EXCEPT")),
    "an equality of other types tells the key": (_any_equality_tells_the_key, ("join of other types",)),
    "a left join has one match at most": (_any_join_tells_the_key, ("left join", "left join, theta")),
    "a condition is asked before a right join": (_conditions_before_every_join, ("right join, condition after it",)),
    "an empty group stays": (_groups_of_nothing_stay, ("count",)),
    "any input may be walked": (_walk_any_side, ("left join", "NOT EXISTS", "UNION ALL")),
    "USING shows the left column of every join": (_using_is_the_left_one, ("USING, full",)),
    "EXCEPT and INTERSECT look at the left side only": (_except_does_not_take_away, ("EXCEPT", "INTERSECT")),
    "a row does not leave its old partition": (_only_where_rows_come, ("row number", "top of each group")),
    "a count of nothing is NULL": (_a_count_of_nothing_is_null, ("count by row", "value by row in SELECT")),
    "NULL is outside of all limits": (_limits_keep_null_out, ("count distinct", "row number")),
    "limits are those of rows that come": (_limits_of_what_comes, ("join of many to many", "foreign key join")),
    "limits are taken across types": (_limits_of_any_types, ("join of other types",)),
    "changes are not netted": (_no_netting, ("left join", "join of aggregates")),
}


OF_WHOLE_GROUPS: dict[str, tuple[Plant, tuple[str, ...], Walks]] = {
    "a chunk cuts a group": (
        _chunks_cut_groups,
        ("count", "HAVING", "count distinct", "row number"),
        {"a": ("g", "id")},
    ),
    "groups by anything are whole": (
        _any_groups_are_whole,
        ("nested aggregate", "scalar", "aggregate of UNION", "INTERSECT", "window of groups"),
        {"a": ("g", "id"), "b": ("y", "id")},
    ),
    "only the last groups have to be whole": (_the_last_groups_decide, ("window of a window",), {"a": ("s", "id")}),
    "any column of the walk will do": (
        _any_column_of_the_walk_will_do,
        ("count", "row number"),
        {"a": ("s", "g", "id")},
    ),
    "bounds are as fine as the finest groups": (
        _finer_bounds_will_do,
        ("count of DISTINCT",),
        {"a": ("g", "s", "id")},
    ),
}


@pytest.mark.parametrize("plant", OF_WHOLE_GROUPS)
def test_it_is_noticed_that_groups_are_not_whole(
    plant: str, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in, names, walks = OF_WHOLE_GROUPS[plant]
    put_in(monkeypatch)
    for name in names:
        assert is_noticed(DIRECTED[name], connection, walks), f"{name} does not notice that {plant}"


@pytest.mark.parametrize("plant", PLANTS)
def test_a_broken_rule_is_noticed(
    plant: str, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in, names = PLANTS[plant]
    put_in(monkeypatch)
    for name in names:
        assert is_noticed(DIRECTED[name], connection), f"{name} does not notice that {plant}"


def test_it_is_noticed_that_what_comes_is_taken_to_stay(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    _what_comes_stays(monkeypatch)
    with pytest.raises(AssertionError, match="min"):
        move_and_lessen(World(DIRECTED["min of a join"], random.Random(1), connection))


def test_it_is_noticed_that_the_target_changes_where_nothing_did(connection: duckdb.DuckDBPyConnection) -> None:
    world = World(DIRECTED["filter"], random.Random(1), connection)
    world.data["a"] = {(1,): (1, 2, Decimal(1), "a")}
    world.begin()
    world.step()
    world.target.clear()
    with pytest.raises(AssertionError, match="missing"):
        world.step()
