"""smalti measured against the Rust reference, Parquet and other formats: ``python -m benchmarks --help``.

Data sets are seeded, peers take turns inside one run, and every claim is a ratio computed from the results.
Nothing here is imported by the package itself.
"""
