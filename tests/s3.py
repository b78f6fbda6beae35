"""The S3 server of the tests is the counting one of the benchmark."""

from benchmarks.s3_server import Request, S3Server, rounds

__all__ = ["Request", "S3Server", "rounds"]
