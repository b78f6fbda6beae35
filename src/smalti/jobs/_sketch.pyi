"""Counting distinct values in little memory: HyperLogLog registers fed straight from Arrow buffers."""

REGISTERS: int

def add_fixed(
    registers: bytearray,
    values: int,
    width: int,
    validity: int,
    offset: int,
    length: int,
    is_float: bool = False,
    ticks: int = 0,
) -> None:
    """Add `length` numbers of `width` bytes, so that a number counts once whatever type it has in which file."""

def add_variable(registers: bytearray, offsets: int, values: int, validity: int, offset: int, length: int) -> None:
    """Add `length` strings with 32-bit offsets."""

def merge(registers: bytearray, other: bytes | bytearray) -> None:
    """Merge the registers of another part of the column into these."""

def estimate(registers: bytes | bytearray) -> float:
    """Estimate how many different values were added: within about 5 %, and nearly exact for a few hundred."""
