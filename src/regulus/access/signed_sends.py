"""A fast check for sends of a producer that was allowed before: it verifies the signature and makes no dict of the
fields.

The rules always decide who may send. This cache keeps, for each connection, their last verdict: the topics to which its
account may send. A send to one of them passes when its signature is right. In every other case (an unknown field, an
escape in a text, another account, a topic not yet allowed, a wrong signature) the answer is False, and the rules
decide. The cache may therefore be stricter than the rules, never more lenient, and it is emptied when there are new
rules.

A send's fields have names of one letter, and two more. Ordered by name, as they are signed:

    AccessKey, Signature (not signed), a, b (the topic), c ... n

Source: SendMessageRequestHeaderV2, AclUtils.combineRequestContent.
"""

from binascii import b2a_base64
from hashlib import sha1
from hmac import compare_digest
from typing import Any

from regulus.wire import big_endian
from regulus.wire.codes import RequestCode
from regulus.wire.header_json import cut, matches
from regulus.wire.octets import put
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand
from regulus.wire.straight_properties import is_separator, run_end

CHANNELS_MAX = 10_000
"""The maximum number of connections in the cache; with one more the cache is emptied and filled again."""
TOPICS_MAX = 1_000
"""The maximum number of topics for one connection; with one more its topics are dropped."""
TEXT_SIZE_MAX = 32 << 10
"""The maximum number of bytes of a send's fields; the rules decide on larger ones."""

# Private names allow these to be typed constants in the compiled form.
_ROCKETMQ = ROCKETMQ
_TEXT_SIZE_MAX = TEXT_SIZE_MAX
_COPIED_MAX = 4 << 10           # bytes of a body that are copied after the values
_SEND_MESSAGE_V2 = int(RequestCode.SEND_MESSAGE_V2)
_SEND_BATCH_MESSAGE = int(RequestCode.SEND_BATCH_MESSAGE)
_LETTERS = ord("n") - ord("a") + 1
_ACCESS_KEY = _LETTERS          # positions of the two others
_SIGNATURE = _LETTERS + 1
_FIELDS = _LETTERS + 2
_TOPIC = ord("b") - ord("a")
_NEEDED = 1 << _ACCESS_KEY | 1 << _SIGNATURE | 1 << _TOPIC
_BLOCK_SIZE = 64                # of SHA-1; a longer secret is replaced by its digest
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class _Sender:
    """An account on one connection: both halves of its signature key, and the topics to which it may send."""

    def __init__(self, access_key: bytes, secret_key: bytes) -> None:
        block = (secret_key if len(secret_key) <= _BLOCK_SIZE else sha1(secret_key).digest()).ljust(_BLOCK_SIZE, b"\0")
        self.access_key = access_key
        self.secret_key = secret_key
        self.inner: Any = sha1(block.translate(_INNER))
        self.outer: Any = sha1(block.translate(_OUTER))
        self.topics: set[bytes] = set()


