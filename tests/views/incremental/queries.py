"""Queries: one for each corner that is known, and random ones for those that are not."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.views.incremental.forms import FORMS
from tests.views.incremental.one_row import NAMES
from tests.views.incremental.world import TABLES

DIRECTED = {
    "filter": "SELECT id, x FROM a WHERE g > 1",
    "expressions": "SELECT id + 1 AS n, coalesce(s, 'none') AS s, CASE WHEN g > 2 THEN 'hi' ELSE 'lo' END AS l FROM a",
    "key not selected": "SELECT g, s FROM a",
    "star": "SELECT * FROM a WHERE s IS NOT NULL",
    "foreign key join": "SELECT b.id, b.y, a.g FROM b JOIN a ON b.aid = a.id",
    "join in WHERE": "SELECT b.id, a.s FROM a, b WHERE a.id = b.aid AND a.g < 4 AND b.y > 0",
    "join of many to many": "SELECT a.id, b.id AS bid FROM a JOIN b ON a.g = b.y",
    "theta join": "SELECT a.id, b.id AS bid, c.g FROM a JOIN b ON a.id < b.aid JOIN c ON c.id1 = b.id AND c.g <> a.g",
    "cross join": "SELECT a.id, c.id2 FROM a CROSS JOIN c",
    "three tables": "SELECT b.id, c.id1, c.id2, a.x FROM b JOIN a ON b.aid = a.id JOIN c ON c.id1 = a.g WHERE b.y < 4",
    "join of other types": "SELECT b.id, c.g FROM b JOIN c ON c.id1 = b.id AND c.id2 = b.y",
    "self join": "SELECT p.id, q.id AS other FROM a p JOIN a q ON p.g = q.id",
    "self join, both ways": "SELECT p.id, q.id AS other FROM a p JOIN a q ON p.g = q.g AND p.id < q.id",
    "left join": "SELECT a.id, a.g, b.y FROM a LEFT JOIN b ON b.aid = a.id",
    "left join by key": "SELECT b.id, a.s FROM b LEFT JOIN a ON b.aid = a.id",
    "left join, theta": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.y > a.g",
    "left join, condition after it": "SELECT a.id, b.y FROM a LEFT JOIN b ON b.aid = a.id WHERE b.y IS NULL OR b.y > 1",
    "left join, then join": "SELECT a.id, b.id AS bid, c.g FROM a LEFT JOIN b ON b.aid = a.id JOIN c ON c.id1 = a.id",
    "right join": "SELECT a.id, a.g, b.id AS bid FROM a RIGHT JOIN b ON b.aid = a.id WHERE b.y > 0",
    "right join, condition after it": (
        "SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON b.aid = a.id WHERE a.g IS NULL OR a.g > 1"
    ),
    "full join": "SELECT a.id, b.id AS bid, a.s FROM a FULL JOIN b ON b.aid = a.id",
    "full join of joins": "SELECT a.id, b.id AS bid, c.g FROM a JOIN b ON b.aid = a.id FULL JOIN c ON c.id1 = b.id",
    "full joins": (
        "SELECT a.id, b.id AS bid, c.g FROM a FULL JOIN b ON b.aid = a.id FULL JOIN c ON c.id1 = b.id OR c.g = a.id"
    ),
    "full joins, USING": (
        "SELECT id, y, h FROM a FULL JOIN b USING (id) FULL JOIN (SELECT id1 AS id, g AS h FROM c) t USING (id)"
    ),
    "USING": "SELECT id, a.s, b.id AS bid, y FROM a JOIN b USING (id)",
    "USING, left": "SELECT * FROM a LEFT JOIN (SELECT id, y, f FROM b) t USING (id)",
    "USING of two, right": "SELECT id, s, a.id AS aid, b.s AS bs FROM a RIGHT JOIN b USING (id, s) WHERE s IS NOT NULL",
    "USING, full": "SELECT g, a.g AS ag, c.id1, c.id2 FROM a FULL JOIN c USING (g) WHERE g IS NULL OR g < 4",
    "USING, twice": (
        "SELECT id, a.id AS aid, t.g FROM a RIGHT JOIN b USING (id) LEFT JOIN (SELECT id1 AS id, g FROM c) t USING (id)"
    ),
    "USING, groups": "SELECT g, count(*) AS n FROM a FULL JOIN (SELECT g FROM c WHERE id1 > 2) t USING (g) GROUP BY g",
    "USING, anti": "SELECT id, g FROM a LEFT ANTI JOIN b USING (id)",
    "left join of nothing but NULL": "SELECT a.id, b.f FROM a LEFT JOIN b ON b.aid = a.g AND b.s = a.s",
    "semi join": "SELECT a.id, a.s FROM a LEFT SEMI JOIN b ON b.aid = a.id",
    "anti join": "SELECT a.id, a.s FROM a LEFT ANTI JOIN b ON b.aid = a.id AND b.y > 1",
    "EXISTS": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.aid = a.id AND b.y > 1)",
    "NOT EXISTS": "SELECT id, g FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.aid = a.g)",
    "EXISTS of anything": "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE y = 4)",
    "EXISTS of a join": (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b JOIN c ON c.id1 = b.id WHERE b.aid = a.id AND c.g > 1)"
    ),
    "EXISTS of groups": (
        "SELECT id FROM a WHERE EXISTS "
        "(SELECT 1 FROM (SELECT aid, y FROM b GROUP BY aid, y HAVING count(*) > 1) t WHERE t.aid = a.id)"
    ),
    "EXISTS in EXISTS": (
        "SELECT id FROM a WHERE EXISTS "
        "(SELECT 1 FROM b WHERE b.aid = a.id AND NOT EXISTS (SELECT 1 FROM c WHERE c.id1 = b.id))"
    ),
    "IN": "SELECT id, s FROM a WHERE g IN (SELECT y FROM b)",
    "NOT IN": "SELECT id, s FROM a WHERE g NOT IN (SELECT y FROM b WHERE y > 1)",
    "NOT IN, with NULL": "SELECT id, s FROM a WHERE g NOT IN (SELECT y FROM b)",
    "NOT IN, correlated": "SELECT id FROM a WHERE g NOT IN (SELECT y FROM b WHERE b.aid = a.id)",
    "IN of two": "SELECT id FROM a WHERE (id, g) IN (SELECT aid, y FROM b)",
    "IN of groups": "SELECT id FROM a WHERE id IN (SELECT aid FROM b GROUP BY aid HAVING count(*) > 1)",
    "two matches": (
        "SELECT id FROM a WHERE g IN (SELECT y FROM b) AND NOT EXISTS (SELECT 1 FROM c WHERE c.id1 = a.id)"
    ),
    "UNION ALL": "SELECT id, s FROM a UNION ALL SELECT id, s FROM b",
    "UNION ALL of a table with itself": "SELECT g FROM a WHERE id < 6 UNION ALL SELECT g FROM a WHERE g > 0",
    "UNION": "SELECT g FROM a UNION SELECT y FROM b",
    "UNION of three": "SELECT g FROM a UNION ALL SELECT y FROM b UNION ALL SELECT g FROM c",
    "UNION of both kinds": "SELECT g FROM a UNION SELECT y FROM b UNION ALL SELECT g FROM c",
    "UNION of other types": (
        "SELECT concat('v', k) AS v, count(*) AS n FROM (SELECT y AS k FROM b UNION ALL SELECT x FROM a) t GROUP BY 1"
    ),
    "UNION with WITH": "WITH t AS (SELECT g FROM a) SELECT g FROM t UNION ALL SELECT y FROM b",
    "UNION in parentheses": "SELECT g FROM a UNION ALL (SELECT y FROM b UNION SELECT g FROM c)",
    "UNION below a join": (
        "SELECT u.k, c.id1, c.id2 FROM (SELECT g AS k FROM a UNION ALL SELECT y FROM b) u JOIN c ON c.g = u.k"
    ),
    "INTERSECT": "SELECT g, s FROM a INTERSECT SELECT y, s FROM b",
    "EXCEPT": "SELECT g, s FROM a EXCEPT SELECT y, s FROM b",
    "MINUS of a table from itself": "SELECT g FROM a MINUS SELECT g FROM a WHERE id < 5",
    "EXCEPT of other types": "SELECT concat('v', k) AS v FROM (SELECT g AS k FROM a EXCEPT SELECT x FROM a) t",
    "INTERSECT before UNION": "SELECT g FROM a UNION ALL SELECT y FROM b INTERSECT SELECT g FROM c",
    "EXCEPT of EXCEPT": "SELECT g FROM a EXCEPT SELECT y FROM b EXCEPT (SELECT g FROM c EXCEPT SELECT id FROM a)",
    "EXCEPT below a join": "SELECT b.id, t.g FROM b LEFT JOIN (SELECT g FROM a EXCEPT SELECT g FROM c) t ON b.y = t.g",
    "IN of INTERSECT": "SELECT id FROM a WHERE g NOT IN (SELECT y FROM b INTERSECT SELECT g FROM c)",
    "DISTINCT": "SELECT DISTINCT g, s FROM a",
    "DISTINCT of a join": "SELECT DISTINCT a.s FROM a JOIN b ON a.id = b.aid",
    "count": "SELECT g, count(*) AS n, count(s) AS m FROM a GROUP BY g",
    "count without the group": "SELECT count(*) AS n FROM a GROUP BY g",
    "sum": "SELECT g, sum(x) AS t, sum(id) AS u FROM a GROUP BY g",
    "average": "SELECT g, avg(x) AS t, avg(id) AS u FROM a GROUP BY g",
    "min and max": "SELECT g, min(x) AS lo, max(s) AS hi, max(id) AS top FROM a GROUP BY g",
    "min and max of times": "SELECT g, min(d) AS lo, max(d) AS hi FROM c GROUP BY g",
    "sum of floats": "SELECT y, sum(f) AS t FROM b GROUP BY y",
    "count distinct": "SELECT g, count(DISTINCT s) AS n FROM a GROUP BY g",
    "FILTER": "SELECT g, count(*) FILTER (WHERE s = 'a') AS n, sum(id) FILTER (WHERE x > 0) AS t FROM a GROUP BY g",
    "HAVING": "SELECT g, count(*) AS n FROM a GROUP BY g HAVING count(*) > 1 AND max(id) < 9",
    "HAVING by name": "SELECT g, sum(id) AS t FROM a GROUP BY g HAVING t > 5",
    "group by expression": "SELECT g + 1 AS h, count(*) AS n FROM a GROUP BY g + 1",
    "group by number and name": "SELECT coalesce(g, 0) AS h, s, count(*) AS n FROM a GROUP BY 1, s",
    "group by two": "SELECT g, s, count(*) AS n, min(x) AS lo FROM a GROUP BY g, s",
    "aggregate of expressions": "SELECT g, sum(id * 2 + 1) + count(*) AS t FROM a GROUP BY g",
    "aggregate of a join": "SELECT a.g, count(*) AS n, sum(b.y) AS t FROM a JOIN b ON a.id = b.aid GROUP BY a.g",
    "min of a join that nobody saw": "SELECT b.y, min(a.x) AS lo FROM a JOIN b ON a.id = b.aid GROUP BY b.y",
    "group in parentheses": "SELECT g + 1 AS h, count(*) AS n FROM a GROUP BY (g + 1)",
    "min of a join": "SELECT a.g, min(b.y) AS lo FROM a JOIN b ON a.id = b.aid GROUP BY a.g",
    "aggregate of a left join": "SELECT a.g, count(b.id) AS n FROM a LEFT JOIN b ON a.id = b.aid GROUP BY a.g",
    "scalar": "SELECT count(*) AS n, sum(x) AS t, min(g) AS lo FROM a",
    "scalar with HAVING": "SELECT sum(g) AS t FROM a HAVING count(*) > 3",
    "scalar, not kept": "SELECT count(DISTINCT g) AS n FROM a WHERE s = 'a'",
    "nested aggregate": "SELECT n, count(*) AS groups FROM (SELECT g, count(*) AS n FROM a GROUP BY g) t GROUP BY n",
    "count of DISTINCT": "SELECT g, count(*) AS n FROM (SELECT DISTINCT s, g FROM a) t GROUP BY g",
    "nested min": "SELECT max(lo) AS top FROM (SELECT g, min(x) AS lo FROM a GROUP BY g) t",
    "join of aggregates": (
        "SELECT p.g, p.n, q.t FROM (SELECT g, count(*) AS n FROM a GROUP BY g) p "
        "LEFT JOIN (SELECT y, sum(id) AS t FROM b GROUP BY y) q ON p.g = q.y"
    ),
    "join with an aggregate of the same table": (
        "SELECT a.id, t.n FROM a JOIN (SELECT g, count(*) AS n FROM a GROUP BY g) t ON a.g = t.g"
    ),
    "join with a scalar": "SELECT a.id, t.top FROM a CROSS JOIN (SELECT max(y) AS top FROM b) t WHERE a.g < t.top",
    "value": "SELECT id, g FROM a WHERE g < (SELECT avg(y) FROM b)",
    "value of nothing": "SELECT id, g FROM a WHERE g >= (SELECT count(*) FROM b WHERE y = 4)",
    "value by row": "SELECT id FROM a WHERE g <= (SELECT sum(b.y) FROM b WHERE b.aid = a.id AND b.y > 0)",
    "count by row": "SELECT id FROM a WHERE g >= (SELECT count(*) FROM b WHERE b.aid = a.id)",
    "value by row of the same table": (
        "SELECT p.id FROM a p WHERE p.x > (SELECT min(q.x) + 1 FROM a q WHERE q.g = p.g)"
    ),
    "value in EXISTS": (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.aid = a.id AND b.y > (SELECT min(c.g) FROM c))"
    ),
    "two values": "SELECT id FROM b WHERE y BETWEEN (SELECT min(g) FROM a) AND (SELECT max(g) FROM c)",
    "value in SELECT": "SELECT id, (SELECT max(y) FROM b WHERE y < 4) - g AS d, (SELECT count(*) FROM c) AS n FROM a",
    "value by row in SELECT": (
        "SELECT id, (SELECT sum(y) FROM b WHERE aid = a.id) AS t, (SELECT 1 + count(*) FROM c WHERE c.g = a.g) AS n "
        "FROM a WHERE g IS NULL OR g < 4"
    ),
    "value in HAVING": "SELECT g, sum(id) AS t FROM a GROUP BY g HAVING sum(id) > (SELECT avg(y) * 2 FROM b)",
    "value by group in HAVING": (
        "SELECT g, count(*) AS n FROM a GROUP BY g HAVING n >= (SELECT count(*) FROM b WHERE b.y = a.g) AND "
        "max(id) > (SELECT min(id) FROM a)"
    ),
    "value in HAVING of a scalar": "SELECT max(x) AS t FROM a HAVING count(*) > (SELECT count(*) FROM b WHERE y > 1)",
    "value in HAVING, below a window": (
        "SELECT g, s, rank() OVER (PARTITION BY g ORDER BY count(*)) AS r FROM a GROUP BY g, s "
        "HAVING count(*) < (SELECT max(y) FROM b WHERE aid IN (SELECT id FROM a))"
    ),
    "value beside a window": "SELECT id, rank() OVER (PARTITION BY g ORDER BY s) - (SELECT max(y) FROM b) AS r FROM a",
    "WITH, used twice": (
        "WITH t AS (SELECT g, count(*) AS n FROM a GROUP BY g), u AS (SELECT * FROM t WHERE n > 1) "
        "SELECT t.g, u.n AS m FROM t LEFT JOIN u ON t.g = u.g"
    ),
    "DISTINCT below a join": "SELECT b.id, t.g FROM b JOIN (SELECT DISTINCT g FROM a) t ON b.y = t.g",
    "aggregate of UNION": (
        "SELECT k, count(*) AS n FROM (SELECT g AS k FROM a UNION ALL SELECT y FROM b UNION ALL SELECT g FROM a) t "
        "GROUP BY k"
    ),
    "aggregate of a full join": "SELECT a.g, count(*) AS n FROM a FULL JOIN b ON a.id = b.aid GROUP BY a.g",
    "row number": "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS n FROM a",
    "ranks": (
        "SELECT id, rank() OVER (PARTITION BY g ORDER BY s) AS r, "
        "dense_rank() OVER (PARTITION BY g ORDER BY s DESC NULLS FIRST) AS d, "
        "percent_rank() OVER (PARTITION BY g ORDER BY s) + cume_dist() OVER (PARTITION BY g ORDER BY s) AS p FROM a"
    ),
    "lag and lead": (
        "SELECT id, lag(x) OVER (PARTITION BY g ORDER BY s, id) AS p, ntile(2) OVER (PARTITION BY g ORDER BY id) AS h, "
        "lead(s, 2, 'none') OVER (PARTITION BY g ORDER BY s NULLS LAST, id DESC) AS q FROM a"
    ),
    "lag of two keys": "SELECT id1, id2, lag(d) OVER (PARTITION BY g ORDER BY d DESC, id2, id1) AS before FROM c",
    "first and last": (
        "SELECT id, first_value(x) OVER (PARTITION BY g ORDER BY s DESC, id) AS f, "
        "last_value(s) OVER (PARTITION BY g ORDER BY x, id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS l, "
        "last_value(s) IGNORE NULLS OVER (PARTITION BY g ORDER BY id) AS m, "
        "nth_value(x, 2) OVER (PARTITION BY g ORDER BY id DESC) AS n FROM a"
    ),
    "aggregates over": (
        "SELECT id, x - avg(x) OVER (PARTITION BY g) AS t, count(s) OVER (PARTITION BY g ORDER BY s) AS n, "
        "sum(x) OVER (PARTITION BY g ORDER BY s, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS u, "
        "min(s) OVER (PARTITION BY g) AS lo, max(x) OVER (PARTITION BY g ORDER BY id) AS hi FROM a"
    ),
    "range": "SELECT id, sum(y) OVER (PARTITION BY s ORDER BY y RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS t FROM b",
    "sum of floats over": "SELECT id, y, sum(f) OVER (PARTITION BY y) AS t FROM b",
    "windows of several kinds": (
        "SELECT id, count(*) OVER (PARTITION BY g) AS n, count(*) OVER (PARTITION BY s, g) AS m, "
        "max(id) OVER (PARTITION BY id % 3) AS top FROM a"
    ),
    "windows with names": (
        "SELECT g, count(*) AS n, rank() OVER w AS r, sum(count(*)) OVER v AS t FROM a WHERE id IN "
        "(SELECT max(aid) OVER u FROM b WINDOW u AS (PARTITION BY y)) GROUP BY g, s "
        "WINDOW w AS (PARTITION BY s ORDER BY g DESC), v AS (PARTITION BY g)"
    ),
    "window of a join": (
        "SELECT b.id, row_number() OVER (PARTITION BY a.g ORDER BY b.y, b.id) AS n FROM b LEFT JOIN a ON b.aid = a.id"
    ),
    "window of groups": (
        "SELECT g, sum(id) AS t, rank() OVER (PARTITION BY g % 2 ORDER BY sum(id)) AS r, "
        "sum(sum(id)) OVER (PARTITION BY g % 2) AS u FROM a GROUP BY g HAVING count(*) > 1"
    ),
    "groups of a window": (
        "SELECT n, count(*) AS m FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM a) t GROUP BY n"
    ),
    "window of a window": (
        "SELECT id, max(n) OVER (PARTITION BY s) AS top "
        "FROM (SELECT id, s, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM a) t"
    ),
    "full join with a window": (
        "SELECT b.id, t.id AS aid, t.n FROM b FULL JOIN (SELECT id, count(*) OVER (PARTITION BY g) AS n FROM a) t "
        "ON t.id = b.aid"
    ),
    "IN of a window": "SELECT id FROM a WHERE id NOT IN (SELECT max(aid) OVER (PARTITION BY y) FROM b)",
    "top of each group": (
        "SELECT id, g, x FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS n FROM a) t "
        "WHERE n <= 2"
    ),
    "ORDER BY": "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY n DESC",
    "constant condition": "SELECT id FROM a WHERE 1 = 0",
    **NAMES,
    **FORMS,
}


@dataclass
class RandomQuery:
    """One query, by chance."""

    chance: random.Random

    def __call__(self) -> str:
        if self.chance.random() < 0.1:
            kind = self.chance.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
            return f"{self._whole_numbers('p')} {kind} {self._whole_numbers('q')}"
        return self._query("t")

    def _whole_numbers(self, prefix: str) -> str:
        source, columns = self._from(prefix, 1 + (self.chance.random() < 0.3))
        return f"SELECT {self._int(columns)} AS k FROM {source}{self._where(columns, prefix)}"

    def _query(self, prefix: str) -> str:
        source, columns = self._from(prefix, self.chance.choices([1, 2, 3], [4, 5, 2])[0])
        where = self._where(columns, prefix)
        kind = self.chance.choices(["rows", "distinct", "windows", "groups", "scalar"], [5, 2, 2, 7, 1])[0]
        if kind == "windows":
            return f"SELECT {', '.join(self._windows(columns))} FROM {source}{where}"
        if kind in ("rows", "distinct"):
            chosen = self.chance.sample(columns, min(len(columns), self.chance.randint(1, 4)))
            items = [name for name, _ in chosen]
            if self.chance.random() < 0.3:
                items.append(f"coalesce({self._int(columns)}, -1) + 1")
            if self.chance.random() < 0.1:
                items.append(self._value(columns, f"{prefix}v"))
            listed = ", ".join(f"{item} AS c{index}" for index, item in enumerate(items))
            return f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{listed} FROM {source}{where}"
        groups = [] if kind == "scalar" else self.chance.sample(columns, self.chance.choice([1, 1, 2]))
        shown = [f"{name} AS c{index}" for index, (name, _) in enumerate(groups) if self.chance.random() < 0.85]
        shown += [f"{value} AS m{index}" for index, value in enumerate(self._aggregates(columns))]
        by = f" GROUP BY {', '.join(name for name, _ in groups)}" if groups else ""
        having = f" HAVING count(*) {self.chance.choice('<>')} {self.chance.randint(1, 3)}"
        return f"SELECT {', '.join(shown)} FROM {source}{where}{by}{having if self.chance.random() < 0.12 else ''}"

    def _from(self, prefix: str, count: int) -> tuple[str, list[tuple[str, str]]]:
        text, columns = "", list[tuple[str, str]]()
        for index in range(count):
            table, alias = TABLES[self.chance.choice(list(TABLES))], f"{prefix}{index}"
            own = [(f"{alias}.{name}", kind) for name, kind in table.columns]
            source = f"{self._inner(table.name)} {alias}" if self.chance.random() < 0.15 else f"{table.name} {alias}"
            if not text:
                text, columns = source, own
                continue
            kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
            kind = self.chance.choices(kinds, [5, 4, 1, 1, 1, 1])[0]
            merged = self._using(columns, own) if index == 1 and self.chance.random() < 0.15 else []
            how = f"USING ({merged[0][0]})" if merged else f"ON {self._on(columns, own, kind)}"
            text += f" {kind} {source} {how}"
            columns = [*columns, *(own if kind not in kinds[-2:] else []), *(merged if count == 2 else [])]
        return text, columns

    def _inner(self, table: str) -> str:
        condition = self.chance.choice(["IS NOT NULL", "IS NULL OR 1 = 1"])
        distinct = self.chance.choice(["", "DISTINCT "])
        return f"(SELECT {distinct}* FROM {table} WHERE {TABLES[table].columns[2][0]} {condition})"

    def _using(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """A column that both have, if there is one."""
        kinds = {name.partition(".")[2]: kind for name, kind in left}
        same = [name for name, _ in right if name.partition(".")[2] in kinds]
        chosen = self.chance.choice(same).partition(".")[2] if same else ""
        return [(chosen, kinds[chosen])] if same else []

    def _on(self, left: list[tuple[str, str]], right: list[tuple[str, str]], kind: str) -> str:
        condition = f"{self._int(left)} = {self._int(right)}"
        if kind != "FULL JOIN" and self.chance.random() < 0.25:
            condition += f" AND {self._int(left)} {self.chance.choice(['<', '<>', '<='])} {self._int(right)}"
        return condition

    def _where(self, columns: list[tuple[str, str]], prefix: str) -> str:
        conditions = []
        if self.chance.random() < 0.4:
            value, other = self._int(columns), self._int(columns)
            conditions.append(self.chance.choice([
                f"{value} {self.chance.choice(['<', '>', '=', '<>'])} {self.chance.randint(0, 4)}",
                f"{self.chance.choice(columns)[0]} IS {self.chance.choice(['', 'NOT '])}NULL",
                f"({value} = 1 OR {other} > 2)",
            ]))  # fmt: skip
        if self.chance.random() < 0.25:
            table, alias, negated = self.chance.choice(list(TABLES)), f"{prefix}e", self.chance.choice(["", "NOT "])
            inner = self._int([(f"{alias}.{name}", kind) for name, kind in TABLES[table].columns])
            conditions.append(self.chance.choice([
                f"{negated}EXISTS (SELECT 1 FROM {table} {alias} WHERE {inner} = {self._int(columns)})",
                f"{self._int(columns)} {negated}IN (SELECT {inner} FROM {table} {alias})",
            ]))  # fmt: skip
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _value(self, columns: list[tuple[str, str]], alias: str) -> str:
        table = self.chance.choice(list(TABLES))
        inner = [(f"{alias}.{name}", kind) for name, kind in TABLES[table].columns]
        call = self.chance.choice(["count(*)", f"sum({self._int(inner)})", f"min({self.chance.choice(inner)[0]})"])
        tie = f" WHERE {self._int(inner)} = {self._int(columns)}" if self.chance.random() < 0.7 else ""
        return f"(SELECT {call} FROM {table} {alias}{tie})"

    def _windows(self, columns: list[tuple[str, str]]) -> list[str]:
        """Of functions that do not mind which of equal rows is first."""
        by = ", ".join(name for name, _ in self.chance.sample(columns, self.chance.choice([1, 1, 2])))
        order = f"{self.chance.choice(columns)[0]} {self.chance.choice(['', 'DESC', 'NULLS LAST', 'DESC NULLS FIRST'])}"
        items = [self.chance.choice(columns)[0]]
        for call in self.chance.sample(["rank()", "dense_rank()", *self._aggregates(columns)], 2):
            ordered = call.endswith("rank()") or self.chance.random() < 0.5
            if "DISTINCT" not in call and "+" not in call:
                items.append(f"{call} OVER (PARTITION BY {by}{f' ORDER BY {order}' if ordered else ''})")
        return [f"{item} AS c{index}" for index, item in enumerate(items)]

    def _aggregates(self, columns: list[tuple[str, str]]) -> list[str]:
        numbers = [name for name, kind in columns if kind == "int" or kind.startswith("decimal")]
        pool = [
            "count(*)",
            *(f"{call}({self.chance.choice(numbers)})" for call in ("sum", "avg", "min", "max", "count")),
        ]
        pool += [f"min({self.chance.choice(columns)[0]})", f"max({self.chance.choice(columns)[0]})"]
        pool += [f"sum({name})" for name, kind in columns if kind == "double" and self.chance.random() < 0.3]
        if self.chance.random() < 0.15:
            pool.append(f"count(DISTINCT {self.chance.choice(columns)[0]})")
        if self.chance.random() < 0.15:
            pool.append(f"sum({self.chance.choice(numbers)}) + count(*)")
        return self.chance.sample(pool, self.chance.randint(1, 3))

    def _int(self, columns: list[tuple[str, str]]) -> str:
        return self.chance.choice([name for name, kind in columns if kind == "int"])
