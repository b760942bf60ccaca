"""REGISTER_BROKER (103): all topics of a broker, as JSON or compressed.

The compressed form is a zlib stream of

    size   field
    4 + n  DataVersion as JSON
       4   number of topics
    4 + n  per topic: `name readQueueNums writeQueueNums perm filterType [attributes as JSON]`
    4 + n  filter servers as JSON list

and, from 5.0 on, mappings of static topics, which are ignored here.

The member `regulusGoneTopics` of the JSON form is ours: a name server of RocketMQ ignores it.

Source: RegisterBrokerBody, TopicConfig.encode.
"""

import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Any, Self, TypeVar

from regulus.errors import HeaderError
from regulus.model.steps import run_to_end
from regulus.model.topics import DataVersion, TopicConfig
from regulus.wire import fastjson, json_fields
from regulus.wire.bodies.topic_config_serialize_wrapper import TopicConfigSerializeWrapper
from regulus.wire.json_fields import JsonBody

INFLATED_SIZE_MAX = 64 * 1024 * 1024
"""The maximum number of bytes of an unpacked registration; 100 000 topics take about 5 MiB."""

INFLATED_A_STEP = 1 << 18
TOPICS_A_STEP = 256

_INT = Struct(">i")
_Body = TypeVar("_Body", bound="RegisterBrokerBody")
_ZLIB_FIRST_BYTE = 0x78
_TOPICS = b'"topicConfigTable":{'     # in no text of a body: its quotation marks would be escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody(JsonBody):
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: list[str] = field(default_factory=list)
    regulus_gone_topics: list[str] | None = None
    """Topics whose routes to this broker the name server is to drop, because the broker itself deleted them."""

    def encode_with(self, topics: Sequence[bytes]) -> list[bytes]:
        """The body as JSON in parts, with `topics`, the pieces from `encode_topics`, in the place of its topic table,
        which must be empty. The parts are not joined, because together they may have many MiB."""
        text = self.encode()
        position = text.index(_TOPICS) + len(_TOPICS)
        pieces = [piece for topic in topics if topic for piece in (b",", topic)]
        return [text[:position], *pieces[1:], text[position:]]

    def encode_topics(self) -> bytes:
        """The pieces that `encode_with` takes for the topics of this body."""
        return json_fields.encode(self.topic_config_serialize_wrapper.topic_config_table)[1:-1]

    def encode_compressed(self) -> bytes:
        wrapper = self.topic_config_serialize_wrapper
        packed = [_sized(json_fields.encode(wrapper.data_version)), _INT.pack(len(wrapper.topic_config_table))]
        packed += [_sized(_topic_line(config).encode()) for config in wrapper.topic_config_table.values()]
        packed.append(_sized(fastjson.dumps(self.filter_server_list).encode()))
        packed.append(_INT.pack(0))
        return zlib.compress(b"".join(packed), 9)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode either form. Brokers of 5.x mark a compressed body as uncompressed, so the first byte decides."""
        return run_to_end(cls.decode_in_steps(data))

    @classmethod
    def decode_in_steps(cls, data: bytes) -> Generator[None, None, Self]:
        """Like `decode`, but yields after each part of the topics, of which there may be very many."""
        if not data:
            return cls()
        if data[0] != _ZLIB_FIRST_BYTE:
            value = yield from fastjson.loads_in_steps(data, "topicConfigSerializeWrapper", "topicConfigTable")
            return (yield from _made(cls, value))
        try:
            wrapper, filter_servers = yield from _unpack((yield from _inflate(data)))
        except StructError as cause:
            raise HeaderError("compressed registration is cut short") from cause
        return cls(topic_config_serialize_wrapper=wrapper, filter_server_list=filter_servers)

    @classmethod
    def decode_wrapper_in_steps(cls, data: bytes) -> Generator[None, None, Self]:
        """Like `decode_in_steps`, for the oldest form, which has only the topics and their version."""
        wrapper = yield from fastjson.loads_in_steps(data, "topicConfigTable")
        return (yield from _made(cls, {"topicConfigSerializeWrapper": wrapper}))


def _sized(text: bytes) -> bytes:
    return _INT.pack(len(text)) + text


def _topic_line(config: TopicConfig) -> str:
    attributes = fastjson.dumps(config.attributes)
    return (f"{config.topic_name} {config.read_queue_nums} {config.write_queue_nums} {config.perm} "
            f"{config.topic_filter_type} {attributes}")


def _made(body: type[_Body], value: Any) -> Generator[None, None, _Body]:
    holder = value.get("topicConfigSerializeWrapper") if isinstance(value, dict) else None
    table = holder.get("topicConfigTable") if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or not isinstance(table, dict):
        return json_fields.from_value(body, value)
    del holder["topicConfigTable"]
    read = json_fields.from_value(body, value)
    topics = read.topic_config_serialize_wrapper.topic_config_table
    for number, name in enumerate(list(table), 1):
        each = table.pop(name)      # freeing them all at once would be a long step
        if each is not None:
            topics[name] = json_fields.from_value(TopicConfig, each)
        if number % TOPICS_A_STEP == 0:
            yield
    return read


def _inflate(data: bytes) -> Generator[None, None, bytes]:
    stream = zlib.decompressobj()
    parts: list[bytes] = []
    size = 0
    try:
        while not stream.eof and size < INFLATED_SIZE_MAX:
            part = stream.decompress(stream.unconsumed_tail or (b"" if parts else data),
                                     min(INFLATED_A_STEP, INFLATED_SIZE_MAX - size))
            if not part:
                break
            parts.append(part)
            size += len(part)
            yield
    except zlib.error as cause:
        raise HeaderError(f"compressed registration is not a zlib stream: {cause}") from cause
    inflated = b"".join(parts)
    if not stream.eof:
        raise HeaderError(f"compressed registration is cut short or larger than {INFLATED_SIZE_MAX} bytes")
    return inflated


def _unpack(inflated: bytes) -> Generator[None, None, tuple[TopicConfigSerializeWrapper, list[str]]]:
    version, position = _text(inflated, 0)
    (count,) = _INT.unpack_from(inflated, position)
    position += 4
    topics = {}
    for number in range(1, count + 1):
        line, position = _text(inflated, position)
        config = _topic_config(line)
        topics[config.topic_name] = config
        if number % TOPICS_A_STEP == 0:
            yield
    servers, position = _text(inflated, position)
    data_version = json_fields.from_value(DataVersion, fastjson.loads(version))
    filter_servers = fastjson.loads(servers) if servers else []
    if not isinstance(filter_servers, list):
        raise HeaderError("compressed registration's filter servers are not a list")
    wrapper = TopicConfigSerializeWrapper(topic_config_table=topics, data_version=data_version)
    return wrapper, [str(each) for each in filter_servers]


def _text(inflated: bytes, position: int) -> tuple[str, int]:
    (size,) = _INT.unpack_from(inflated, position)
    end = position + 4 + size
    if size < 0 or end > len(inflated):
        raise HeaderError(f"compressed registration has a text of {size} bytes at {position}")
    try:
        return inflated[position + 4:end].decode(), end
    except UnicodeDecodeError as cause:
        raise HeaderError(f"compressed registration has text that is not UTF-8 at {position}") from cause


def _topic_config(line: str) -> TopicConfig:
    words = line.split(" ", 5)
    if len(words) < 5:
        raise HeaderError(f"compressed registration's topic {line[:60]!r} has {len(words)} parts, not 5 or 6")
    return json_fields.from_value(TopicConfig, {
        "topicName": words[0], "readQueueNums": words[1], "writeQueueNums": words[2], "perm": words[3],
        "topicFilterType": words[4], "attributes": fastjson.loads(words[5]) if len(words) == 6 else None})
