"""Consumers go on at the slave while the master is busy or away, and what they committed there is not lost."""

import os
import signal
import threading
import time
from contextlib import ExitStack

import pytest
from clients import JAVA, OURS, Client
from conftest import NewRun
from pairs import TOPIC, Pair
from remoting_probe import ask

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import PushConsumer
from regulus.model.message import MessageExt

pytestmark = pytest.mark.long

COUNT = 200
GROUP = "MovingConsumer"
GET_ALL_CONSUMER_OFFSET = 43
BACK_WITHIN_S = 120
CLIENTS = [JAVA["4.9.8"], JAVA["5.3.3"], OURS]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_who_is_far_behind_reads_from_the_slave(client: Client, new_run: NewRun) -> None:
    """So small a part of the memory is for new messages that everybody is far behind."""
    with ExitStack() as stack:
        pair = Pair("regulus", "regulus", new_run("moving"), stack, slaveReadEnable="true",
                    accessMessageInMemoryMaxRatio="0")
        home, options = new_run("moving-client"), {"namesrv": pair.name_server, "topic": TOPIC}
        client.produce(home, **options, group="MovingProducer", prefix="old", count=COUNT)
        pair.await_copy()
        with client.consume(home, **options, group=GROUP) as running:
            running.wait_for_bodies([f"old-{index}" for index in range(COUNT)])
            for number in range(5):
                client.produce(home, **options, group="MovingProducer", prefix=f"new{number}", count=8)
                running.wait_for_bodies([f"new{number}-{index}" for index in range(8)])
            running.finish()
        given = {which: int(pair.told(which, "msgGetTotalTodayNow")) for which in ("master", "slave")}
        assert given["slave"] > 0, given
        assert sum(given.values()) >= COUNT + 40


def committed(pair: Pair, which: str) -> int:
    """Of all queues together."""
    body = ask(pair.addresses[which], GET_ALL_CONSUMER_OFFSET)["body"].decode()
    quoted = [part.strip() for part in body.split(f'"{TOPIC}@{GROUP}":')[1:]]
    if not quoted:
        return 0
    text = quoted[0][1:quoted[0].index("}")]
    return sum(int(member.split(":")[1]) for member in text.split(",") if member)


def await_committed(pair: Pair, which: str, count: int) -> None:
    """A client that leaves tells its offsets one-way; a master and its slave ask each other now and then."""
    deadline = time.monotonic() + BACK_WITHIN_S
    while (found := committed(pair, which)) < count:
        assert time.monotonic() < deadline, f"{found} of {count} are committed at the {which}"
        time.sleep(0.2)


@pytest.mark.parametrize("master", ["regulus", "java-5.3.3"])
def test_what_was_committed_at_the_slave_is_known_to_the_master_when_it_is_back(master: str, new_run: NewRun) -> None:
    client = JAVA["5.3.3"]
    with ExitStack() as stack:
        pair = Pair(master, "regulus", new_run(f"committed-{master}"), stack)
        home, options = new_run("committed-client"), {"namesrv": pair.name_server, "topic": TOPIC}
        client.produce(home, **options, group="MovingProducer", prefix="first", count=COUNT)
        pair.await_copy()
        with client.consume(home, **options, group=GROUP) as running:
            running.wait_for_bodies([f"first-{index}" for index in range(COUNT)])
            running.finish()
        client.produce(home, **options, group="MovingProducer", prefix="second", count=COUNT)
        pair.await_copy()
        await_committed(pair, "slave", COUNT)
        pair.kill_master()
        with client.consume(home, **options, group=GROUP) as running:
            running.wait_for_bodies([f"second-{index}" for index in range(COUNT)])
            running.finish()
        await_committed(pair, "slave", 2 * COUNT)
        pair.start_master()
        await_committed(pair, "master", 2 * COUNT)
        assert [committed(pair, which) for which in ("master", "slave")] == [2 * COUNT] * 2


def test_ours_goes_on_at_the_slave_while_its_master_is_paused(new_run: NewRun) -> None:
    """The machine stands still with its connections open, and the name server knows the master for two minutes."""
    with ExitStack() as stack:
        pair = Pair("regulus", "regulus", new_run("paused"), stack)
        OURS.produce(new_run("paused-client"), namesrv=pair.name_server, topic=TOPIC, group="P", prefix="m",
                     count=COUNT)
        pair.await_copy()
        has_begun, is_paused, bodies = threading.Event(), threading.Event(), set[str]()

        def listen(messages: list[MessageExt], context: object) -> ConsumeStatus:
            has_begun.set()
            is_paused.wait()
            bodies.update(message.body.decode() for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, pull_batch_size=1,
                                    pull_threshold_for_queue=2, broker_suspend_max_time=4_000,
                                    consumer_timeout_when_suspend=5_000)
        consumer = PushConsumer(pair.name_server, GROUP, listen, config)
        consumer.subscribe(TOPIC, "*")
        with consumer:
            assert has_begun.wait(BACK_WITHIN_S)
            deadline = time.monotonic() + BACK_WITHIN_S
            os.kill(pair.ours["master"].pid, signal.SIGSTOP)
            try:
                is_paused.set()
                while len(bodies) < COUNT:
                    assert time.monotonic() < deadline, f"{len(bodies)} of {COUNT} messages came"
                    time.sleep(0.05)
            finally:
                os.kill(pair.ours["master"].pid, signal.SIGCONT)
