"""What clients send as a batch, and what RocketMQ 5.3.3 stores of one: behind each message's own properties those of
the batch. Java's client 5 gives a batch a key, so all its messages are known by that one."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.batch_forms import FORMS, Form, stored
from tests.unit.broker.conftest import make_rig

from regulus.broker.config import BrokerConfig
from regulus.model.java_hash import tags_code
from regulus.record import message_record
from regulus.server.assembly import BrokerServer
from regulus.testing.running_server import HOST, small_store
from regulus.transport.config import TransportConfig
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import SendMessageRequest

LINES: list[dict[str, Any]] = [json.loads(line) for line in Path(__file__).with_name("batches-5.3.3.jsonl")
                               .read_text(encoding="utf-8").splitlines()]
REQUEST = next(line for line in LINES if line["kind"] == "request")
RECORDS = [line for line in LINES if line["kind"] == "record"]


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[form.name for form in FORMS])
async def test_a_batch_is_stored_as_rocketmq_stores_it(number: int, tmp_path: Path) -> None:
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST, broker_name="broker-a"), small_store(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    form = FORMS[number]
    assert await stored(f"{HOST}:{server.port}", form, "Batches") == form.stored
    await server.stop()


async def test_queues_know_what_a_batch_says_of_all(tmp_path: Path) -> None:
    """As they do when they are built anew from what is stored, where the last of two properties of a name counts."""
    server = BrokerServer(BrokerConfig(listen_port=0, broker_ip1=HOST, broker_name="broker-a"), small_store(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    form = Form("tags", ["TAGS=own;", "KEYS=k;"], "TAGS=all;WAIT=true;", ["", ""])
    texts = await stored(f"{HOST}:{server.port}", form, "Batches")
    units = server.store.queue_units("Batches", 0, 0, 10)
    assert [(text.count("TAGS=all;"), unit.tags_code) for text, unit in zip(texts, units, strict=True)] \
        == [(1, tags_code("all"))] * 2
    await server.stop()


def test_messages_of_a_java_batch_are_known_by_the_key_of_the_batch_here_too() -> None:
    reader = FrameReader()
    reader.feed(base64.b64decode(REQUEST["frame_base64"]))
    (request,) = reader.frames()
    header = SendMessageRequest.decode(request)
    key_of_batch = header.properties["UNIQ_KEY"]
    own = [properties["UNIQ_KEY"] for _, _, properties, _ in message_batch.decode(request.body)]
    assert own == REQUEST["sent"]
    assert key_of_batch not in own
    rig = make_rig()
    answer = rig.ask(RequestCode.SEND_BATCH_MESSAGE, request.ext, request.body)
    assert answer.code == 0
    kept = [rig.store.look_message(int(place[16:], 16)) for place in answer.ext["msgId"].split(",")]
    assert {message.message_id for message in kept} == {key_of_batch}
    assert [message.body for message in kept] == [b"order-0", b"order-1", b"order-2"]


def test_what_rocketmq_stored_of_a_batch_has_one_id_that_no_sender_was_told() -> None:
    messages = [message_record.decode(base64.b64decode(line["record_base64"])) for line in RECORDS]
    assert [message.body for message in messages] == [b"order-0", b"order-1", b"order-2"]
    (id_of_all,) = {message.message_id for message in messages}
    assert id_of_all not in RECORDS[0]["sent"]
    assert len({message.store_timestamp for message in messages}) == 1
