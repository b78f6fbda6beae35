"""Workarounds for faults of other projects, one module for each. A test fails when one is no longer needed."""
