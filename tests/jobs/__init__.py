"""Tests of the pipeline jobs."""
