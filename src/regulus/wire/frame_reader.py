"""Bytes in, commands out.

    reader.feed(data)
    for command in reader.frames():     # raises FrameError on bytes that no peer may send

Memory that the caller will reuse is lent, and given back once the commands are handled:

    reader.lend(buffer, start, end)
    for command in reader.frames():
        ...                             # the body of a send is still in the buffer
    reader.give_back()

The rest of a large frame is read into separate memory, where its body stays; only its first part is copied:

    if reader.room is not None:
        reader.fill(socket.recv_into(reader.room))

Source: NettyDecoder, RemotingCommand.decode.
"""

from regulus.errors import FrameError
from regulus.wire import big_endian
from regulus.wire.codes import RequestCode
from regulus.wire.header_json import cut
from regulus.wire.header_json import decode as decode_json
from regulus.wire.header_rocketmq import decode as decode_rocketmq
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

FRAME_SIZE_MAX = 16 * 1024 * 1024
"""The largest frame that is read, in bytes, as RocketMQ's `com.rocketmq.remoting.frameMaxLength`."""

HEADER_SIZE_MAX = 1024 * 1024
"""The largest header that is read, in bytes: 32 767 bytes of properties, each written as six, are a fifth of it."""

LARGE_FRAME = 512 * 1024
"""Frames of at least this many bytes get separate memory."""

GROWTH_MAX = 16
"""The memory is allocated when this fraction of the frame has arrived: a false length must not cost much more than was
sent."""

# Private names allow these to be typed constants in the compiled form.
_JSON = JSON
_ROCKETMQ = ROCKETMQ
_HEADER_SIZE_MAX = HEADER_SIZE_MAX
_LARGE_FRAME = LARGE_FRAME
_GROWTH_MAX = GROWTH_MAX
_SEND_MESSAGE_V2 = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH_MESSAGE = int(RequestCode.SEND_BATCH_MESSAGE)


class FrameReader:
    """Splits a stream of bytes into frames and keeps the bytes of an unfinished one.

    After a FrameError the stream cannot be read further: every later call of `frames` raises again.
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self.frame_size_max = frame_size_max
        self.room: memoryview | None = None
        """Where the rest of a large frame must be written; None if no such frame is in progress."""
        self._data: bytes | bytearray = b""
        self._position = 0
        self._end = 0
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._wanted = 8
        self._error: FrameError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add data. Bytes objects are kept and read in place; other buffers are copied."""
        if self.room is not None:
            raise ValueError("a large frame is under way: its rest goes to `room`")
        if not isinstance(data, bytes):
            data = bytes(data)
        if self._position == self._end:
            self._data = data
            self._position = 0
            self._end = len(data)
        else:
            self._waiting.append(data)
            self._waiting_size += len(data)

    def lend(self, buffer: bytearray, start: int, end: int) -> None:
        """Continue reading in buffer[start:end]. The rest of the earlier bytes is copied in front of it, if it fits
        there."""
        rest = self._end - self._position
        if self._waiting or rest > start:
            self.feed(bytes(memoryview(buffer)[start:end]))
            return
        if rest:
            buffer[start - rest:start] = memoryview(self._data)[self._position:self._end]
        self._data = buffer
        self._position = start - rest
        self._end = end

    def give_back(self, has_room: bool = True) -> None:
        """Stop using the lent memory, keeping only the beginning of an unfinished frame. Separate memory is allocated
        only if `has_room`.

        When there is room later, another call continues the frame in separate memory.
        """
        if self.room is not None:
            return
        if has_room and self._wanted >= _LARGE_FRAME and self.buffered * _GROWTH_MAX >= self._wanted:
            self._make_room()
        elif isinstance(self._data, bytearray):
            self._data = cut(self._data, self._position, self._end)
            self._position = 0
            self._end = len(self._data)

    def _make_room(self) -> None:
        """Continue the frame in separate memory."""
        own = bytearray(self._wanted)
        end = 0
        for part in (memoryview(self._data)[self._position:self._end], *self._waiting):
            own[end:end + len(part)] = part
            end += len(part)
        self._data = own
        self._position = 0
        self._end = end
        self._waiting = []
        self._waiting_size = 0
        self.room = memoryview(own)[end:]

    def fill(self, size: int) -> None:
        """Report that the first `size` bytes of `room` were received."""
        assert self.room is not None
        self._end += size
        self.room = self.room[size:]

    @property
    def wanted(self) -> int:
        """The size of the unfinished frame in bytes, as far as it is known."""
        return self._wanted

    @property
    def buffered(self) -> int:
        """Bytes that were fed and not yet returned in a frame."""
        return self._end - self._position + self._waiting_size

    def frames(self) -> list[RemotingCommand]:
        """All whole frames so far. Raises FrameError; the good frames before a bad one are returned first."""
        if self._error is not None:
            raise self._error
        commands: list[RemotingCommand] = []
        if self._waiting:
            if self.buffered < self._wanted:
                return commands
            self._data = b"".join([memoryview(self._data)[self._position:self._end], *self._waiting])
            self._position = 0
            self._end = len(self._data)
            self._waiting = []
            self._waiting_size = 0
        try:
            while self._next(commands):
                pass
        except FrameError as error:
            self._error = error
            if not commands:
                raise
        return commands

    def _next(self, commands: list[RemotingCommand]) -> bool:
        data = self._data
        start = self._position
        room = self._end - start
        if room < 4:
            self._wanted = 4
            return False
        total = big_endian.uint4(data, start)
        if total < 4 or total > self.frame_size_max:
            raise FrameError(f"frame of {total} bytes; 4 to {self.frame_size_max} are allowed")
        if room < 4 + total:
            self._wanted = 4 + total
            return False
        is_own = self.room is not None
        commands.append(decode_frame(data, start + 4, start + 4 + total, is_own))
        self._position = start + 4 + total
        if is_own:
            self.room = None
            self._data = b""
            self._position = self._end = 0
        return True


def decode_frame(data: bytes | bytearray, start: int, end: int, is_own: bool) -> RemotingCommand:
    """The command in data[start:end], which begins after the total size. Raises FrameError.

    `is_own` says that `data` contains only this frame and does not change.
    """
    text = data
    word = big_endian.uint4(text, start)
    header_start = start + 4
    header_size = word & 0xFFFFFF
    header_end = header_start + header_size
    if header_size > _HEADER_SIZE_MAX:
        raise FrameError(f"header of {header_size} bytes; {_HEADER_SIZE_MAX} are the most")
    if header_end > end:
        raise FrameError(f"header of {header_size} bytes in a frame of {end - start}")
    command = RemotingCommand.__new__(RemotingCommand)
    command.serialize_type = word >> 24
    command.ext_binary = None
    if command.serialize_type == _JSON:
        decode_json(command, data, header_start, header_end)
    elif command.serialize_type == _ROCKETMQ:
        decode_rocketmq(command, data, header_start, header_end)
    else:
        raise FrameError(f"unknown serialize type {command.serialize_type}; 0 is JSON, 1 is ROCKETMQ")
    if is_own or command.code == _SEND_MESSAGE_V2 or command.code == _SEND_BATCH_MESSAGE:
        command.leave_body(data, header_end, end)
    else:
        # Other bodies may be kept for long, a held pull for instance; they must not keep all data that was read with
        # them.
        command.keep_body(cut(text, header_end, end))
    return command
