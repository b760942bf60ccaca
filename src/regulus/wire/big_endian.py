"""Numbers as frames encode them, highest byte first.

Interpreted code uses the functions below, and modules that cimport it those of the .pxd, without a call. The caller
checks the bounds.
"""


def int2(data: bytes | bytearray, position: int) -> int:
    return int.from_bytes(data[position:position + 2], "big", signed=True)


def int4(data: bytes | bytearray, position: int) -> int:
    return int.from_bytes(data[position:position + 4], "big", signed=True)


def uint4(data: bytes | bytearray, position: int) -> int:
    """The unsigned number in four bytes."""
    return int.from_bytes(data[position:position + 4], "big")


def put4(out: bytearray, position: int, value: int) -> None:
    """Write the low four bytes of `value`."""
    out[position:position + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")
