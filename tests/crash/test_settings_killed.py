"""A broker is killed while topics and groups are made: each that was answered stands in the documents."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regulus.errors import ClientError
from regulus.testing.running_server import HOST, ServerProcess
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, ignore_requests
from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.headers import SendMessageRequest, UpdateAndCreateTopicRequest
from regulus.wire.remoting_command import RemotingCommand

IN_FLIGHT = 8


def new_topic(name: str) -> RemotingCommand:
    header = UpdateAndCreateTopicRequest(topic=name, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1,
                                         perm=6, topic_filter_type="SINGLE_TAG")
    return RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header.ext())


def first_send(name: str) -> RemotingCommand:
    header = SendMessageRequest("PG", name, queue_id=0, properties={"UNIQ_KEY": name}, born_timestamp=1)
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.ext_for(RequestCode.SEND_MESSAGE_V2), b"body")


def first_heartbeat(name: str) -> RemotingCommand:
    group = ConsumerData(group_name=name, consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
                         consume_from_where="CONSUME_FROM_LAST_OFFSET", unit_mode=False,
                         subscription_data_set=[SubscriptionData(topic="T", sub_string="*")])
    body = HeartbeatData(client_id=name, consumer_data_set=[group], producer_data_set=[]).encode()
    return RemotingCommand.request(RequestCode.HEART_BEAT, body=body)


async def make(connection: Connection, kind: Callable[[str], RemotingCommand], names: list[str],
               answered: list[str]) -> None:
    try:
        for name in names:
            answer = await connection.request(kind(name), 10_000)
            assert answer.code == 0, answer.remark
            answered.append(name)
    except ClientError:
        return      # the broker is gone


@pytest.mark.parametrize("kill_at", [1, 20, 90])
async def test_what_was_answered_is_in_the_documents(make_broker_process: Callable[..., ServerProcess],
                                                     tmp_path: Path, kill_at: int) -> None:
    server = make_broker_process(store=tmp_path / "store")
    connection = await connect(HOST, server.port, ignore_requests)
    topics: list[str] = []
    groups: list[str] = []
    makers = [asyncio.create_task(make(connection, kind, [f"{kind.__name__}-{lane}-{number}" for number in range(500)],
                                       groups if kind is first_heartbeat else topics))
              for kind in (new_topic, first_send, first_heartbeat) for lane in range(IN_FLIGHT)]
    async with asyncio.timeout(60):
        while len(topics) < kill_at or len(groups) < kill_at // 2:
            await asyncio.sleep(0)
    server.kill()
    await asyncio.gather(*makers)
    config = tmp_path / "store" / "config"
    saved_topics = json.loads((config / "topics.json").read_text())["topicConfigTable"]
    saved_groups = json.loads((config / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]
    assert set(topics) <= set(saved_topics)
    assert set(groups) <= set(saved_groups)
    assert {f"%RETRY%{group}" for group in groups} <= set(saved_topics)
