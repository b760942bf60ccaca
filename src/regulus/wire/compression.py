"""Compression of bodies by clients: zlib (RFC 1950), LZ4 frames or zstd frames, depending on the sysFlag.

Source: CompressionType, Compressor, MessageSysFlag.
"""

import zlib
from collections.abc import Callable

import lz4.frame
import zstandard

from regulus.errors import MessageIllegal
from regulus.model import sys_flag as flags

DEFAULT_LEVEL = 5
INFLATED_SIZE_MAX = 64 * 1024 * 1024
"""The maximum number of bytes of an unpacked body: 16 times the largest stored one. Anything larger is treated as a
decompression bomb."""

_ZSTD_SLICE = 512
"""Bytes of input between two checks of the size; a block of 4 bytes can expand to 128 KiB."""

_ZSTD_WINDOW_MAX = 1 << 26


def compress(body: bytes, type_bits: int = flags.COMPRESSION_ZLIB, level: int = DEFAULT_LEVEL) -> bytes:
    """Compress a body. `type_bits` is one of sys_flag.COMPRESSION_*; 0 is zlib too. Raises MessageIllegal on an unknown
    type."""
    if type_bits in (0, flags.COMPRESSION_ZLIB):
        return zlib.compress(body, level)
    if type_bits == flags.COMPRESSION_LZ4:
        return bytes(lz4.frame.compress(body, compression_level=level))
    if type_bits == flags.COMPRESSION_ZSTD:
        return zstandard.ZstdCompressor(level=level).compress(body)
    raise MessageIllegal(f"compression type {type_bits:#x} is unknown; 0x100 is LZ4, 0x200 zstd, 0x300 zlib")


def decompress(body: bytes, sys_flag: int, size_max: int = INFLATED_SIZE_MAX) -> bytes:
    """The uncompressed body; `body` itself when sys_flag has no COMPRESSED bit.

    Raises MessageIllegal when the bytes are not a whole stream of that type, or expand beyond `size_max`.
    """
    if not sys_flag & flags.COMPRESSED:
        return body
    type_bits = sys_flag & flags.COMPRESSION_MASK
    if type_bits not in _INFLATERS:
        raise MessageIllegal(f"compression type {type_bits:#x} is unknown; 0x100 is LZ4, 0x200 zstd, 0x300 zlib")
    name, inflate = _INFLATERS[type_bits]
    try:
        inflated, whole = inflate(body, size_max)
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError) as cause:
        raise MessageIllegal(f"body is not a {name} stream: {cause}") from cause
    if len(inflated) > size_max:
        raise MessageIllegal(f"{name} body of {len(body)} bytes grows beyond {size_max}")
    if not whole:
        raise MessageIllegal(f"{name} body is cut short")
    return inflated


def _inflate_zlib(body: bytes, size_max: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    inflated = stream.decompress(body, size_max + 1)
    return inflated, stream.eof


def _inflate_lz4(body: bytes, size_max: int) -> tuple[bytes, bool]:
    stream = lz4.frame.LZ4FrameDecompressor()
    inflated = stream.decompress(body, size_max + 1)
    return inflated, stream.eof


def _inflate_zstd(body: bytes, size_max: int) -> tuple[bytes, bool]:
    # The bounded reader of the package accepts a truncated stream as whole, so the input is bounded instead.
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).decompressobj()
    parts: list[bytes] = []
    size = 0
    for start in range(0, len(body), _ZSTD_SLICE):
        parts.append(stream.decompress(body[start:start + _ZSTD_SLICE]))
        size += len(parts[-1])
        if stream.eof or size > size_max:
            break
    return b"".join(parts), stream.eof


_INFLATERS: dict[int, tuple[str, Callable[[bytes, int], tuple[bytes, bool]]]] = {
    0: ("zlib", _inflate_zlib),
    flags.COMPRESSION_ZLIB: ("zlib", _inflate_zlib),
    flags.COMPRESSION_LZ4: ("LZ4", _inflate_lz4),
    flags.COMPRESSION_ZSTD: ("zstd", _inflate_zstd),
}
