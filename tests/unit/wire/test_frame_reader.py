import struct

import pytest

from regulus.errors import FrameError
from regulus.wire.frame_reader import FRAME_SIZE_MAX, GROWTH_MAX, LARGE_FRAME, FrameReader
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand

FRAMES = [
    RemotingCommand.request(310, {"a": "PG", "b": "主题"}, b"x" * 50, opaque=1).encode(),
    RemotingCommand.request(34, None, b"", opaque=2, serialize_type=ROCKETMQ).encode(),
    RemotingCommand.request(105, {"topic": "T"}, opaque=3).encode(),
]
STREAM = b"".join(FRAMES)


def test_every_split_in_two_gives_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        reader = FrameReader()
        reader.feed(STREAM[:cut])
        first = reader.frames()
        reader.feed(STREAM[cut:])
        assert [command.opaque for command in first + reader.frames()] == [1, 2, 3]
        assert reader.buffered == 0


def test_byte_by_byte() -> None:
    reader = FrameReader()
    frames = []
    for position in range(len(STREAM)):
        reader.feed(STREAM[position:position + 1])
        frames += reader.frames()
    assert [command.opaque for command in frames] == [1, 2, 3]


def test_many_feeds_before_one_look() -> None:
    reader = FrameReader()
    for position in range(0, len(STREAM), 3):
        reader.feed(STREAM[position:position + 3])
    assert [command.opaque for command in reader.frames()] == [1, 2, 3]
    assert reader.frames() == []


def test_an_unfinished_frame_waits() -> None:
    reader = FrameReader()
    reader.feed(FRAMES[0][:-1])
    assert reader.frames() == []
    assert reader.buffered == len(FRAMES[0]) - 1
    reader.feed(FRAMES[0][-1:])
    assert reader.frames()[0].body == b"x" * 50


def test_other_buffers_are_taken_too() -> None:
    reader = FrameReader()
    reader.feed(bytearray(FRAMES[0]))
    reader.feed(memoryview(FRAMES[2]))
    assert [command.opaque for command in reader.frames()] == [1, 3]


@pytest.mark.parametrize(("bad", "cause"), [
    (struct.pack(">I", 3), "frame of 3 bytes"),
    (struct.pack(">I", 0), "frame of 0 bytes"),
    (struct.pack(">I", FRAME_SIZE_MAX + 1), "frame of 16777217 bytes"),
    (struct.pack(">i", -1), "frame of 4294967295 bytes"),
    (struct.pack(">II", 4, 1), "header of 1 bytes in a frame of 4"),
    (struct.pack(">II", 6, 0xFFFFFF) + b"{}", "header of 16777215 bytes; 1048576 are the most"),
    (struct.pack(">II", 6, 2 << 24 | 2) + b"{}", "serialize type 2"),
    (struct.pack(">II", 6, 255 << 24 | 2) + b"{}", "serialize type 255"),
    (struct.pack(">II", 6, 2) + b"{]", "not JSON"),
    (struct.pack(">II", 4, 0), "not JSON"),
    (struct.pack(">II", 6, 1 << 24 | 2) + b"{}", "at least 21"),
])
def test_bytes_that_no_peer_may_send_are_refused(bad: bytes, cause: str) -> None:
    reader = FrameReader()
    reader.feed(bad)
    with pytest.raises(FrameError, match=cause):
        reader.frames()


def test_good_frames_before_a_bad_one_come_first_and_the_error_stays() -> None:
    reader = FrameReader()
    reader.feed(STREAM + struct.pack(">I", 1) + STREAM)
    assert [command.opaque for command in reader.frames()] == [1, 2, 3]
    for _ in range(2):
        with pytest.raises(FrameError, match="frame of 1 bytes"):
            reader.frames()


def test_the_limit_is_the_reader_s_own() -> None:
    reader = FrameReader(frame_size_max=60)
    reader.feed(FRAMES[0])
    with pytest.raises(FrameError, match="4 to 60"):
        reader.frames()


def test_a_frame_of_the_largest_size_is_read() -> None:
    empty = RemotingCommand.request(10).encode()
    body = bytes(FRAME_SIZE_MAX - (len(empty) - 4))
    frame = RemotingCommand.request(10, None, body).encode()
    reader = FrameReader()
    for start in range(0, len(frame), 1 << 18):
        reader.feed(frame[start:start + (1 << 18)])
    (command,) = reader.frames()
    assert len(command.body) == len(body)


