"""Numbers, times and strangers' text as people read them in logs, tables and messages."""

from datetime import datetime

from regulus.model.timestamps import dated

_CONTROLS = {number: repr(chr(number))[1:-1] for number in (
    *range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Characters that end a line, control the terminal that shows them, or change the direction of what follows."""
_CONTROLS_IN_LINES = {number: text for number, text in _CONTROLS.items() if chr(number) not in "\n\t"}


def one_line(text: str) -> str:
    """Text from a peer as one line: it can neither imitate lines of ours nor control a terminal."""
    return text.translate(_CONTROLS)


def lines(text: str) -> str:
    """Like `one_line`, but with its line ends and tabs: a body, or a stack."""
    return text.translate(_CONTROLS_IN_LINES)


def counted(number: int, noun: str, many: str = "") -> str:
    """`1 message`, `2 messages`; `many` is the plural if it does not end with an s."""
    return f"{number} {noun if number == 1 else many or f'{noun}s'}"


def time_text(timestamp_ms: int) -> str:
    """Local time with ms; a dash for 0."""
    if timestamp_ms <= 0:
        return "-"
    return datetime.fromtimestamp(dated(timestamp_ms) / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
