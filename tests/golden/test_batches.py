"""What Java's client 5.3.3 sends as a batch, and what RocketMQ 5.3.3 stores of one: each message has a key of its own,
and the batch has another, which RocketMQ writes behind it. So all its messages are known by that one."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.unit.broker.conftest import make_rig

from regulus.record import message_record
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import SendMessageRequest

LINES: list[dict[str, Any]] = [json.loads(line) for line in Path(__file__).with_name("batches-5.3.3.jsonl")
                               .read_text(encoding="utf-8").splitlines()]
REQUEST = next(line for line in LINES if line["kind"] == "request")
RECORDS = [line for line in LINES if line["kind"] == "record"]


def test_messages_of_a_batch_are_stored_by_the_ids_that_its_sender_was_told() -> None:
    reader = FrameReader()
    reader.feed(base64.b64decode(REQUEST["frame_base64"]))
    (request,) = reader.frames()
    header = SendMessageRequest.decode(request)
    key_of_batch = header.properties["UNIQ_KEY"]
    own = [properties["UNIQ_KEY"] for _, _, properties in message_batch.decode(request.body)]
    assert own == REQUEST["sent"]
    assert key_of_batch not in own
    rig = make_rig()
    answer = rig.ask(RequestCode.SEND_BATCH_MESSAGE, request.ext, request.body)
    assert answer.code == 0
    stored = [rig.store.look_message(int(place[16:], 16)) for place in answer.ext["msgId"].split(",")]
    assert [message.message_id for message in stored] == REQUEST["sent"]
    assert [message.body for message in stored] == [b"order-0", b"order-1", b"order-2"]


def test_what_rocketmq_stored_of_a_batch_has_one_id_that_no_sender_was_told() -> None:
    messages = [message_record.decode(base64.b64decode(line["record_base64"])) for line in RECORDS]
    assert [message.body for message in messages] == [b"order-0", b"order-1", b"order-2"]
    (id_of_all,) = {message.message_id for message in messages}
    assert id_of_all not in RECORDS[0]["sent"]
    assert len({message.store_timestamp for message in messages}) == 1
