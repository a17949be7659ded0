"""Everything that only Spark can do for us: the session, and the coverage rule as a Column.

Nothing here reaches behind the public API of Spark, so that a job runs on Spark Connect as well.
"""

from importlib.util import find_spec

from tidefill.errors import MissingExtra

if find_spec("pyspark") is None:
    raise MissingExtra("this needs Spark, which is not installed", hint="pip install 'tidefill[spark]'")
