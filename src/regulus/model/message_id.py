"""Message ids: the broker's offset id, the client's unique key, and hosts in stored form.

    offset id    store host (4 or 16 address bytes, port i4), physical offset i8         upper-case hex, 32 or 56 digits
    unique key   client address (4 or 16), pid low 16 bits, class-loader hash i4,
                 ms since the month began (local time) u4, counter u2                    upper-case hex, 32 or 56 digits

Source: MessageDecoder.createMessageId, MessageClientIDSetter.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from string import hexdigits
from struct import Struct

_OFFSET = Struct(">q")
_PORT = Struct(">i")
_UNIQUE_TAIL = Struct(">HiIH")
_HEX_DIGITS = frozenset(hexdigits)


def host_bytes(address: str, port: int) -> bytes:
    """8 bytes for IPv4, 20 for IPv6. Raises ValueError when `address` is not a numeric address."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.packed + _PORT.pack(port)


def is_numeric_address(text: str) -> bool:
    """Whether `host_bytes` accepts it."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def host_address(host: bytes) -> tuple[str, int]:
    address = IPv4Address(host[:4]) if len(host) == 8 else IPv6Address(host[:16])
    return str(address), _PORT.unpack_from(host, len(host) - 4)[0]


def host_text(host: bytes) -> str:
    address, port = host_address(host)
    return f"{address}:{port}" if len(host) == 8 else f"[{address}]:{port}"


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def parse_offset_message_id(message_id: str) -> tuple[bytes, int]:
    """Store host and physical offset. Raises ValueError when the text is not an offset id."""
    if len(message_id) not in (32, 56) or not _HEX_DIGITS.issuperset(message_id):
        raise ValueError(f"{message_id!r} is not an offset message id: one has 32 or 56 hexadecimal digits")
    raw = bytes.fromhex(message_id)
    port = _PORT.unpack_from(raw, len(raw) - 12)[0]
    if not 0 <= port <= 0xFFFF:
        raise ValueError(f"{message_id!r} is not an offset message id: it names port {port}")
    return raw[:-8], _OFFSET.unpack_from(raw, len(raw) - 8)[0]


@dataclass(frozen=True, slots=True)
class UniqueKeySource:
    """Makes unique keys for one client process. `address` is 4 or 16 bytes; `class_loader_hash` may be any number."""

    address: bytes
    process_id: int
    class_loader_hash: int

    def unique_key(self, month_ms: int, counter: int) -> str:
        """A new unique key. `month_ms`: ms since the current month began in local time; `counter` wraps at 16 bits."""
        tail = _UNIQUE_TAIL.pack(self.process_id & 0xFFFF, self.class_loader_hash, month_ms & 0xFFFFFFFF,
                                 counter & 0xFFFF)
        return (self.address + tail).hex().upper()


def unique_key_month_ms(unique_key: str) -> int:
    """The ms between the start of the month and the moment when the key was made. Raises ValueError."""
    raw = bytes.fromhex(unique_key)
    if len(raw) not in (16, 28):
        raise ValueError(f"{unique_key!r} is not a unique key: it has {len(unique_key)} digits, not 32 or 56")
    return int(_UNIQUE_TAIL.unpack_from(raw, len(raw) - 12)[2])
