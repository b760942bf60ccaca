"""Permission bits of a topic or broker. Source: PermName."""

PRIORITY = 8
READ = 4
WRITE = 2
INHERIT = 1
READ_WRITE = READ | WRITE


def is_readable(perm: int) -> bool:
    return perm & READ != 0


def is_writable(perm: int) -> bool:
    return perm & WRITE != 0


def is_inherited(perm: int) -> bool:
    return perm & INHERIT != 0
