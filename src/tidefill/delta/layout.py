"""How the files of a target lie: in the order of some columns, so that who looks one value up reads few of them.

A chunk is sorted before it is appended. A live step writes a small file that has values from everywhere; OPTIMIZE puts
such files in order (Delta's clustering). Delta keeps files that were put in order together as a *cube*, and puts a cube
in order again only while it is smaller than a threshold. So there are tiers: what was written lately is put in order
often, and all of it seldom.

Example: 10,000,000 entries are some 300 MB in 100 files. A lookup reads one of them, one file of each cube above it,
and the files of up to 50 steps, of some kilobytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, BooleanType, DataType, StructType

from tidefill.delta.log.commits import Logged
from tidefill.jobs.definitions import LakeIndexDefinition
from tidefill.spark.names import quoted

ROWS_IN_A_FILE_MAX = 100_000  # one hundredth of ten million: what a lookup has to read
FILE_BYTES = 4 << 20  # of a file that OPTIMIZE writes: about as many rows
CLUSTERED_MAX = 4  # columns that Delta clusters by
TIERS = ((3200, 256 << 20), (400, 16 << 20), (1, 1 << 20))
"""After so many versions of the table, cubes below that size are put in order again, with all that was written since.
A lookup reads some files of each tier; the bytes that are written again for a step stay below a hundred kilobytes."""

_SETTING = "spark.databricks.delta.optimize."
_CUBE = f"{_SETTING}clustering.mergeStrategy.minCubeSize."
_WITHOUT_STATISTICS = (BinaryType, BooleanType)  # Delta keeps no least and greatest value of these


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns by which a target is laid out, the most significant first."""

    columns: tuple[str, ...]

    def clause(self, schema: StructType) -> str:
        """`CLUSTER BY (...)`; empty if Delta can cluster by none of the columns."""
        names = [name for name in self.columns if _has_statistics(schema[name].dataType)][:CLUSTERED_MAX]
        return f" CLUSTER BY ({', '.join(map(quoted, names))})" if names else ""

    def ordered(self, rows: DataFrame) -> DataFrame:
        """The rows, such that each file that is written has a range of its own."""
        names = [quoted(name) for name in self.columns]
        return rows.repartitionByRange(*names).sortWithinPartitions(*names)

    @property
    def options(self) -> Mapping[str, str]:
        """Of a write of ordered rows."""
        return {"maxRecordsPerFile": str(ROWS_IN_A_FILE_MAX)}


def optimize_settings(log: Sequence[Logged]) -> dict[str, str]:
    """For an OPTIMIZE of a table that is laid out, whose log this is, oldest commit first."""
    threshold = _threshold(log)
    return {
        f"{_SETTING}minFileSize": str(FILE_BYTES),
        f"{_SETTING}maxFileSize": str(FILE_BYTES),
        f"{_CUBE}threshold": str(threshold),
        f"{_CUBE}targetCubeSize": str(4 * TIERS[0][1]),
    }


def _threshold(log: Sequence[Logged]) -> int:
    """Below which size a cube is put in order again: by the widest tier whose time has come since the last OPTIMIZE."""
    last = max((commit.version for commit in log if commit.operation == "OPTIMIZE"), default=None)
    now = log[-1].version if log else 0
    due = (size for versions, size in TIERS if last is None or now // versions > last // versions)
    return next(due, TIERS[-1][1])


def layout_notices(definition: LakeIndexDefinition, schema: StructType) -> Iterator[str]:
    """What a person should know of the layout."""
    lead = definition.order[0]
    if not _has_statistics(schema[lead].dataType):
        yield (
            f"a lookup by {lead} alone reads all files: Delta keeps no statistics of the type "
            f"{schema[lead].dataType.simpleString()}"
        )


def _has_statistics(kind: DataType) -> bool:
    return not isinstance(kind, _WITHOUT_STATISTICS)