class SignedSends:
    """Call `passes` with the rules in force; when it returns False and the rules allow the send, call `remember`."""

    def __init__(self) -> None:
        self._senders: dict[int, _Sender] = {}
        self._rules: Any = None
        self._text = b""
        self._is_binary = False
        self._places = bytearray(8 * _FIELDS)   # start and end of each field's value
        self._seen = 0
        self._content = bytearray(TEXT_SIZE_MAX + _COPIED_MAX)

    def passes(self, request: RemotingCommand, channel: int, rules: object) -> bool:
        """Whether these rules have allowed a send of this kind, and its signature is right."""
        if request.code != _SEND_MESSAGE_V2 and request.code != _SEND_BATCH_MESSAGE:
            return False
        if not self._read(request):
            return False
        if rules is not self._rules:
            return False
        sender = self._senders.get(channel)
        if sender is None or sender.access_key != self._value(_ACCESS_KEY) \
                or self._value(_TOPIC) not in sender.topics:
            return False
        return self._is_signed(request, sender)

    def remember(self, channel: int, rules: object, access_key: str, secret_key: str, topic: str) -> None:
        """Note that these rules have allowed a send of this account to `topic` on this connection."""
        if rules is not self._rules or len(self._senders) >= CHANNELS_MAX:
            self._senders.clear()
            self._rules = rules
        sender = self._senders.get(channel)
        user, secret = access_key.encode(), secret_key.encode()
        if sender is None or sender.access_key != user or sender.secret_key != secret:
            sender = self._senders[channel] = _Sender(user, secret)
        if len(sender.topics) >= TOPICS_MAX:
            sender.topics.clear()
        sender.topics.add(topic.encode())

    def _is_signed(self, request: RemotingCommand, sender: _Sender) -> bool:
        inner = sender.inner.copy()
        inner.update(self._signed_content(request))
        outer = sender.outer.copy()
        outer.update(inner.digest())
        return compare_digest(b2a_base64(outer.digest(), newline=False), self._value(_SIGNATURE))

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, request: RemotingCommand) -> bool:
        """Note the position of each field; False when a field is unknown or occurs twice."""
        self._is_binary = request.serialize_type == _ROCKETMQ
        text = request.ext_binary if self._is_binary else request.ext_json
        if text is None or len(text) > _TEXT_SIZE_MAX:
            return False
        self._text = text
        self._seen = 0
        return (self._read_entries() if self._is_binary else self._read_members()) and self._seen & _NEEDED == _NEEDED

    def _read_members(self) -> bool:
        """Walk over the members of the JSON object, whose form `header_json.scan` has checked."""
        text = self._text
        position = 1
        while text[position] == ord('"'):
            key = position + 1
            position = run_end(text, key)
            # A value that is not text is spelled differently in the signature.
            if text[position] != ord('"') or text[position + 2] != ord('"'):
                return False
            key_end = position
            start = position + 3
            position = run_end(text, start)
            while text[position] == ord("\\"):
                if not is_separator(text, position):
                    return False
                position = run_end(text, position + 6)
            if not self._note(text, key, key_end, start, position):
                return False
            if text[position + 1] == ord("}"):
                return True
            position += 2
        return False

    def _read_entries(self) -> bool:
        """Walk over the entries of a binary map, whose form `header_rocketmq.is_whole_ascii` has checked."""
        text = self._text
        position = 0
        upto = len(self._text)
        while position < upto:
            key = position + 2
            key_end = key + (text[position] << 8 | text[position + 1])
            start = key_end + 4
            position = start + big_endian.uint4(text, key_end)
            # An empty value counts as absent.
            if start < position and not self._note(text, key, key_end, start, position):
                return False
        return True

    def _note(self, text: bytes, key: int, key_end: int, start: int, end: int) -> bool:
        field = _FIELDS
        if key_end - key == 1:
            if ord("a") <= text[key] < ord("a") + _LETTERS:
                field = text[key] - ord("a")
        elif matches(text, key, key_end, b"AccessKey", 9):
            field = _ACCESS_KEY
        elif matches(text, key, key_end, b"Signature", 9):
            field = _SIGNATURE
        if field == _FIELDS or self._seen >> field & 1:
            return False
        self._seen |= 1 << field
        big_endian.put4(self._places, 8 * field, start)
        big_endian.put4(self._places, 8 * field + 4, end)
        return True

    def _signed_content(self, request: RemotingCommand) -> bytes:
        """The values in the order of their names, and the body. One piece is digested faster than two."""
        content = self._content
        size = self._put(content, 0, _ACCESS_KEY)
        for field in range(_LETTERS):
            size = self._put(content, size, field)
        request.find_body()
        if request.body_end - request.body_start <= _COPIED_MAX:
            size = put(content, size, request.body_source, request.body_start, request.body_end)
            return cut(content, 0, size)
        return cut(content, 0, size) + cut(request.body_source, request.body_start, request.body_end)

    def _put(self, out: bytearray, size: int, field: int) -> int:
        """Write a field's value, if present, with its escapes unchanged; returns the position after it."""
        if not self._seen >> field & 1:
            return size
        text = self._text
        position = big_endian.uint4(self._places, 8 * field)
        upto = big_endian.uint4(self._places, 8 * field + 4)
        if self._is_binary:
            return put(out, size, text, position, upto)
        while position < upto:
            end = run_end(text, position)
            size = put(out, size, text, position, end)
            position = end
            if end < upto:
                out[size] = text[end + 5] - ord("0")
                size += 1
                position = end + 6
        return size

    def _value(self, field: int) -> bytes:
        """The value as it is spelled; the values that are asked for contain no escapes."""
        return cut(self._text, big_endian.uint4(self._places, 8 * field), big_endian.uint4(self._places, 8 * field + 4))
