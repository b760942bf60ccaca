"""What the fuzzer begins with: recorded frames, batches and records, one of each kind, as inputs of the doors."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from regulus.errors import CorruptRecord
from regulus.record import message_record
from regulus.wire.acl_signature import sign
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand
from tests.fuzz import doors

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SEED_SIZE_MAX = 4 << 10
"""Bytes of the largest seed: the fuzzer changes small inputs more often and faster."""
_PIECES = (0xFE, 0x03)          # of a connection: fed at once, and lent bit by bit
_FIELDS = {"a": "PG", "b": doors.TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000001", "h": "0",
           "i": "UNIQ_KEY\x01K1\x02TAGS\x01red\x02KEYS\x01k l\x02WAIT\x01false\x02own\x01x\x02", "j": "0", "k": "false",
           "l": "16", "m": "false", "n": "broker-a"}


def recorded_frames() -> Iterator[bytes]:
    """One of each code, direction and set of fields."""
    seen = set()
    for path in sorted([*(GOLDEN / "frames").glob("*.jsonl"), GOLDEN / "batches-5.3.3.jsonl"]):
        for line in path.read_text(encoding="utf-8").splitlines():
            frame = base64.b64decode(json.loads(line).get("frame_base64", ""))
            if 0 < len(frame) <= SEED_SIZE_MAX:
                command = command_of(frame)
                kind = (command.code, command.flag, command.serialize_type, *sorted(command.ext))
                if kind not in seen:
                    seen.add(kind)
                    yield frame


def command_of(frame: bytes) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(frame)
    return reader.frames()[0]


def own_frames() -> Iterator[bytes]:
    """Sends that are signed by the account which the doors know, in both forms of the header."""
    for serialize_type in (JSON, ROCKETMQ):
        command = RemotingCommand(int(RequestCode.SEND_MESSAGE_V2), dict(_FIELDS), b"body", opaque=7,
                                  serialize_type=serialize_type)
        yield command.encode()
        sign(command, doors.ACCESS_KEY, doors.SECRET_KEY)
        yield command.encode()


def stored_records() -> Iterator[bytes]:
    """One record of each topic and set of properties."""
    seen = set()
    for path in sorted((GOLDEN / "store-4.9.8" / "commitlog").iterdir()):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            try:
                message = message_record.decode(data, position)
            except CorruptRecord:
                break
            kind = (message.topic, *sorted(message.properties))
            if kind not in seen and message.store_size <= SEED_SIZE_MAX:
                seen.add(kind)
                yield data[position:position + message.store_size]
            position += message.store_size


def _of_frame(frame: bytes) -> Iterator[bytes]:
    for piece in _PIECES:
        yield doors.input_for(doors.frames, bytes((piece,)) + frame)
    command = command_of(frame)
    header_end = 8 + int.from_bytes(frame[5:8], "big")
    wanted = {"straight_send", "decode_send_message_request", "signed_send"} if command.code in (
        RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE) else {"read_command"}
    if command.code == RequestCode.PULL_MESSAGE:
        wanted.add("decode_pull_message_request")
    if command.is_response:
        wanted |= {"decode_send_message_response", "decode"}
    for name in sorted(wanted):
        yield doors.input_for(doors.header, doors.header_input(
            doors.HEADER_READERS[name], command.serialize_type == ROCKETMQ, frame[8:header_end], command.body[:64]))
    if command.code == RequestCode.SEND_BATCH_MESSAGE and not command.is_response:
        yield doors.input_for(doors.batch, command.body)


def _of_record(record: bytes) -> Iterator[bytes]:
    message = message_record.decode(record)
    texts = "".join(f"{name}\x01{value}\x02" for name, value in message.properties.items()).encode()
    yield doors.input_for(doors.records, record)
    yield doors.input_for(doors.made_records, doors.made_input(message.sys_flag & 0xBF, message.body[:32],
                                                               message.topic.encode()[:200], texts))
    yield doors.input_for(doors.properties, texts)


def write(directory: Path) -> int:
    """Fill `directory` with the seeds, each under its digest; how many there are."""
    directory.mkdir(parents=True, exist_ok=True)
    inputs = {each for frame in (*recorded_frames(), *own_frames()) for each in _of_frame(frame)}
    inputs |= {each for record in stored_records() for each in _of_record(record)}
    for each in inputs:
        (directory / hashlib.sha1(each, usedforsecurity=False).hexdigest()).write_bytes(each)
    return len(inputs)
