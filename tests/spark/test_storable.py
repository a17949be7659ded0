"""What we say that Delta stores is what Delta stores."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession

from tidefill.errors import UnsupportedQuery
from tidefill.spark.storable import refuse_unstorable

STORED = "boolean, tinyint, decimal(10;2), double, string, binary, date, timestamp, timestamp_ntz, variant, array<int>"
REFUSED = (
    "interval day to second, interval year to month, string collate UTF8_LCASE, array<interval month>, "
    "struct<a:interval year>, map<int;interval month>, array<void>"
)


@pytest.mark.parametrize("kind", [kind.strip() for kind in f"{STORED}, {REFUSED}".split(", ")])
def test_delta_stores_what_we_say(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, CAST(NULL AS {kind.replace(';', ',')}) AS c")
    if kind in STORED:
        refuse_unstorable(frame.schema)
        frame.write.format("delta").save(str(tmp_path / "t"))
        return
    with pytest.raises(UnsupportedQuery, match="cannot be stored"):
        refuse_unstorable(frame.schema)
    with pytest.raises((AnalysisException, UnsupportedOperationException)):
        frame.write.format("delta").save(str(tmp_path / "t"))
