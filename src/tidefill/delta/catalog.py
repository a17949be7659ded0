"""The view by which a live job is shown in the session's catalog, under the job's name.

A name in the catalog may be somebody else's. So a view is made where there is nothing of that name, and is replaced or
dropped only if it is one that was made for the same job. The view's text tells that: all releases write the same one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidefill.errors import NameTaken
from tidefill.spark.faults import translated
from tidefill.spark.names import NAME_IN_CATALOG, quoted, table_at
from tidefill.storage.local import is_folder_of_job

COLUMN = r"`(?:[^`]|``)+`"
TEXT = re.compile(rf"CREATE VIEW .*\sAS SELECT {COLUMN}(?:, {COLUMN})* FROM delta\.`((?:[^`]|``)+)`\s*", re.DOTALL)


def publish(spark: SparkSession, name: str, path: str, job_id: str, columns: Sequence[str]) -> None:
    """Show these columns of the table at the path as a view, where the catalog takes such a name. A view that was made
    for this job before is replaced in one go; NameTaken if anything else has the name."""
    if not NAME_IN_CATALOG.fullmatch(name):
        return
    with translated():
        full = _full_name(spark, name)
        text = f"SELECT {', '.join(map(quoted, columns))} FROM {table_at(path)}"
        if not spark.catalog.tableExists(full):
            try:  # without OR REPLACE, for somebody may take the name at this moment
                spark.sql(f"CREATE VIEW {full} AS {text}")
                return
            except AnalysisException as error:
                if "ALREADY_EXISTS" not in str(error):
                    raise
        check_name(spark, name, path, job_id)
        spark.sql(f"CREATE OR REPLACE VIEW {full} AS {text}")


def check_name(spark: SparkSession, name: str, path: str = "", job_id: str = "") -> None:
    """Raise NameTaken if the catalog has a table or a view of that name, unless it is a view that `publish` made of the
    table at the path or of another generation of the job. A temporary view does not count: it stands in another place
    than the view of a job, and hides it from one session only."""
    if not NAME_IN_CATALOG.fullmatch(name):
        return
    with translated():
        full = _full_name(spark, name)
        if not spark.catalog.tableExists(full):
            return
        created = _created(spark, full)
    shown = _path_shown(created)
    if shown and (shown == path or is_folder_of_job(shown, job_id)):
        return
    kind = "view" if created.startswith("CREATE VIEW") else "table"
    raise NameTaken(
        f"the catalog has a {kind} {name} already",
        detail=f"A live job is shown in the catalog as a view of its name, but {full} was not made for this job.",
        hint=f"Rename or drop that {kind} (a job that has failed can then be resumed), or choose another name.",
    )


def unpublish(spark: SparkSession, name: str, path: str) -> None:
    """Remove the view that `publish` made of the table at the path, if it is there. Nothing else is removed, not even
    another view of the same table."""
    if not NAME_IN_CATALOG.fullmatch(name):
        return
    with translated():
        full = _full_name(spark, name)
        if spark.catalog.tableExists(full) and _path_shown(_created(spark, full)) == path:
            spark.sql(f"DROP VIEW IF EXISTS {full}")


def _full_name(spark: SparkSession, name: str) -> str:
    """With catalog and schema: so no temporary view is meant."""
    catalog, schema = spark.sql("SELECT current_catalog(), current_schema()").collect()[0]
    return ".".join(map(quoted, (catalog, schema, name)))


def _created(spark: SparkSession, full: str) -> str:
    """The statement that would create the table or the view again; empty where Spark cannot tell it."""
    try:
        return str(spark.sql(f"SHOW CREATE TABLE {full}").collect()[0][0])
    except AnalysisException:
        return ""


def _path_shown(created: str) -> str:
    """The path of the table that a view shows, if the view's text is one that `publish` writes; else empty."""
    found = TEXT.fullmatch(created)
    return found[1].replace("``", "`") if found else ""
