"""What older versions of Spark lack. `make test` runs the newest; `make test-spark SPARK=4.1.4` another."""

from __future__ import annotations

import pyspark
import pytest

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

streaming = pytest.mark.skipif(VERSION < (4, 2), reason="streaming needs Spark 4.2")
schema_check = pytest.mark.skipif(VERSION < (4, 2), reason="Spark 4.1 compares names only")
