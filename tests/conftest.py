"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Machines differ: no deadline per example, and examples are the same in every run, so that a failure is found again.
settings.register_profile(
    "smalti", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("smalti")
