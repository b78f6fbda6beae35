"""Tests of the Spark data source. One worker owns the one session; see conftest."""
