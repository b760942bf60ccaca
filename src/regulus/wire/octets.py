"""Write into existing buffers. Compiled, these functions are a few instructions each."""


def put(out: bytearray, position: int, data: bytes | bytearray, start: int, end: int) -> int:
    """Write data[start:end]; returns the position after it."""
    for index in range(start, end):
        out[position] = data[index]
        position += 1
    return position


def put_number(out: bytearray, position: int, value: int) -> int:
    """Write a non-negative number in decimal digits; returns the position after it."""
    end = position + 1
    rest = value // 10
    while rest > 0:
        rest //= 10
        end += 1
    place = end
    while place > position:
        place -= 1
        out[place] = ord("0") + value % 10
        value //= 10
    return end
