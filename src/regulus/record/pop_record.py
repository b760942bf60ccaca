"""The records of a pop in the revive topic: the checkpoint of the messages delivered, and their acknowledgements.

    tag    body
    ck     {"bm":0,"bn":"broker-a","c":"g1","d":[0,2],"it":60000,"n":2,"pt":...,"q":3,"reviveTime":...,"ro":0,"so":10,
            "t":"TopicA"}
    ack    {"ao":12,"bn":"broker-a","c":"g1","pt":...,"q":3,"so":10,"t":"TopicA"}
    bAck   the same with "aol":[10,12]

They are joined by topic, group, queue, start offset, pop time and broker. A checkpoint has 32 messages at most; bit i
of `bm` and `d[i]` are of the i-th, whose queue offset is `so + d[i]`.

Source: PopCheckPoint, AckMsg, BatchAckMsg, PopMessageProcessor.genCkUniqueId.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from regulus.errors import CorruptRecord
from regulus.model.java_numbers import LONG_MAX
from regulus.model.topics import is_storable, name_fault

CK_TAG = "ck"
ACK_TAG = "ack"
BATCH_ACK_TAG = "bAck"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
MESSAGES_MAX = 32
"""The largest number of messages in one checkpoint."""
NO_EPOCH = -1
"""It is not recorded which of the topics with this name it was."""


class CheckpointKey(NamedTuple):
    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int

    def unique_key(self, broker_name: str) -> str:
        return "@".join((self.topic, str(self.queue_id), str(self.start_offset), self.group, str(self.pop_time),
                         broker_name, CK_TAG))


@dataclass(frozen=True, slots=True, kw_only=True)
class PopCheckpoint:
    """The messages of one pop, until they are acknowledged.

    `topic` is the retry topic for messages popped from there. `offsets` are queue offsets, in their order. Times in ms.
    `put_again_times`: how often it was written again because a message could not be revived. `topic_epoch` says which
    of the topics with this name it was, `group_removed` when a group of this name was last deleted; neither is part of
    the body.
    """

    key: CheckpointKey
    broker_name: str
    invisible_time: int
    offsets: tuple[int, ...]
    put_again_times: int = 0
    topic_epoch: int = NO_EPOCH
    group_removed: int = 0

    @property
    def revive_time(self) -> int:
        return self.key.pop_time + self.invisible_time

    @property
    def unique_key(self) -> str:
        return self.key.unique_key(self.broker_name)

    def encode(self) -> bytes:
        key = self.key
        body: dict[str, Any] = {
            "bm": 0, "bn": self.broker_name, "c": key.group, "d": [each - key.start_offset for each in self.offsets],
            "it": self.invisible_time, "n": len(self.offsets), "pt": key.pop_time, "q": key.queue_id,
            "reviveTime": self.revive_time, "ro": 0}
        if self.put_again_times:
            body["rp"] = str(self.put_again_times)
        return _encoded({**body, "so": key.start_offset, "t": key.topic})


class Acks(NamedTuple):
    """The acknowledged messages of one checkpoint."""

    key: CheckpointKey
    broker_name: str
    offsets: tuple[int, ...]

    @property
    def unique_key(self) -> str:
        key = self.key
        if len(self.offsets) == 1:
            return "@".join((key.topic, str(key.queue_id), str(self.offsets[0]), key.group, str(key.pop_time),
                             self.broker_name, ACK_TAG))
        offsets = f"[{', '.join(map(str, self.offsets))}]"
        return "@".join((key.topic, str(key.queue_id), offsets, key.group, str(key.pop_time), BATCH_ACK_TAG))

    @property
    def tag(self) -> str:
        return ACK_TAG if len(self.offsets) == 1 else BATCH_ACK_TAG

    def encode(self) -> bytes:
        key = self.key
        is_one = len(self.offsets) == 1
        body: dict[str, Any] = {"ao": self.offsets[0] if is_one else -1}
        if not is_one:
            body["aol"] = list(self.offsets)
        return _encoded({**body, "bn": self.broker_name, "c": key.group, "pt": key.pop_time, "q": key.queue_id,
                         "so": key.start_offset, "t": key.topic})


def decode_checkpoint(body: bytes) -> PopCheckpoint:
    """Raises CorruptRecord."""
    value = _decoded(body)
    try:
        broker_name = _text(value.get("bn") or "")
        key = _key(value)
        count = _number(value["n"], MESSAGES_MAX)
        differences = value.get("d") or range(count)
        bits = value.get("bm") or 0
        again = str(value.get("rp") or 0)
        if len(differences) > MESSAGES_MAX or type(bits) is not int:
            raise ValueError
        offsets = [_number(key.start_offset + _number(each)) for each in differences][:count]
        checkpoint = PopCheckpoint(
            key=key, broker_name=broker_name, invisible_time=_number(value["it"]),
            offsets=tuple(offset for index, offset in enumerate(offsets) if not bits >> index & 1),
            put_again_times=int(again) if again.isascii() and again.isdigit() and len(again) < 10 else 0)
        _number(checkpoint.revive_time)
        return checkpoint
    except (KeyError, TypeError, ValueError):
        raise CorruptRecord(f"this is not a checkpoint of a pop: {body[:200]!r}", 0) from None


def decode_acks(body: bytes) -> Acks:
    """Decode an ack of either kind. Raises CorruptRecord."""
    value = _decoded(body)
    try:
        offsets = value["aol"] if "aol" in value else [value["ao"]]
        if len(offsets) > MESSAGES_MAX:
            raise ValueError
        return Acks(_key(value), _text(value.get("bn") or ""), tuple([_number(each) for each in offsets]))
    except (KeyError, TypeError, ValueError):
        raise CorruptRecord(f"this is not an acknowledgement of a pop: {body[:200]!r}", 0) from None


def _text(value: Any) -> str:
    """Raises ValueError for a text that no record can hold."""
    text = str(value)
    text.encode()
    return text


def _key(value: dict[str, Any]) -> CheckpointKey:
    """Checked, because it names a place in the store and a retry topic."""
    topic, group, queue_id = value["t"], value["c"], _number(value["q"])
    if type(topic) is not str or type(group) is not str \
            or not is_storable(topic, queue_id) or name_fault(group, "group"):
        raise ValueError
    return CheckpointKey(topic, group, queue_id, _number(value["so"]), _number(value["pt"]))


def _number(value: object, greatest: int = LONG_MAX) -> int:
    """Raises ValueError for anything that is not a whole number in range: JSON allows infinities, and numbers of any
    length."""
    if type(value) is not int or not 0 <= value <= greatest:
        raise ValueError
    return value


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CorruptRecord(f"this is not a JSON object: {body[:200]!r}", 0)
    return value
