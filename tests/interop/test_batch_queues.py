"""Topics of `queue.type=BatchCQ`, where a batch rests as one record: RocketMQ 5.3.3's broker and ours, its clients and
ours, and one store in the hands of both."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from admin import AdminTool
from clients import JAVA
from conftest import NewRun, Server, make_server
from handover import Handover
from pairs import TOPIC, Pair
from ports import free_broker_port
from tests.batch_forms import INNER_FORMS, stored

from regulus import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    PushConsumerConfig,
    SimpleConsumer,
    SimpleConsumerConfig,
)
from regulus.client.administration.admin import Admin
from regulus.errors import ClientError
from regulus.model.message_queue import MessageQueue

SIZES = {"mapperFileSizeBatchConsumeQueue": str(4 * 46)}


def make_topic(server: Server, home: Path, *names: str) -> None:
    with AdminTool("5.3.3", home, server.name_server_address) as admin:
        for name in names:
            said = admin.run("updateTopic", "-b", server.broker_address, "-t", name, "-r", "1", "-w", "1", "-a",
                             "+queue.type=BatchCQ")
            assert "success" in said, said


@pytest.fixture(scope="module", params=["regulus", "java-5.3.3"])
def server(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Server]:
    server = make_server(request.param, new_run(f"batch-queues-{request.param}"), **SIZES)
    try:
        server.start()
        make_topic(server, new_run("batch-queues-admin"), "Pushed", "Mixed", "Popped",
                   *[f"Form-{number}" for number in range(len(INNER_FORMS))])
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize("number", range(len(INNER_FORMS)), ids=[form.name for form in INNER_FORMS])
async def test_what_is_stored_of_a_batch(server: Server, number: int) -> None:
    form = INNER_FORMS[number]
    assert await stored(server.broker_address, form, f"Form-{number}") == form.stored


def test_clients_of_both_kinds_get_each_message_of_a_batch_once(server: Server, new_run: NewRun) -> None:
    """A batch and single messages of RocketMQ's client, then those of ours; consumed by both, pushed and pulled."""
    home = new_run("batch-queues-clients")
    client = JAVA["5.3.3"]
    where = {"namesrv": server.name_server_address, "topic": "Mixed"}
    client.produce(home, **where, group="P", prefix="java", count=5, mode="batch")
    client.produce(home, **where, group="P", prefix="alone", count=1)
    asyncio.run(_send_ours(server, "Mixed"))
    client.produce(home, **where, group="P", prefix="again", count=7, mode="batch")
    wanted = [*(f"java-{n}" for n in range(5)), "alone-0", "ours-0", "ours-1", "ours-2",
              *(f"again-{n}" for n in range(7))]
    pulled = [event for event in client.run(home, "pull", **where) if event["event"] == "message"]
    assert [(int(event["queueOffset"]), event["body"]) for event in pulled] == list(enumerate(wanted))
    assert asyncio.run(_pulled_by_ours(server, "Mixed", 0)) == list(enumerate(wanted))
    assert asyncio.run(_pulled_by_ours(server, "Mixed", 12)) == list(enumerate(wanted))[12:]
    assert asyncio.run(_pushed_to_ours(server, "Mixed", len(wanted))) == list(enumerate(wanted))
    with client.consume(home, **where, group="JavaGroup") as running:
        running.wait_for_bodies(wanted)
        running.finish()
        assert sorted(running.bodies()) == sorted(wanted)


def test_what_our_listener_fails_on_comes_again_alone(server: Server) -> None:
    assert sorted(asyncio.run(_failed_once(server, "Pushed"))) == ["body-0", "body-1", "body-1", "body-2"]


async def test_a_whole_batch_is_never_popped_as_one_message(server: Server) -> None:
    """RocketMQ's broker pops the record; ours refuses to."""
    form = INNER_FORMS[0]
    await stored(server.broker_address, form, "Popped")
    async with SimpleConsumer(server.name_server_address, "PopGroup", {"Popped": "*"}, SimpleConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)) as consumer:
        with pytest.raises(ClientError, match=r"queue\.type=BatchCQ"):
            await consumer.receive(10)


async def _send_ours(server: Server, topic: str) -> None:
    async with Producer(server.name_server_address, "Ours") as producer:
        await producer.send_batch([Message(topic, f"ours-{number}".encode()) for number in range(3)])


