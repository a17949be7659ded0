"""Spark understands our parse of a query as it understands the query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidefill.errors import UnsupportedQuery
from tidefill.spark.compiling import Known, parsed, understood
from tidefill.spark.session import job_session

COLUMNS = (
    "i int, l bigint, s string, x decimal(10,2), f double, d date, ts timestamp, b boolean, xs array<int>, "
    "st struct<p:int,q:string>, m map<string,int>"
)
EXPRESSIONS = """
i IS NOT NULL; i NOT IN (1, 2); i NOT BETWEEN 1 AND 2; s NOT LIKE 'a%'; s LIKE 'a!%' ESCAPE '!'; s RLIKE 'a+'
b IS NOT TRUE; i IS NOT DISTINCT FROM l; i != l; i == l; CASE i WHEN 1 THEN 'a' END; if(i > 1, 1, 2)
coalesce(i, 0); nvl(i, 0); ifnull(i, 0); nullif(i, 0); s || 'a'; concat_ws('-', s, s); ucase(s); char_length(s)
trim(LEADING FROM s); substring(s FROM 2 FOR 3); substr(s, 2); instr(s, 'a'); position('a' IN s)
split(s, ',')[0]; regexp_extract(s, '(a)', 1); sha1(s); to_json(st); mod(i, 2); i DIV 2; pow(f, 2); log10(f)
round(f, 2); ceiling(f); greatest(i, 1); try_divide(i, 2); i::string; string(i); try_cast(s AS int); date(ts)
date_sub(d, 1); dateadd(DAY, 1, ts); datediff(d, d); date_diff(d, d); date_trunc('month', ts); trunc(d, 'MM')
extract(YEAR FROM d); to_date(s, 'yyyy-MM-dd'); to_timestamp(s); date_format(ts, 'yyyy'); d + INTERVAL 1 DAY
d > '2020-01-01'; ts - INTERVAL '1' HOUR; d > DATE'2020-01-01'; from_utc_timestamp(ts, 'UTC'); unix_date(d)
transform(xs, v -> v + 1); st.p; filter(xs, v -> v > 1); named_struct('a', i); m['a']; 1L; 1.5BD; 1.5D; 'it''s'
'a\\nb'; make_date(2020, 1, 1); last_day(d)
"""
AGGREGATES = """
count(*); count(DISTINCT i, s); sum(x); avg(f); mean(x); max(d); stddev(f); var_samp(f); median(f)
percentile(f, 0.5); percentile_cont(0.5) WITHIN GROUP (ORDER BY f); approx_count_distinct(i); count_if(i > 1)
bool_or(b); every(b); try_sum(i); count(*) FILTER (WHERE b IS NOT NULL); sum(CASE WHEN b THEN 1 ELSE 0 END)
round(avg(x), 2); regr_slope(f, f)
"""


def query(expressions: str, group: str = "") -> str:
    texts = [text.strip() for line in expressions.strip().splitlines() for text in line.split(";")]
    return f"SELECT {', '.join(f'{text} AS c{n}' for n, text in enumerate(texts))} FROM t {group}"


def check(spark: SparkSession, sql: str) -> int:
    session = job_session(spark)
    known = Known("t", session.createDataFrame([], COLUMNS), ())
    return len(understood(session, sql, parsed(sql), {("t",): known}))


def test_everyday_expressions_are_understood(spark: SparkSession) -> None:
    assert check(spark, query(EXPRESSIONS)) > 60
    assert check(spark, query(AGGREGATES, "GROUP BY i")) > 15


def test_what_may_be_something_else_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedQuery, match="with certainty"):
        check(spark, "SELECT +i AS c FROM t")
