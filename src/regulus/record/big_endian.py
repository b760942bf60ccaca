"""Numbers as RocketMQ's files store them, highest byte first. Writing one returns the position after it.

As with byte_runs: interpreted code uses the functions below, and modules that cimport it those of the .pxd, without a
call. The caller checks the bounds.
"""

from regulus.record.byte_runs import Buffer, WritableBuffer


def int4(data: Buffer, position: int) -> int:
    return int.from_bytes(data[position:position + 4], "big", signed=True)


def int8(data: Buffer, position: int) -> int:
    return int.from_bytes(data[position:position + 8], "big", signed=True)


def put2(cells: WritableBuffer, position: int, value: int) -> int:
    """Write the low two bytes of `value`; `put4` and `put8` work alike."""
    cells[position:position + 2] = (value & 0xFFFF).to_bytes(2, "big")
    return position + 2


def put4(cells: WritableBuffer, position: int, value: int) -> int:
    cells[position:position + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")
    return position + 4


def put8(cells: WritableBuffer, position: int, value: int) -> int:
    cells[position:position + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
    return position + 8
