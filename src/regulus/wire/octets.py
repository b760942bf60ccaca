"""Writing into bytes that were made before. Compiled, these are a few instructions each."""


def put(out: bytearray, position: int, data: bytes | bytearray, start: int, end: int) -> int:
    """Write data[start:end]; the position behind it."""
    for index in range(start, end):
        out[position] = data[index]
        position += 1
    return position


def put_number(out: bytearray, position: int, value: int) -> int:
    """Write a number that is not negative in decimal digits; the position behind it."""
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
