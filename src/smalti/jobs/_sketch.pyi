"""Counting distinct values in little memory: HyperLogLog registers fed straight from Arrow buffers."""

REGISTERS: int

def add_fixed(registers: bytearray, values: int, width: int, validity: int, offset: int, length: int) -> None:
    """Add `length` values of `width` bytes; addresses are those of Arrow buffers, 0 for no validity bitmap."""

def add_variable(registers: bytearray, offsets: int, values: int, validity: int, offset: int, length: int) -> None:
    """Add `length` strings with 32-bit offsets."""

def merge(registers: bytearray, other: bytes | bytearray) -> None:
    """Take in what another part of the column has seen."""

def estimate(registers: bytes | bytearray) -> float:
    """How many different values were added: within about 5 %, and nearly exact for a few hundred."""