async def _pulled_by_ours(server: Server, topic: str, start: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    async with Admin(server.name_server_address) as admin:
        queue, offset = MessageQueue(topic, "broker-a", 0), start
        while True:
            pulled = await admin.pull(queue, offset)
            found += [(message.queue_offset, message.body.decode()) for message in pulled.messages]
            if pulled.next_offset >= pulled.max_offset:
                return found
            offset = pulled.next_offset


async def _pushed_to_ours(server: Server, topic: str, count: int) -> list[tuple[int, str]]:
    got: list[tuple[int, str]] = []
    done = asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        got.extend((message.queue_offset, message.body.decode()) for message in messages)
        if len(got) >= count:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(server.name_server_address, "OurGroup", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe(topic)
    async with consumer:
        await asyncio.wait_for(done.wait(), 60)
    return sorted(got)


async def _failed_once(server: Server, topic: str) -> list[str]:
    got: list[str] = []
    done = asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        got.append(messages[0].body.decode())
        if got[-1] == "body-1" and got.count("body-1") == 1:
            return ConsumeStatus.RECONSUME_LATER
        if len(got) == 4:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(server.name_server_address, "FailingGroup", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe(topic)
    form = INNER_FORMS[0]._replace(own=[f"UNIQ_KEY=A{number};" for number in range(3)])
    await stored(server.broker_address, form, topic)
    async with consumer:
        await asyncio.wait_for(done.wait(), 60)
    return got


def batch_units(store: Path, topic: str = "Kept") -> bytes:
    folder = store / "batchconsumequeue" / topic / "0"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*")))


def pulled_of(server: Server, home: Path) -> list[tuple[int, str, str]]:
    events = JAVA["5.3.3"].run(home, "pull", namesrv=server.name_server_address, topic="Kept")
    return [(int(event["queueOffset"]), event["body"], event["msgId"]) for event in events
            if event["event"] == "message"]


@pytest.mark.parametrize("first", ["regulus", "java-5.3.3"])
def test_a_store_goes_from_one_broker_to_the_other_and_back(first: str, new_run: NewRun, tmp_path: Path) -> None:
    second = "java-5.3.3" if first == "regulus" else "regulus"
    home = new_run("batch-queues-handover")
    handover = Handover(tmp_path / "store", free_broker_port(), new_run, SIZES)
    wrote: list[tuple[int, str, str]] = []
    for turn, name in enumerate((first, second, first)):
        server = handover.open(name)
        try:
            if not turn:
                make_topic(server, new_run("batch-queues-admin"), "Kept")
            # Of a queue without messages RocketMQ says that it begins at -1, from which its client pulls nothing.
            assert not turn or pulled_of(server, home) == wrote
            where = {"namesrv": server.name_server_address, "topic": "Kept", "group": "P"}
            for mode, count in (("batch", 4), ("sync", 1), ("batch", 2), ("batch", 3)):
                JAVA["5.3.3"].produce(home, **where, prefix=f"{turn}-{mode}-{count}", count=count, mode=mode)
            wrote = pulled_of(server, home)
            assert len(wrote) == 10 * (turn + 1)
        finally:
            server.stop()
    units = batch_units(handover.store)
    # Whoever finds the log alone builds the same.
    for name in (first, second):
        for folder in ("batchconsumequeue", "consumequeue", "index"):
            shutil.rmtree(handover.store / folder, ignore_errors=True)      # without other topics there may be none
        (handover.store / "abort").touch()      # RocketMQ builds queues anew after a crash alone
        (handover.store / "checkpoint").unlink()
        server = handover.open(name)
        try:
            assert pulled_of(server, home) == wrote
        finally:
            server.stop()
        assert batch_units(handover.store)[:12 * 46] == units[:12 * 46]


def test_a_slave_of_ours_has_the_units_of_its_master(new_run: NewRun) -> None:
    """The messages may come before their topic, which a slave asks for now and then. One of RocketMQ puts them into
    queues of the other kind then, and leaves them there."""
    home = new_run("batch-queues-slave")
    with ExitStack() as stack:
        pair = Pair("java-5.3.3", "regulus", home, stack, **SIZES)
        with AdminTool("5.3.3", new_run("batch-queues-admin"), pair.name_server) as admin:
            said = admin.run("updateTopic", "-b", pair.addresses["master"], "-t", TOPIC, "-r", "1", "-w", "1", "-a",
                             "+queue.type=BatchCQ")
            assert "success" in said, said
        for prefix, count in (("first", 4), ("second", 3)):
            JAVA["5.3.3"].produce(home, namesrv=pair.name_server, topic=TOPIC, group="P", prefix=prefix, count=count,
                                  mode="batch")
        pair.await_copy()
        units = batch_units(pair.store("master"), TOPIC)
        assert units.rstrip(b"\0")
        deadline = time.monotonic() + 60
        while batch_units(pair.store("slave"), TOPIC) != units:
            assert time.monotonic() < deadline
            time.sleep(0.2)
