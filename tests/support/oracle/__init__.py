"""A slow, plain model of Mosaic v1 in pure Python: the second opinion the tests compare smalti with.

It follows the byte-level notes of the format and nothing else: lists of `bytes`, no speed, no recovery. It reads any
valid file (`read`) and writes a table by the rules (`write`). It trusts its input.
"""

from tests.support.oracle.reader import OracleFile, read
from tests.support.oracle.writer import Options, assemble, write

__all__ = ["Options", "OracleFile", "assemble", "read", "write"]