def test_a_body_does_not_keep_the_chunk_alive() -> None:
    reader = FrameReader()
    reader.feed(STREAM)
    assert type(reader.frames()[0].body) is bytes


def test_what_is_kept_of_lent_memory_is_a_copy() -> None:
    reader = FrameReader()
    frame = RemotingCommand.request(11, {"a": "b"}, b"body").encode()
    buffer = bytearray(10) + frame + frame[:9]
    reader.lend(buffer, 10, len(buffer))
    (command,) = reader.frames()
    reader.give_back()
    buffer[:] = bytes(len(buffer))
    assert (command.ext, command.body, reader.buffered) == ({"a": "b"}, b"body", 9)
    buffer[10:10 + len(frame) - 9] = frame[9:]
    reader.lend(buffer, 10, 10 + len(frame) - 9)
    assert [each.body for each in reader.frames()] == [b"body"]


def test_the_body_of_a_send_is_read_where_it_lies_until_it_is_asked_for() -> None:
    reader = FrameReader()
    frame = RemotingCommand.request(310, {"a": "b"}, b"body").encode()
    buffer = bytearray(frame + frame)
    reader.lend(buffer, 0, len(buffer))
    first, second = reader.frames()
    assert first.body == b"body"
    buffer[:] = b"x" * len(buffer)
    assert (first.body, second.body) == (b"body", b"xxxx")


def read_through(reader: FrameReader, stream: bytes, read_size: int) -> tuple[list[RemotingCommand], int]:
    """The commands of a stream that is read as a connection reads it, and how many bytes went past the shared
    buffer."""
    buffer = bytearray(100 + read_size)
    commands: list[RemotingCommand] = []
    position = past = 0
    while position < len(stream):
        room = reader.room if reader.room is not None else memoryview(buffer)[100:]
        size = min(len(room), len(stream) - position)
        room[:size] = stream[position:position + size]
        if reader.room is None:
            reader.lend(buffer, 100, 100 + size)
        else:
            reader.fill(size)
            past += size
        position += size
        commands += reader.frames()
        reader.give_back()
        buffer[:] = bytes(len(buffer))
    return commands, past


@pytest.mark.parametrize("read_size", [50_000, LARGE_FRAME // GROWTH_MAX, 1 << 20, 10 << 20])
def test_the_rest_of_a_large_frame_is_read_into_memory_of_its_own(read_size: int) -> None:
    reader = FrameReader()
    bodies = [b"small", b"a" * (3 << 20), b"", b"b" * (LARGE_FRAME - 1000), b"c" * LARGE_FRAME, b"small again"]
    stream = b"".join(RemotingCommand(0, body=body, flag=1, opaque=number).encode()
                      for number, body in enumerate(bodies))
    commands, past = read_through(reader, stream, read_size)
    views = [command.body_view for command in commands]
    assert views == bodies
    assert [command.body_size for command in commands] == [len(body) for body in bodies]
    assert [command.body for command in commands] == bodies
    assert (past > 3 << 20) is (read_size < 1 << 20)
    assert reader.room is None
    assert reader.buffered == 0


def test_a_lying_length_takes_no_memory_before_a_part_of_it_has_come() -> None:
    reader = FrameReader()
    frame = RemotingCommand.request(34, None, bytes(FRAME_SIZE_MAX // 2)).encode()
    for start in range(0, len(frame) // GROWTH_MAX, 1000):
        assert reader.room is None
        buffer = bytearray(frame[start:start + 1000])
        reader.lend(buffer, 0, len(buffer))
        assert reader.frames() == []
        reader.give_back()
    assert reader.room is not None
    assert reader.buffered + len(reader.room) == len(frame)
    with pytest.raises(ValueError, match="its rest goes to `room`"):
        reader.feed(b"more")


def test_a_large_frame_that_is_none_is_refused() -> None:
    reader = FrameReader()
    frame = bytearray(RemotingCommand.request(34, None, bytes(LARGE_FRAME)).encode())
    frame[4] = 77
    with pytest.raises(FrameError, match="serialize type 77"):
        read_through(reader, bytes(frame), 100_000)
