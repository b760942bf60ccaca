"""Messages: what an application sends, and what a store keeps.

`MessageExt` is not a dataclass because the broker makes one for each message, and its compiled form has typed fields.
An ordinary send makes no message object: the broker reuses one `StraightMessage` for all of them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model import priority as priorities

STRAIGHT_TEXT_SIZE_MAX = names.PROPERTIES_SIZE_MAX
"""Bytes of properties that fit into a StraightMessage; a message with a longer property string takes the general
way."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Message:
    """A message that an application sends. `properties` includes tags and keys; several keys are joined by spaces."""

    def __init__(self, topic: str, body: bytes, tags: str = "", keys: str | Iterable[str] = "",
                 properties: dict[str, str] | None = None, flag: int = 0, *, delay: timedelta | None = None,
                 deliver_at: datetime | None = None, priority: int | None = None) -> None:
        """Create a message that is delivered at once, after `delay`, or at `deliver_at`, which must have a time zone.

        `delay` is counted from the send. `priority` is 0 or more; higher values are delivered sooner. It takes effect
        in a topic of `message.type=PRIORITY` that is consumed by POP. Raises MessageIllegal when the body is not bytes,
        the keys are not text, or the time or priority is invalid.
        """
        if body is not None and not isinstance(body, bytes):
            raise MessageIllegal(body_type_fault(body))
        self.topic = topic
        self.body = body
        self.flag = flag
        self.properties: dict[str, str] = dict(properties) if properties else {}
        if tags:
            self.properties[names.TAGS] = tags
        if keys:
            self.properties[names.KEYS] = keys if isinstance(keys, str) else _joined(keys)
        if delay is not None or deliver_at is not None:
            self.properties.update(_timer(delay, deliver_at))
        if priority is not None:
            self.properties[names.PRIORITY] = _priority_text(priority)

    @property
    def tags(self) -> str:
        return self.properties.get(names.TAGS, "")

    @property
    def keys(self) -> str:
        """The keys, separated by spaces, as RocketMQ keeps them."""
        return self.properties.get(names.KEYS, "")

    @property
    def priority(self) -> int | None:
        """The priority; None when the message has none."""
        number = priorities.of(self.properties)
        return None if number == priorities.NONE else number

    @property
    def message_id(self) -> str:
        """The client's unique key; empty before the message was sent."""
        return self.properties.get(names.UNIQUE_KEY, "")

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}(topic={self.topic!r}, body={len(self.body)} bytes, properties={self.properties!r})"


def body_type_fault(body: object) -> str:
    return f"the message body is of type {type(body).__name__}; give bytes, a text as text.encode()"


def _joined(keys: Iterable[str]) -> str:
    try:
        return " ".join(keys)
    except TypeError:
        raise MessageIllegal(f"keys is {keys!r}; give a text, or a list of texts") from None


def _priority_text(priority: int) -> str:
    if not isinstance(priority, int) or not 0 <= priority <= priorities.PRIORITY_MAX:
        raise MessageIllegal(f"priority is {priority!r}; give a whole number from 0 to {priorities.PRIORITY_MAX}")
    return str(int(priority))


def _timer(delay: timedelta | None, deliver_at: datetime | None) -> dict[str, str]:
    if delay is not None and deliver_at is not None:
        raise MessageIllegal("a message has a delay or a moment at which it is delivered, not both")
    if delay is not None:
        if not isinstance(delay, timedelta):
            raise MessageIllegal(f"delay is {delay!r}; give a timedelta, such as timedelta(minutes=5)")
        return {names.TIMER_DELAY_MS: str(max(0, round(delay / timedelta(milliseconds=1))))}
    if not isinstance(deliver_at, datetime) or deliver_at.tzinfo is None:
        raise MessageIllegal(f"deliver_at is {deliver_at!r}; give a datetime with a time zone, such as "
                             "datetime.now(UTC) + timedelta(days=1)")
    return {names.TIMER_DELIVER_MS: str(round((deliver_at - _EPOCH) / timedelta(milliseconds=1)))}


class MessageExt(Message):
    """A stored message. Hosts are in stored form: 4 or 16 address bytes, then the port as 4 bytes.

    `properties_text` is the property string to store when `properties` cannot express it, for example because a name
    occurs twice; otherwise it is empty.

    The store fills in queue_offset, physical_offset, store_timestamp, store_size and body_crc when it appends.
    """

    def __init__(self, topic: str, body: bytes, properties: dict[str, str], queue_id: int = 0, flag: int = 0,
                 sys_flag: int = 0, born_timestamp: int = 0, born_host: bytes = b"\0" * 8,
                 store_host: bytes = b"\0" * 8, reconsume_times: int = 0, prepared_transaction_offset: int = 0,
                 queue_offset: int = 0, physical_offset: int = 0, store_timestamp: int = 0, store_size: int = 0,
                 body_crc: int = 0) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.queue_id = queue_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.store_timestamp = store_timestamp
        self.store_size = store_size
        self.body_crc = body_crc
        self.properties_text = b""


class StraightMessage(MessageExt):
    """A message on its way into a store, with its body and properties still as bytes: no objects are made of them.

    The body is data[body_start:body_end], and `view` is the same data. `topic_text` is the topic in ASCII, and
    text[:text_size] the property string. Within it, the values of UNIQ_KEY, TAGS and KEYS are between their starts and
    ends, which are equal where a value is missing. `waits` says whether the client waits for the flush to disk,
    `is_ordered` whether there is a sharding key. `body` and `properties` stay empty.

    The object is filled again for each send: a store encodes it at once and keeps no reference to it.
    """

    def __init__(self) -> None:
        super().__init__("", b"", {})
        self.data: bytes | bytearray = b""
        self.view = memoryview(self.data)
        self.body_start = 0
        self.body_end = 0
        self.topic_text = b""
        self.text = bytearray(STRAIGHT_TEXT_SIZE_MAX)
        self.text_size = 0
        self.unique_key_start = 0
        self.unique_key_end = 0
        self.tags_start = 0
        self.tags_end = 0
        self.keys_start = 0
        self.keys_end = 0
        self.waits = True
        self.is_ordered = False

    def take_data(self, data: bytes | bytearray) -> None:
        """Set the bytes that hold the body. Messages that were read together share them, so the view is reused."""
        if self.data is not data:
            self.data = data
            self.view = memoryview(data)
