"""One request or response, and its frame.

    offset  size    field
         0     4    total size of what follows
         4     1    serialize type of the header: 0 JSON, 1 ROCKETMQ
         5     3    header size
         8     n    header
     8 + n          body

Source: RemotingCommand.
"""

from collections.abc import Sequence
from struct import Struct

from regulus.wire import header_json, header_rocketmq
from regulus.wire.codes import VERSION, LanguageCode
from regulus.wire.command_header import CommandHeader

JSON = 0
ROCKETMQ = 1

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

# Private names allow these to be typed constants in the compiled form.
_JSON = JSON
_ROCKETMQ = ROCKETMQ
_RESPONSE = RESPONSE_FLAG
_ONEWAY = ONEWAY_FLAG
_PYTHON = int(LanguageCode.PYTHON)
_VERSION = VERSION
_PREFIX = Struct(">II")
# The first words of small frames, ready to send: most answers have no body.
_WORDS = [size.to_bytes(4, "big") for size in range(1024)]
_WORD_MAX = 1023

Buffer = bytes | memoryview


class RemotingCommand(CommandHeader):
    """`code` is a request code or, when `is_response`, a response code; `opaque` links the two.

    A body need not become an object, because not every send needs one. It may stay where it was read: it is valid until
    the send is decided, or, if the frame is large, as long as there is a reference to it. After `find_body` it is
    body_source[body_start:body_end].
    """

    def __init__(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", flag: int = 0,
                 opaque: int = 0, remark: str | None = None, language: int = _PYTHON, version: int = _VERSION,
                 serialize_type: int = JSON) -> None:
        self.code = code
        self.language = language
        self.version = version
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.serialize_type = serialize_type
        self.ext_map = ext
        self.ext_json = None
        self.ext_binary = None
        self.body_source: bytes | bytearray = b""
        self.body_start = 0
        self.body_end = 0
        self._body: bytes | None = body
        self._body_parts: list[Buffer] | None = None

    @staticmethod
    def request(code: int, ext: dict[str, str] | None = None, body: bytes | Sequence[Buffer] = b"",
                oneway: bool = False, opaque: int = 0, serialize_type: int = JSON) -> "RemotingCommand":
        """Create a request. A body that is a list of buffers is sent without being copied."""
        request = RemotingCommand(code, ext, body if isinstance(body, bytes) else b"", ONEWAY_FLAG if oneway else 0,
                                  opaque, serialize_type=serialize_type)
        if not isinstance(body, bytes):
            request._body_parts = list(body)
        return request

    def response(self, code: int, remark: str | None = None, ext: dict[str, str] | None = None,
                 body: bytes | Sequence[Buffer] = b"") -> "RemotingCommand":
        """Create the answer to this request. A body that is a list of buffers is sent without being copied."""
        answer = RemotingCommand.__new__(RemotingCommand)
        answer.code = code
        answer.language = _PYTHON
        answer.version = _VERSION
        answer.opaque = self.opaque
        answer.flag = _RESPONSE
        answer.remark = remark
        answer.serialize_type = self.serialize_type
        answer.ext_map = ext
        answer.ext_json = None
        answer.ext_binary = None
        if isinstance(body, bytes):
            answer._body = body
            answer._body_parts = None
        else:
            answer._body = b""
            answer._body_parts = list(body)
        return answer

    @property
    def is_response(self) -> bool:
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & _ONEWAY != 0

    @property
    def ext(self) -> dict[str, str]:
        """The custom fields; the same dict at each call, to be changed in place or replaced."""
        if self.ext_map is None:
            if self.ext_json is not None:
                self.ext_map = header_json.parse_ext(self.ext_json)
            else:
                self.ext_map = {} if self.ext_binary is None else header_rocketmq.parse_ext(self.ext_binary)
            self.ext_json = self.ext_binary = None
        return self.ext_map

    @ext.setter
    def ext(self, ext: dict[str, str]) -> None:
        self.ext_map = ext
        self.ext_json = self.ext_binary = None

    @property
    def body(self) -> bytes:
        if self._body_parts is not None:
            self._body = b"".join(self._body_parts)
            self._body_parts = None
        if self._body is None:
            self._body = bytes(memoryview(self.body_source)[self.body_start:self.body_end])
            self.body_source = b""
        return self._body

    @body.setter
    def body(self, body: bytes) -> None:
        self.keep_body(body)

    def leave_body(self, source: bytes | bytearray, start: int, end: int) -> None:
        """Use source[start:end] as the body; it is not copied until `body` is read."""
        self._body = None
        self._body_parts = None
        self.body_source = source
        self.body_start = start
        self.body_end = end

    def keep_body(self, body: bytes) -> None:
        """Set `body`; compiled, this is a fast call."""
        self._body = body
        self._body_parts = None

    def find_body(self) -> None:
        """Set `body_source`, `body_start` and `body_end` to the position of the body; a body left in place is not
        copied."""
        if self._body is not None or self._body_parts is not None:
            body = self.body
            self.body_source = body
            self.body_start = 0
            self.body_end = len(body)

    @property
    def body_view(self) -> Buffer:
        """The body, without copying it. The view keeps the body's frame in memory."""
        if self._body is None and self._body_parts is None:
            return memoryview(self.body_source)[self.body_start:self.body_end]
        return self.body

    @property
    def body_size(self) -> int:
        """The size of the body in bytes; the body does not become an object."""
        return self.body_end - self.body_start if self._body is None else len(self.body)

    def encode(self) -> bytes:
        """The whole frame."""
        header = self._encode_header()
        if self._body_parts is not None:
            return b"".join(self.encode_parts())
        body = self.body
        front = self._front(header, len(body))
        return front + body if body else front

    def encode_parts(self) -> list[Buffer]:
        """The frame as buffers to write one after the other; bodies are not copied."""
        header = self._encode_header()
        if self._body_parts is not None:
            body_size = 0
            for part in self._body_parts:
                body_size += len(part)
            return [self._front(header, body_size), *self._body_parts]
        body = self.body
        front = self._front(header, len(body))
        return [front, body] if body else [front]

    def _encode_header(self) -> bytes:
        if self.serialize_type == _ROCKETMQ:
            return header_rocketmq.encode(self, self.ext if self.ext_binary is None else None)
        return header_json.encode(self)

    def _front(self, header: bytes, body_size: int) -> bytes:
        """The lengths and the header, as the first buffer of the frame."""
        size = len(header)
        total = 4 + size + body_size
        if total <= _WORD_MAX and self.serialize_type == _JSON:
            return b"".join((_WORDS[total], _WORDS[size], header))
        return _PREFIX.pack(total, self.serialize_type << 24 | size) + header

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway request" if self.is_oneway else "request"
        return (f"RemotingCommand({kind} {self.code}, opaque={self.opaque}, ext={self.ext!r}, "
                f"body={len(self.body)} bytes)")
