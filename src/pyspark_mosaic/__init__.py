"""What Spark finds by itself once smalti is installed: modules called `pyspark_*` that have a `DefaultSource`.

The format itself is in the jar. This source stands in for it in sessions without the jar, and says what to do.
"""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSource

from smalti.errors import MosaicError


class DefaultSource(DataSource):
    """`format("mosaic")` in a session that does not have the jar."""

    @classmethod
    def name(cls) -> str:
        return "mosaic"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise MosaicError(
            'format("mosaic") needs a jar, which this session does not have: call smalti.spark.enable(spark), start '
            "the session by smalti.spark.session(), or give Spark the jar that `smalti spark-jar` writes (--jars)"
        )

    schema = reader = writer = streamReader = streamWriter = _refuse
