"""Every message of two stores that Apache RocketMQ 4.9.8 wrote, decoded and encoded again."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from regulus.model.message_id import host_text, offset_message_id
from regulus.record import message_record
from regulus.record.dispatch_request import request_at

GOLDEN = Path(__file__).parent
STORES = ("store-4.9.8", "store-4.9.8-killed")


def lines(store: str) -> list[dict[str, Any]]:
    """What RocketMQ's own decoder said of each place in the commit log."""
    with (GOLDEN / f"{store}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def log_files(store: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (GOLDEN / store / "commitlog").iterdir()}


@pytest.mark.parametrize("store", STORES)
def test_each_message_is_decoded_as_rocketmq_does(store: str) -> None:
    files = log_files(store)
    messages = [line for line in lines(store) if line["kind"] == "message"]
    assert messages
    for line in messages:
        message = message_record.decode(files[line["file"]], line["physicalOffset"] - int(line["file"]))
        assert {
            "physicalOffset": message.physical_offset, "storeSize": message.store_size, "topic": message.topic,
            "queueId": message.queue_id, "queueOffset": message.queue_offset, "sysFlag": message.sys_flag,
            "flag": message.flag, "bornTimestamp": message.born_timestamp, "bornHost": host_text(message.born_host),
            "storeTimestamp": message.store_timestamp, "storeHost": host_text(message.store_host),
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset, "bodyCRC": message.body_crc,
            "bodyLength": len(message.body), "bodyBase64": base64.b64encode(message.body).decode(),
            "properties": message.properties, "tags": message.tags or None, "uniqKey": message.message_id or None,
            "offsetMsgId": offset_message_id(message.store_host, message.physical_offset),
        }.items() <= line.items()


@pytest.mark.parametrize("store", STORES)
def test_each_message_is_encoded_to_the_same_bytes(store: str) -> None:
    """But for the properties' last 0x02, which 4.9 leaves out, and for the duplicates that its batches have."""
    files = log_files(store)
    for line in lines(store):
        if line["kind"] != "message":
            continue
        start = line["physicalOffset"] - int(line["file"])
        original = files[line["file"]][start:start + line["storeSize"]]
        stored = base64.b64decode(line["propertiesBase64"])
        entries = dict(entry.split(b"\x01", 1) for entry in stored.split(b"\x02") if entry)
        properties = b"".join(name + b"\x01" + value + b"\x02" for name, value in entries.items())
        size = len(original) + len(properties) - len(stored)
        fixed = original[4:len(original) - len(stored) - 2]
        expected = b"".join((size.to_bytes(4, "big"), fixed, len(properties).to_bytes(2, "big"), properties))
        assert message_record.encode(message_record.decode(original)) == expected


@pytest.mark.parametrize("store", STORES)
def test_the_whole_log_is_walked(store: str) -> None:
    """From record to record and over the blanks, checksums checked, as a recovery does."""
    found = []
    for name, data in sorted(log_files(store).items()):
        position = 0
        while position < len(data) and data[position:position + 4] != bytes(4):
            request = request_at(data, position, len(data), True)
            if not request.is_blank:
                found.append((int(name) + position, request.size, request.topic, request.queue_id,
                              request.queue_offset, request.store_timestamp, request.tags_code,
                              request.uniq_key or None, request.keys))
            position += request.size
    assert found == [
        (line["physicalOffset"], line["storeSize"], line["topic"], line["queueId"], line["queueOffset"],
         line["storeTimestamp"], line["tagsCode"], line["uniqKey"], line["properties"].get("KEYS", ""))
        for line in lines(store) if line["kind"] == "message"]
