"""Tables of offsets: 43, 45, 308, the config files consumerOffset, delayOffset and the clients' own offsets.json.

Source: ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, QueryCorrectionOffsetBody, OffsetSerializeWrapper.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.model.topics import DataVersion
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOffsetSerializeWrapper(JsonBody):
    """`offset_table`: `topic@group` -> queue id -> offset."""

    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayOffsetSerializeWrapper(JsonBody):
    """`offset_table`: delay level -> queue offset in the schedule topic."""

    offset_table: dict[int, int] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCorrectionOffsetBody(JsonBody):
    correction_offsets: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSerializeWrapper(JsonBody):
    """A broadcasting consumer's offsets, kept on its own disk."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)
