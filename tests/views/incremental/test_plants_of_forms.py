"""Each rule of the forms that came later, broken on purpose: the query that is about it must show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import duckdb
import pytest
from sqlglot import exp

from tests.views.incremental.history import is_noticed
from tests.views.incremental.queries import DIRECTED
from tidefill.views.plan import changes, drivers, tail, top
from tidefill.views.plan.changes import Changes
from tidefill.views.relations import generators, lower, sessions, sets, subqueries, tails, texts
from tidefill.views.relations import top as limits
from tidefill.views.relations.grouping_sets import Groupings
from tidefill.views.relations.lowered import Lowered
from tidefill.views.relations.relations import FullJoin, Generated, LeftJoin, Relation, Top

Plant = Callable[[pytest.MonkeyPatch], None]


def _right_rows_always_match(patch: pytest.MonkeyPatch) -> None:
    def matched(self: Changes, relation: FullJoin) -> exp.Query:
        self._parts[id(relation)] = LeftJoin(relation.left, relation.right, relation.on, ()), None  # type: ignore[assignment]
        delta = self.delta(self._parts[id(relation)][0])
        items = [(relation.tag, texts.number(0)), *texts.plain(relation.columns[1:]), *changes._WEIGHTED]
        return texts.select(items, texts.table(delta))

    patch.setattr(Changes, "_delta_of_full", matched)


def _every_row_qualifies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower, "by_items", lambda *arguments, **named: exp.true())


def _having_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    without = subqueries.without_groups
    patch.setattr(subqueries, "without_groups", lambda tree: without(subqueries._without(tree, "having")))


def _no_time_is_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generators, "Filter", lambda child, condition: child)


def _rows_of_one_row_are_one(patch: pytest.MonkeyPatch) -> None:
    for module in (generators, sets):
        patch.setattr(module, "Generated", lambda child, call, outputs, own: Generated(child, call, outputs, ()))


def _every_grouping_has_all_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Groupings, "having", lambda self, value: list(range(len(self.sets))))


def _choices_stay_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower, "with_choices", lambda tree, choose: tree)


def _the_left_side_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sets, "_times", lambda tree, left, right: left)


def _in_is_never_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subqueries, "_in_mark", lambda count, nulls, value: subqueries._above_zero(count))


def _constants_come_with_each_chunk(patch: pytest.MonkeyPatch) -> None:
    together = drivers._together

    def appended(parts: Sequence[drivers.Drivers]) -> drivers.Drivers:
        return together([replace(one, appends=True) for one in parts])

    patch.setattr(drivers, "_together", appended)


def _what_was_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def now(self: Changes, relation: Relation, rows: Callable[[changes.At], exp.Select]) -> exp.Query:
        half = self.statement.step("half", rows("new"))
        return texts.select([*texts.plain(relation.columns), (texts.WEIGHT, texts.number(1))], texts.table(half))

    patch.setattr(Changes, "_halves", now)


def _one_common_column_will_do(patch: pytest.MonkeyPatch) -> None:
    common = lower._common
    patch.setattr(lower, "_common", lambda left, right: common(left, right)[:1])


def _names_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    renamed = lower._renamed
    patch.setattr(lower, "_renamed", lambda shown, alias: renamed(tuple(reversed(shown)), alias) if alias else shown)


def _nothing_made_is_nothing_kept(patch: pytest.MonkeyPatch) -> None:
    made = generators.generated
    patch.setattr(lower, "generated", lambda call, given, names, outer=False: made(call, given, names))


def _the_last_row_is_no_bound(patch: pytest.MonkeyPatch) -> None:
    def lost(placed: str, rows: int) -> exp.Query:
        few = exp.LT(this=exp.Max(this=texts.col(top._COUNT)), expression=texts.number(rows))
        return texts.select([("n", exp.Max(this=texts.col(top._COUNT)))], texts.table(placed), having=few)

    patch.setattr(top, "_lost", lost)


def _what_is_there_suffices(patch: pytest.MonkeyPatch) -> None:
    lost = top._lost
    patch.setattr(top, "_lost", lambda placed, rows: lost(placed, 0))


def _those_that_come_have_no_order(patch: pytest.MonkeyPatch) -> None:
    first_rows = texts.first_rows
    patch.setattr(top, "first_rows", lambda query, order, rows: first_rows(query, reversed(order), rows))


def _those_that_go_stay(patch: pytest.MonkeyPatch) -> None:
    def all_of_it(query: exp.Select, source: exp.Expr, kind: str, on: exp.Expr) -> exp.Select:
        return query if kind == "anti" else query.where(exp.false())

    patch.setattr(top, "joined", all_of_it)


def _rows_that_come_and_go_are_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(top, "is_simple", lambda relation: True)


def _all_go_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(top, "_order", lambda root: [
        exp.Ordered(this=texts.col(top._names(root)[one.this.name]), nulls_first=True) for one in root.child.order
    ])  # fmt: skip


def _skipped_rows_are_in_the_view(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(top, "why_anew", lambda root: "")


def _the_key_is_no_end_of_the_order(patch: pytest.MonkeyPatch) -> None:
    made = limits.top

    def without(lowered: Lowered, limit: limits.Limit, columns: Sequence[str]) -> tuple[Lowered, tuple[str, ...]]:
        found, missing = made(lowered, limit, columns)
        assert isinstance(found.relation, Top)
        order = found.relation.order[: len(columns)]
        return replace(found, relation=replace(found.relation, order=order)), missing

    patch.setattr(lower, "top", without)


def _null_is_where_it_always_is(patch: pytest.MonkeyPatch) -> None:
    made = limits.top

    def first(lowered: Lowered, limit: limits.Limit, columns: Sequence[str]) -> tuple[Lowered, tuple[str, ...]]:
        order = [exp.Ordered(**{**one.args, "nulls_first": not one.args.get("desc")}) for one in limit.order]
        return made(lowered, replace(limit, order=tuple(order)), columns)

    patch.setattr(lower, "top", first)


def _a_chunk_has_first_rows_of_its_own(patch: pytest.MonkeyPatch) -> None:
    choices = drivers._choices

    def appended(relation: Relation, walks: drivers.Walks) -> Iterator[drivers._Choice]:
        return choices(relation.child if isinstance(relation, Top) else relation, walks)

    patch.setattr(drivers, "_choices", appended)


def _rows_before_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tail, "_with_carried", lambda column, one, kind: (column, texts.col(column)))


def _equal_rows_come_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tail, "same", lambda left, right: exp.false())


def _nobody_looks_at_rows_nearby(patch: pytest.MonkeyPatch) -> None:
    looks = tails.look_back
    patch.setattr(tail, "look_back", lambda items: tuple(replace(one, back=0, ahead=0) for one in looks(items)))


def _rows_that_are_looked_at_change_too(patch: pytest.MonkeyPatch) -> None:
    """They come with what the functions say of them without the rows before them."""

    def all_of_them(query: exp.Select, source: exp.Expr, kind: str, on: exp.Expr) -> exp.Select:
        ends = query.args["from_"].this.name.endswith("over") and source.name.endswith("place")
        return query if ends else texts.joined(query, source, kind, on)

    patch.setattr(tail, "joined", all_of_them)


def _nulls_go_with_the_direction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tail, "_nulls_first", lambda one: not tail._falls(one))


def _any_order_rises(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tail, "_falls", lambda one: False)


def _looking(patch: pytest.MonkeyPatch, kind: type[exp.Expr], instead: tails.Looks) -> None:
    looks = tails.looks_of
    patch.setattr(tails, "looks_of", lambda window: instead if isinstance(window.this, kind) else looks(window))


def _each_row_takes_a_place(patch: pytest.MonkeyPatch) -> None:
    _looking(patch, exp.DenseRank, tails.Looks(tails.Carried.ROWS))


def _no_row_minds_those_after_it(patch: pytest.MonkeyPatch) -> None:
    _looking(patch, exp.Ntile, tails.Looks(tails.Carried.NOTHING))


def _only_rows_that_are_there_count(patch: pytest.MonkeyPatch) -> None:
    now = Changes.now_and_before

    def there(self: Changes, relation: Relation, rows: Callable[[changes.At], exp.Select]) -> str:
        sides = texts.table(now(self, relation, rows))
        columns = [*texts.plain(relation.columns), (texts.WEIGHT, texts.col(texts.WEIGHT))]
        return self.statement.step("there", texts.select(columns, sides, where=changes._came()))

    patch.setattr(Changes, "now_and_before", there)


def _a_gap_ends_a_session(patch: pytest.MonkeyPatch) -> None:
    apart = sessions._is_apart
    patch.setattr(sessions, "_is_apart", lambda *asked: exp.GTE(**apart(*asked).args))


def _sessions_are_of_all_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sessions, "_beside", lambda tree, call, scope: [])


def _no_time_is_in_a_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sessions, "Filter", lambda child, condition: child)


PLANTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "right rows of a full join always match": (_right_rows_always_match, ("full joins", "full joins, USING")),
    "QUALIFY keeps every row": (_every_row_qualifies, ("QUALIFY", "QUALIFY by name", "QUALIFY of groups")),
    "HAVING in EXISTS does not matter": (_having_does_not_matter, ("EXISTS with groups",)),
    "a row without a time is in a time window": (_no_time_is_a_time, ("time window", "time windows that overlap")),
    "rows that are made of one row are one": (
        _rows_of_one_row_are_one,
        ("explode", "posexplode", "time windows that overlap", "EXCEPT ALL"),
    ),
    "no grouping leaves a group out": (_every_grouping_has_all_groups, ("ROLLUP", "GROUPING SETS", "CUBE")),
    "aggregates take rows as they come": (
        _choices_stay_open,
        ("collect_list", "listagg", "first and last of groups"),
    ),
    "ALL counts the left side only": (_the_left_side_counts, ("EXCEPT ALL", "INTERSECT ALL")),
    "IN is never unknown": (_in_is_never_unknown, ("NOT IN under OR",)),
    "a constant comes with each chunk": (_constants_come_with_each_chunk, ("UNION with a constant",)),
    "windows over all rows forget what was": (_what_was_is_forgotten, ("windows over all rows",)),
    "NATURAL JOIN goes by one column": (_one_common_column_will_do, ("NATURAL JOIN",)),
    "names of an alias are in another order": (_names_do_not_matter, ("WITH, columns named", "alias with columns")),
    "OUTER keeps no row": (_nothing_made_is_nothing_kept, ("LATERAL VIEW",)),
    "any candidate may be among the first rows": (_the_last_row_is_no_bound, ("first rows", "first rows of a join")),
    "the rows that are there suffice": (_what_is_there_suffices, ("first rows", "first rows of a join")),
    "any of those that come may be first": (_those_that_come_have_no_order, ("first rows",)),
    "first rows that go stay": (_those_that_go_stay, ("first rows, if there are so many",)),
    "a row that comes and goes is a candidate": (_rows_that_come_and_go_are_there, ("first rows of a join",)),
    "candidates are in ascending order": (_all_go_up, ("first rows", "first rows of a join")),
    "skipped rows are in the view": (_skipped_rows_are_in_the_view, ("first rows after others",)),
    "the key is no end of the order": (_the_key_is_no_end_of_the_order, ("first rows, equal ones",)),
    "NULL comes first in any ascending order": (_null_is_where_it_always_is, ("first rows by what is not shown",)),
    "each chunk has first rows of its own": (
        _a_chunk_has_first_rows_of_its_own,
        ("first rows", "condition on first rows"),
    ),
    "rows before the first changed one are forgotten": (
        _rows_before_are_forgotten,
        ("numbers of all rows", "ranks of all rows", "running sums", "numbers of groups"),
    ),
    "rows equal to the first changed one come before it": (
        _equal_rows_come_before,
        ("numbers of all rows", "running sums of equal rows"),
    ),
    "nobody looks at rows nearby": (_nobody_looks_at_rows_nearby, ("rows near in the order of all",)),
    "rows that are looked at change too": (
        _rows_that_are_looked_at_change_too,
        ("rows near in two orders of all", "sessions of all rows"),
    ),
    "NULL goes with the direction": (_nulls_go_with_the_direction, ("ranks by two columns",)),
    "any order of all rows rises": (_any_order_rises, ("numbers of all rows", "running sums of equal rows")),
    "each row takes a place": (_each_row_takes_a_place, ("ranks of all rows",)),
    "no row minds those after it": (_no_row_minds_those_after_it, ("halves of all rows",)),
    "a tail forgets what was": (_only_rows_that_are_there_count, ("numbers of all rows", "running sums")),
    "a gap ends a session": (_a_gap_ends_a_session, ("sessions of a group", "sessions of all rows")),
    "sessions are of all rows": (_sessions_are_of_all_rows, ("sessions of a group", "sessions of a join")),
    "what has no time is in a session": (_no_time_is_in_a_session, ("sessions with NULL",)),
    "first rows below a join forget what was": (_what_was_is_forgotten, ("first rows below a join",)),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_broken_rule_is_noticed(
    plant: str, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in, names = PLANTS[plant]
    put_in(monkeypatch)
    for name in names:
        assert is_noticed(DIRECTED[name], connection), f"{name} does not notice that {plant}"
