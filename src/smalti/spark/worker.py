"""What a Python process does for Java: answer a question on the driver, read for a task, write for a task.

Spark forks a process for this module, hands it over from one request to the next, and kills it when it is no longer
wanted; see `jvm/Worker.java`. A request is a word and byte strings, after their number. What is imported here is
imported once, by the daemon that forks the processes; see `pyspark_mosaic.daemon`.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import IO

import pyarrow as pa

from smalti.errors import MosaicError
from smalti.spark.driver.questions import UnknownTableError, answer
from smalti.spark.task.read import Metrics

#: As Java's DataInputStream reads and writes it, before each byte string.
_LENGTH = struct.Struct("!i")
#: The figures of a task so far, before each of its batches.
_TOTALS = struct.Struct("!5q")
#: In the place of a length: the batches are over.
_END = -1


def main(infile: IO[bytes], outfile: IO[bytes]) -> None:
    """Carry out one request. The end of the input means that there will be no more, and ends the process."""
    first = infile.read(_LENGTH.size)
    if len(first) < _LENGTH.size:
        sys.exit(1)
    word, *parts = (_receive(infile) for _ in range(_LENGTH.unpack(first)[0]))
    if word == b"read":
        _read(parts[0], parts[1], outfile)
    elif word == b"write":
        _write(parts[0], parts[1], infile, outfile)
    else:
        _ask(parts, outfile)


def _ask(parts: Sequence[bytes], outfile: IO[bytes]) -> None:
    """Answer with JSON, and with byte strings after their number. An error is an answer, too."""
    facts: dict[str, object]
    answered: Sequence[bytes] = ()
    try:
        facts, answered = answer(json.loads(parts[0]), parts[1:])
    except UnknownTableError:
        facts = {"unknown": True}
    except FileNotFoundError as error:
        facts = {"missing": str(error.filename or error)}
    except Exception as error:
        facts = {"error": _tell(error)}
    _send(json.dumps(facts).encode(), outfile)
    outfile.write(_LENGTH.pack(len(answered)))
    for part in answered:
        _send(part, outfile)


def _read(scan: bytes, split: bytes, stream: IO[bytes]) -> None:
    """Write batches as Arrow's stream has them, each after the name of its file and figures; then an error, or nothing
    and the figures."""
    metrics, outfile = Metrics(), _Channel(stream)
    try:
        task = pickle.loads(scan)
        outfile.write(_LENGTH.pack(0))
        outfile.write(task.schema.serialize())
        last = None
        for file, batch in task.read(split, metrics):
            # One piece of memory for all columns: a write for each of 10,000 takes longer than a copy.
            message = batch.serialize()
            _send(b"" if file == last else file.encode(), outfile)
            outfile.write(_TOTALS.pack(*metrics.totals()))
            outfile.write(message)
            last = file
        failure = ""
    except Exception as error:
        failure = _tell(error)
    outfile.write(_LENGTH.pack(_END))
    _send(failure.encode(), outfile)
    outfile.write(_TOTALS.pack(*metrics.totals()))
    outfile.flush()


def _write(plan: bytes, task: bytes, infile: IO[bytes], outfile: IO[bytes]) -> None:
    """Write the batches of an Arrow stream; then answer with an error, or with nothing and the message for the commit.

    An error is sent at once. Java notices before it sends the next batch and ends this process, which until then
    has to take what is on its way: Java would wait for ever otherwise.
    """
    try:
        message = pickle.loads(plan).write(int(task), pa.ipc.open_stream(infile))  # type: ignore[arg-type]
    except Exception as error:
        channel = _Channel(outfile)
        _send(_tell(error).encode(), channel)
        channel.flush()
        while infile.read(1 << 20):
            pass
        sys.exit(1)
    _send(b"", outfile)
    _send(message, outfile)


class _Channel:
    """The way to a task. If the task closes it, because a LIMIT has its rows, the process ends without a word."""

    def __init__(self, outfile: IO[bytes]) -> None:
        self._outfile = outfile

    def write(self, data: bytes | pa.Buffer) -> None:
        self._end_if_closed(lambda: self._outfile.write(data))

    def flush(self) -> None:
        self._end_if_closed(self._outfile.flush)

    @staticmethod
    def _end_if_closed(action: Callable[[], object]) -> None:
        try:
            action()
        except ConnectionError:
            os._exit(0)  # Spark's daemon would try to write what is left, and tell of its failure.


def _tell(error: Exception) -> str:
    """The message for the user: of an error of ours its own text, of any other error the traceback."""
    expected = isinstance(error, (MosaicError, OSError))
    return f"{type(error).__name__}: {error}" if expected else traceback.format_exc()


def _receive(infile: IO[bytes]) -> bytes:
    return infile.read(_LENGTH.unpack(infile.read(_LENGTH.size))[0])


def _send(data: bytes, outfile: IO[bytes] | _Channel) -> None:
    outfile.write(_LENGTH.pack(len(data)))
    outfile.write(data)
