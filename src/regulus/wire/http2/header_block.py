"""Decode and check the headers of a request, and encode those of our answers. The library hpack decompresses.

Our answers use no compression that has to be remembered, so their headers are the same bytes each time.

Source: RFC 9113, section 8; RFC 7541; PROTOCOL-HTTP2 of gRPC.
"""

import re
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from hpack import Decoder, HPACKError
from hpack.exceptions import OversizedHeaderListError

from regulus.errors import Http2Error
from regulus.wire.http2.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, PROTOCOL_ERROR

LIST_SIZE_FACTOR = 4
"""A header list above its limit is refused; one that is this many times above the limit ends the connection.

Even a refused list has to be decompressed, because later lists depend on it.
"""

_PSEUDO = frozenset((b":method", b":path", b":scheme", b":authority"))
_FORBIDDEN = re.compile(rb"[\0\r\n]")
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Characters in the text of a status that need no escape besides letters and digits; others are written as
percent-encoded bytes."""
_MESSAGE_SIZE_MAX = 2_048
"""The maximum number of bytes of a status text, each of which takes at most three: clients read no more than 8 KiB of
headers."""

_REASON_SIZE_MAX = 100
"""The maximum number of characters of the library's error text, which repeats what it read."""

_STATUS_200 = b"\x88"                                   # entry 8 of the static table
_CONTENT_TYPE = b"\x0f\x10\x10application/grpc"         # a name of the static table, and a text that is not remembered
RESPONSE = _STATUS_200 + _CONTENT_TYPE
"""The headers before the messages of an answer."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers of a request. `metadata` has all but the four pseudo headers, in their order, without those that are
    not text. `is_too_large`: the list of `size` bytes exceeds its limit, and only the path is set."""

    method: bytes
    path: str
    authority: str
    metadata: list[tuple[str, str]]
    size: int
    is_too_large: bool = False
    content_length: int | None = None


class HeaderDecoder:
    """Decodes the headers of one connection. `list_size_max` is counted as in RFC 9113: names, values, and 32 bytes for
    each."""

    def __init__(self, list_size_max: int) -> None:
        self._list_size_max = list_size_max
        self._decoder = Decoder(max_header_list_size=list_size_max * LIST_SIZE_FACTOR)

    def request(self, block: bytes, stream_id: int) -> RequestHeaders:
        """The headers of a request. Raises Http2Error."""
        fields = self._fields(block)
        pseudo: dict[bytes, bytes] = {}
        metadata: list[tuple[str, str]] = []
        size, length, is_behind_pseudo = 0, None, False
        for name, value in fields:
            size += len(name) + len(value) + 32
            if name[:1] == b":":
                if is_behind_pseudo or name not in _PSEUDO or name in pseudo:
                    raise Http2Error(PROTOCOL_ERROR, f"header {name!r} is unknown, comes twice or too late", stream_id)
                pseudo[name] = value
                continue
            is_behind_pseudo = True
            if (not name or name != name.lower() or name in _OF_CONNECTIONS
                  or (name == b"te" and value != b"trailers")):
                raise Http2Error(PROTOCOL_ERROR, f"header {name!r} may not be sent in HTTP/2", stream_id)
            if _FORBIDDEN.search(value) is not None or _FORBIDDEN.search(name) is not None:
                raise Http2Error(PROTOCOL_ERROR, f"header {name!r} has an end of line in it", stream_id)
            if value.isascii() and name.isascii():
                metadata.append((name.decode(), value.decode()))
                if name == b"content-length":
                    length = _length(value, length, stream_id)
        if not pseudo.get(b":method") or not pseudo.get(b":path") or not pseudo.get(b":scheme"):
            raise Http2Error(PROTOCOL_ERROR, "the request has no method, path or scheme", stream_id)
        return RequestHeaders(pseudo[b":method"], pseudo[b":path"].decode("latin-1"),
                              pseudo.get(b":authority", b"").decode("latin-1"), metadata, size,
                              size > self._list_size_max, length)

    def trailers(self, block: bytes, stream_id: int) -> None:
        """Decode the trailers of a request, which are ignored. Raises Http2Error."""
        if any(name[:1] == b":" for name, _ in self._fields(block)):
            raise Http2Error(PROTOCOL_ERROR, "pseudo headers behind the messages", stream_id)

    def _fields(self, block: bytes) -> "list[tuple[bytes, bytes]]":
        try:
            return cast("list[tuple[bytes, bytes]]", self._decoder.decode(block, raw=True))
        except OversizedHeaderListError as error:
            raise Http2Error(ENHANCE_YOUR_CALM, f"the headers have more than {LIST_SIZE_FACTOR} times "
                                                f"{self._list_size_max} bytes") from error
        except (HPACKError, ValueError, IndexError) as error:
            reason = str(error)[:_REASON_SIZE_MAX]
            raise Http2Error(COMPRESSION_ERROR, f"the headers cannot be read: {reason}") from error


def _length(value: bytes, before: int | None, stream_id: int) -> int:
    """The content length. Raises Http2Error if it is invalid, or differs from an earlier one."""
    if not (value.isdigit() and len(value) < 19) or before not in (None, int(value)):
        raise Http2Error(PROTOCOL_ERROR, f"content-length {value[:32]!r}", stream_id)
    return int(value)


def trailers(status: int, text: str = "") -> bytes:
    """The headers after the messages of an answer."""
    block = _literal(b"grpc-status", b"%d" % status)
    if text:
        block += _literal(b"grpc-message", quote(_cut(text), safe=_PLAIN).encode())
    return block


def _cut(text: str) -> bytes:
    """The text in UTF-8, cut after a whole character; what UTF-8 cannot encode becomes a question mark."""
    return text.encode(errors="replace")[:_MESSAGE_SIZE_MAX].decode(errors="ignore").encode()


def refusal(http_status: int) -> bytes:
    """The whole answer to a request that is not gRPC."""
    return _literal(b":status", b"%d" % http_status)


def _literal(name: bytes, value: bytes) -> bytes:
    """A header that neither end adds to its table."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    size, out = len(text), bytearray()
    if size < 0x7F:
        out.append(size)
    else:
        out.append(0x7F)
        size -= 0x7F
        while size >= 0x80:
            out.append(size & 0x7F | 0x80)
            size >>= 7
        out.append(size)
    return bytes(out) + text
