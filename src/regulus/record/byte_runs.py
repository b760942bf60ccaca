"""Find, compare, copy and prefetch runs of bytes in a buffer.

Interpreted code uses the functions below. A compiled module that cimports them gets those of the .pxd, which are plain
C and far faster than loops over a view. The caller checks the bounds: compiled, none is checked.
"""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mmap import mmap

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap"
WritableBuffer: TypeAlias = "bytearray | memoryview | mmap"


def find_byte(data: Buffer, value: int, start: int, limit: int) -> int:
    """The first position of `value` in data[start:limit]; `limit` when it does not occur."""
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
    """Like `copy_run`, for pieces copied in sequence: bytes after the piece in the target may be overwritten."""
    target[at:at + size] = source[start:start + size]


def fetch_ahead(data: Buffer, position: int) -> None:
    """Prefetch the cache line at `position`, which will be read soon."""
