"""A master is killed while messages wait for a time of their own, and its slave made the master by hand."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from conftest import NewRun
from pairs import TOPIC, Pair

from regulus.client.sending.producer import Producer
from regulus.model.message import Message, MessageExt
from regulus.model.sys_flag import PULL_SUBSCRIPTION
from regulus.record import message_record
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers.pull_message import PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand

pytestmark = pytest.mark.long

COUNT = 150
FIRST_S, LAST_S = 4.0, 45.0
"""When they are due, from the first send on."""
KILLED_S = 20.0
"""Behind two questions of the slave, of which there is one in 10 s."""
ALL_THERE_S = 150.0
QUEUES_MAX = 16


async def send(pair: Pair, begin: datetime) -> dict[str, float]:
    """When each is due, in ms, by its key."""
    due: dict[str, float] = {}
    async with Producer(pair.name_server, "timed") as producer:
        for number in range(COUNT):
            at = begin + timedelta(seconds=FIRST_S + (LAST_S - FIRST_S) * number / COUNT)
            await producer.send(Message(TOPIC, f"timed-{number}".encode(), deliver_at=at))
            due[f"timed-{number}"] = at.timestamp() * 1000
    return due


async def all_of(port: int) -> list[MessageExt]:
    """What the topic has there."""
    found: list[MessageExt] = []
    connection = await connect("127.0.0.1", port)
    try:
        for queue_id in range(QUEUES_MAX):
            offset = 0
            while True:
                pull = PullMessageRequest("looking", TOPIC, queue_id, offset, 32, PULL_SUBSCRIPTION, subscription="*",
                                          sub_version=1)
                answer = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext()), 5_000)
                if answer.code != ResponseCode.SUCCESS:
                    break
                found += message_record.decode_all(answer.body)
                offset = int(answer.ext["nextBeginOffset"])
    finally:
        connection.close()
    return found


@pytest.mark.parametrize("kinds", [("regulus", "regulus"), ("java-5.3.3", "regulus")], ids="-".join)
def test_a_slave_that_is_promoted_goes_on_with_what_waits(kinds: tuple[str, str], new_run: NewRun) -> None:
    with ExitStack() as stack:
        pair = Pair(*kinds, new_run(f"timers-promoted-{'-'.join(kinds)}"), stack)
        begun = time.monotonic()
        due = asyncio.run(send(pair, datetime.now(UTC)))
        while time.monotonic() < begun + KILLED_S:
            time.sleep(0.1)     # what comes in this time, comes from the master
        pair.await_copy()
        pair.kill_master()
        pair.promote()
        came: list[MessageExt] = []
        while {message.body.decode() for message in came} != set(due):
            assert time.monotonic() < begun + ALL_THERE_S, f"{len(came)} of {COUNT} came"
            time.sleep(0.5)
            came = asyncio.run(all_of(pair.ports["slave"]))
        while time.monotonic() < begun + LAST_S + 5:
            time.sleep(0.5)     # what would come twice may come later
        came = asyncio.run(all_of(pair.ports["slave"]))
        assert [message.body for message in came if message.store_timestamp < due[message.body.decode()]] == []
        counts = Counter(message.body.decode() for message in came)
        assert set(counts.values()) <= {1, 2}
        if kinds[0] == "regulus":
            # The slave's log was its master's, which tells what came.
            assert counts.total() == COUNT
