"""Runs of bytes in a buffer: found, compared, copied, fetched.

Interpreted, the functions below; a compiled module that cimports them gets those of the .pxd, which are C's own and far
faster than loops over a view. Bounds are the caller's: compiled, none is checked.
"""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mmap import mmap

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap"
WritableBuffer: TypeAlias = "bytearray | memoryview | mmap"


def find_byte(data: Buffer, value: int, start: int, limit: int) -> int:
    """Where `value` first stands in data[start:limit]; `limit` when it does not."""
    while start < limit and data[start] != value:
        start += 1
    return start


def is_same_run(data: Buffer, left: int, right: int, size: int) -> bool:
    return data[left:left + size] == data[right:right + size]


def is_run(data: Buffer, start: int, size: int, name: bytes) -> bool:
    """Whether these bytes are `name`."""
    return data[start:start + size] == name


def text_of_run(data: Buffer, start: int, end: int) -> str:
    return bytes(data[start:end]).decode("utf-8", "replace")


def bytes_of_run(data: Buffer, start: int, end: int) -> bytes:
    return bytes(data[start:end])


def copy_run(source: Buffer, start: int, target: memoryview, at: int, size: int) -> None:
    target[at:at + size] = source[start:start + size]


def copy_piece(source: Buffer, start: int, target: memoryview, at: int, size: int) -> None:
    """`copy_run` for pieces put one behind the other: what lies behind a piece in the target may be overwritten."""
    target[at:at + size] = source[start:start + size]


def fetch_ahead(data: Buffer, position: int) -> None:
    """Have the processor fetch what lies there, which will be read soon."""
