"""The tests of smalti: golden files, the oracle, and what a user would notice."""
