import struct

import pytest

from regulus.errors import FrameError
from regulus.wire import header_rocketmq
from regulus.wire.remoting_command import RemotingCommand

EXAMPLE = bytes.fromhex("000e00000000000007000000000000000268690000000c"
                        "0005746f7069630000000154")


def decoded(header: bytes) -> RemotingCommand:
    command = RemotingCommand(0)
    header_rocketmq.decode(command, b"\xff" + header + b"\xff", 1, 1 + len(header))
    return command


def test_the_layout() -> None:
    command = decoded(EXAMPLE)
    assert (command.code, command.language, command.version, command.opaque, command.flag) == (14, 0, 0, 7, 0)
    assert (command.remark, command.ext) == ("hi", {"topic": "T"})
    assert header_rocketmq.encode(command, command.ext) == EXAMPLE


def test_negative_codes_and_no_texts() -> None:
    command = RemotingCommand(-1000, flag=1)
    header = header_rocketmq.encode(command, {})
    assert len(header) == 21
    assert decoded(header).code == -1000
    assert decoded(header).remark is None


def test_a_code_beyond_16_bits_is_cut_as_java_cuts_it() -> None:
    assert decoded(header_rocketmq.encode(RemotingCommand(200050), {})).code == 0x0D72


def test_empty_names_and_values_count_as_absent_and_the_last_of_two_wins() -> None:
    def entry(name: bytes, value: bytes) -> bytes:
        return struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value
    entries = entry(b"a", b"1") + entry(b"", b"x") + entry(b"b", b"") + entry(b"a", b"2")
    assert decoded(EXAMPLE[:13] + bytes(4) + struct.pack(">i", len(entries)) + entries).ext == {"a": "2"}


@pytest.mark.parametrize(("header", "cause"), [
    (b"", "at least 21"),
    (EXAMPLE[:20], "at least 21"),
    (EXAMPLE[:13] + struct.pack(">i", -1) + EXAMPLE[17:], "remark length -1"),
    (EXAMPLE[:13] + struct.pack(">i", 1 << 30) + EXAMPLE[17:], "remark length"),
    (EXAMPLE[:19] + struct.pack(">i", -1) + EXAMPLE[23:], "ext length -1"),
    (EXAMPLE[:19] + struct.pack(">i", 13) + EXAMPLE[23:], "ext length 13"),
    (EXAMPLE[:19] + struct.pack(">i", 1) + EXAMPLE[23:], "cut short"),
    (EXAMPLE[:23] + struct.pack(">h", -1) + EXAMPLE[25:], "name length -1"),
    (EXAMPLE[:23] + struct.pack(">h", 100) + EXAMPLE[25:], "name length 100"),
    (EXAMPLE[:30] + struct.pack(">i", -1) + EXAMPLE[34:], "value length -1"),
    (EXAMPLE[:30] + struct.pack(">i", 2) + EXAMPLE[34:], "value length 2"),
    (EXAMPLE[:17] + b"\xff\xff" + EXAMPLE[19:], "UTF-8"),
    (EXAMPLE[:-1] + b"\xff", "UTF-8"),
])
def test_lengths_that_lie_are_refused(header: bytes, cause: str) -> None:
    with pytest.raises(FrameError, match=cause):
        decoded(header)


def test_a_name_that_has_no_room_is_refused() -> None:
    with pytest.raises(FrameError, match="32768"):
        header_rocketmq.encode(RemotingCommand(0), {"n" * 32768: "v"})
