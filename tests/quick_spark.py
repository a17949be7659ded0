"""A Spark for tests: many small queries, most of them asked once.

Without Java's second compiler, with its smallest collector and without proofs about Spark's own classes, Java is ready
sooner (it then has to be told to keep enough room for machine code). Most of what its tasks did was to write and
compile programs for the few rows of a Delta log; these are interpreted instead.
"""

from tidefill.local.spark import QUICK_START
from tidefill.spark.start import JAVA_OPTIONS

_PROGRAMS = "spark.sql.codegen.factoryMode"
QUICK = {JAVA_OPTIONS: QUICK_START, _PROGRAMS: "NO_CODEGEN"}
COMPILED = (_PROGRAMS, "FALLBACK")  # as in any other Spark
