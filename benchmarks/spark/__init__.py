"""Spark on a wide table: jobs on splits against DataFrames, and Mosaic's reader against Spark's own for Parquet."""
