"""Spark's daemon, which forks our workers, with everything imported that they need.

Spark's own imports what a worker needs after each fork, for fear of threads that a module may start. What is imported
here starts threads only in libraries that know of forks (jemalloc's, which Arrow brings; OpenBLAS is told to start
none), and nothing is run. So a worker is ready at once, instead of half a second of processor time later.
"""

import gc

from pyspark.daemon import manager

import smalti.spark.worker  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # Pages of objects that the collector does not touch stay shared.
    manager()
