"""The CRC-32 of bodies, computed by the fastest installed library.

zlib-ng processes 64 bytes at a time where the processor can, several times as fast as the zlib of Python. The checksums
are the same.
"""

try:
    from zlib_ng.zlib_ng import crc32 as crc32
except ImportError:
    from zlib import crc32 as crc32
