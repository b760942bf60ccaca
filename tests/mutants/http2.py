"""What lets a peer break, stall or fill a gRPC server: docs/decisions/0040-http2-of-our-own.md."""

from tests.mutants import Mutant

_CONNECTION = "regulus/transport/http2/connection.py"
_STREAM = "regulus/transport/http2/stream.py"
_CALL = "regulus/transport/http2/grpc_call.py"
_SERVER = "regulus/transport/http2/grpc_server.py"
_BLOCK = "regulus/wire/http2/header_block.py"
_FRAMES = "regulus/wire/http2/frames.py"
_MESSAGES = "regulus/wire/http2/grpc_messages.py"
_OF_SERVER = ("tests/unit/transport/http2",)
_OF_WIRE = ("tests/unit/wire/http2",)

MUTANTS = (
    Mutant(name="streams taken back are not counted", path=_CONNECTION,
           old='        self._check_begun(stream_id, "RST_STREAM")\n        self._count_flood()\n',
           new='        self._check_begun(stream_id, "RST_STREAM")\n', tests=_OF_SERVER),
    Mutant(name="pings are not counted", path=_CONNECTION,
           old="        if not flags & ACK:\n            self._count_flood()\n", new="        if not flags & ACK:\n",
           tests=_OF_SERVER),
    Mutant(name="settings are not counted", path=_CONNECTION,
           old="        if self._settings_came > SETTINGS_MAX:\n", new="        if False:\n", tests=_OF_SERVER),
    Mutant(name="frames of one list of headers have no number", path=_CONNECTION,
           old=" or len(self._fragments) > FRAGMENTS_MAX:", new=":", tests=_OF_SERVER),
    Mutant(name="floods are counted for ever", path=_CONNECTION,
           old="        self._floods = self._settings_came = 0\n        if self.streams",
           new="        if self.streams", tests=_OF_SERVER),
    Mutant(name="a connection may have any number of streams", path=_CONNECTION,
           old=" or len(self.streams) >= STREAMS_MAX:", new=":", tests=_OF_SERVER),
    Mutant(name="settings that take windows back are passed over", path=_CONNECTION,
           old="            stream.send_window += change\n", new="            stream.send_window += max(change, 0)\n",
           tests=_OF_SERVER),
    Mutant(name="the window of the connection is not looked at", path=_CONNECTION,
           old="min(self._send_window, self._frame_size_max)", new="self._frame_size_max", tests=_OF_SERVER),
    Mutant(name="a call goes on when its client is gone", path=_CONNECTION,
           old="            stream.drop()\n            stream.lost()\n        self._on_closed",
           new="            stream.drop()\n        self._on_closed", tests=_OF_SERVER),
    Mutant(name="the connection that came last pays for the one that does not read", path=_CONNECTION,
           old="largest = max(self._connections, key=lambda each: each.held, default=connection)",
           new="largest = list(self._connections)[len(self._connections) - 1]", tests=_OF_SERVER),
    Mutant(name="a silent peer is waited for", path=_CONNECTION,
           old="if self._asked_at is not None and now - self._asked_at > PONG_S_MAX:",
           new="if False:", tests=_OF_SERVER),
    Mutant(name="more than a stream's window is sent", path=_STREAM,
           old="size = min(len(data), connection.room, self.send_window, size_max)",
           new="size = min(len(data), connection.room, size_max)", tests=_OF_SERVER),
    Mutant(name="trailers pass what waits", path=_STREAM,
           old="        if self._pending:\n            self._last_block = block\n",
           new="        if False:\n            pass\n",
           tests=_OF_SERVER),
    Mutant(name="what waited is counted for ever", path=_STREAM,
           old="        self.connection.sent(self.waiting_size)\n", new="", tests=_OF_SERVER),
    Mutant(name="a deadline ends nothing", path=_CALL,
           old="self._server.loop.call_later(within_s, self._expire)",
           new="self._server.loop.call_later(86_400, self._expire)", tests=_OF_SERVER),
    Mutant(name="a call has any number of messages", path=_CALL, old="            if self._request is not None:\n",
           new="            if False:\n", tests=_OF_SERVER),
    Mutant(name="a message that is cut short counts", path=_CALL,
           old="if self._reader is not None and self._reader.held:", new="if False:", tests=_OF_SERVER),
    Mutant(name="requests that do not end are waited for", path=_SERVER,
           old="                if now - began <= REQUEST_S_MAX:\n",
           new="                if True:\n", tests=_OF_SERVER),
    Mutant(name="a stop does not wait for calls", path=_SERVER,
           old="await asyncio.wait(list(self._tasks), timeout=within_s)",
           new="await asyncio.sleep(0)", tests=_OF_SERVER),
    Mutant(name="a few bytes become any message", path=_MESSAGES,
           old="inflater.decompress(message, self._size_max + 1)", new="inflater.decompress(message)", tests=_OF_WIRE),
    Mutant(name="a message has any size", path=_MESSAGES, old="            if size > self._size_max:\n",
           new="            if False:\n", tests=_OF_WIRE),
    Mutant(name="headers have any size", path=_BLOCK,
           old="Decoder(max_header_list_size=list_size_max * LIST_SIZE_FACTOR)",
           new="Decoder(max_header_list_size=1 << 30)", tests=_OF_WIRE),
    Mutant(name="a frame has any size", path=_FRAMES, old="            if size > self._frame_size_max:\n",
           new="            if False:\n", tests=_OF_WIRE),
)
