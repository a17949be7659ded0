"""A Spark for tests: many small queries, most of them asked once.

Without Java's second compiler, with its smallest collector and without proofs about Spark's own classes, Java is ready
sooner (it then has to be told to keep enough room for machine code). Most of what its tasks did was to write and
compile programs for the few rows of a Delta log; these are interpreted instead. VACUUM lists a folder of ten files by
10,000 tasks, if nobody says that fewer are enough.
"""

from tidefill.local.spark import QUICK_START
from tidefill.spark.start import JAVA_OPTIONS

_PROGRAMS = "spark.sql.codegen.factoryMode"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
QUICK = {JAVA_OPTIONS: QUICK_START, _PROGRAMS: "NO_CODEGEN", _LISTING: "8"}
COMPILED = (_PROGRAMS, "FALLBACK")  # as in any other Spark
