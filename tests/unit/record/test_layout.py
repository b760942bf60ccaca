"""Where the parts of a record stand; that they do, the records of a Java broker in tests/golden show."""

import re
from pathlib import Path

from regulus.record import layout

AFTER_START = [("TOTAL_SIZE", 4), ("MAGIC", 4), ("BODY_CRC", 4), ("QUEUE_ID", 4), ("FLAG", 4), ("QUEUE_OFFSET", 8),
               ("PHYSICAL_OFFSET", 8), ("SYS_FLAG", 4), ("BORN_TIMESTAMP", 8)]
AFTER_BORN_HOST = [("STORE_TIMESTAMP", 8)]
AFTER_STORE_HOST = [("RECONSUME_TIMES", 4), ("PREPARED_TRANSACTION_OFFSET", 8), ("BODY_LENGTH", 4)]


def end_of(fields: list[tuple[str, int]]) -> int:
    """Behind the fields, which must stand one behind the other."""
    position = 0
    for name, size in fields:
        assert getattr(layout, name) == position, name
        position += size
    return position


def test_fields_stand_one_behind_the_other():
    assert end_of(AFTER_START) == layout.BORN_HOST
    assert end_of(AFTER_BORN_HOST) == layout.STORE_HOST
    assert end_of(AFTER_STORE_HOST) == layout.BODY


def test_sizes_are_those_of_the_fields():
    assert layout.BODY_START_V4 == layout.BORN_HOST + layout.STORE_HOST + layout.BODY + 2 * layout.HOST_V4_SIZE
    assert layout.FIXED_SIZE_V1 == layout.BODY_START_V4 + 1 + layout.PROPERTIES_LENGTH_SIZE


def test_compiled_modules_have_the_same_numbers():
    text = Path(layout.__file__).with_suffix(".pxd").read_text()
    compiled = {name: int(value) for name, value in re.findall(r"^    (\w+) = (\S+)$", text, re.MULTILINE)}
    assert compiled == {name: value for name, value in vars(layout).items() if name.isupper()}
