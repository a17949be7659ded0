"""A view over so many rows, filled by a Spark of 1 GiB in all. Arguments: how many, and a folder. Prints how many."""

import sys
from pathlib import Path

from tidefill import connect
from tidefill.spark.start import local_session

rows, folder = int(sys.argv[1]), Path(sys.argv[2])
spark = local_session(cores=2, extra_conf={"spark.driver.memory": "1g"})
source = str(folder / "source")
wide = spark.range(0, rows, 1, 16).selectExpr("id", "id % 7 AS v", "repeat(md5(CAST(id AS STRING)), 2) AS note")
wide.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
with connect(spark, folder / "lake", folder / "store") as engine:
    engine.register("events", location=source, key="id")
    job = engine.create_view("view", "SELECT id, v * 2 AS w, note FROM events")
    job.wait(3000)
    print(job.table().count())
