"""Numbers as frames have them, highest byte first.

Interpreted, the functions below; in modules that cimport it those of the .pxd, without a call. Bounds are the caller's.
"""


def int2(data: bytes | bytearray, position: int) -> int:
    return int.from_bytes(data[position:position + 2], "big", signed=True)


def int4(data: bytes | bytearray, position: int) -> int:
    return int.from_bytes(data[position:position + 4], "big", signed=True)


def uint4(data: bytes | bytearray, position: int) -> int:
    """Four bytes without a sign."""
    return int.from_bytes(data[position:position + 4], "big")


def put4(out: bytearray, position: int, value: int) -> None:
    """Write the low four bytes of `value`."""
    out[position:position + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")
