"""Dead letters sent again: each once, whatever interrupts a run or loses an answer."""

import asyncio
from collections.abc import Callable

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.administration.dead_letter_sends import (
    FAILURES_MAX,
    UNKNOWN,
    Pace,
    Redrive,
    is_not_stored,
)
from regulus.client.administration.dead_letters import RedriveWish, planned
from regulus.client.sending.producer import Producer
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientError,
    ConnectionLost,
    ConnectRefused,
    JobRefused,
    RequestTimeout,
    SendFailed,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.testing.running_server import ServerThread

WISH = RedriveWish(group="g", brokers=("broker-a",))
HOME = MessageQueue("%DLQ%g", "broker-a", 0)
TOPIC = MessageQueue("t", "broker-a", 0)


class Watched(Producer):
    """A producer with which something happens before and after the nth send."""

    def __init__(self, name_server: str, before: dict[int, Callable[[], None]] | None = None,
                 after: dict[int, ClientError] | None = None, instead: dict[int, ClientError] | None = None) -> None:
        super().__init__(name_server, "p")
        self._before, self._after, self._instead = before or {}, after or {}, instead or {}
        self.count = 0

    async def send(self, message, **where):
        self.count += 1
        if self.count in self._before:
            self._before[self.count]()
        if self.count in self._instead:
            raise self._instead[self.count]
        result = await super().send(message, **where)
        if self.count in self._after:
            raise self._after[self.count]
        return result


@pytest.fixture
async def admin(regulus_server):
    async with Admin(regulus_server.name_server_address) as started:
        for name in ("t", "%DLQ%g"):
            await started.create_topic(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        yield started


async def put_letters(server: ServerThread, *letters: tuple[str, str]) -> None:
    """(key, sharding key) of each."""
    async with Producer(server.name_server_address, "shop") as producer:
        for key, sharding_key in letters:
            shard = {"__SHARDINGKEY": sharding_key} if sharding_key else {}
            await producer.send(Message("%DLQ%g", key.encode(), "", key, {"DLQ_ORIGIN_TOPIC": "t", **shard}))


async def run(admin: Admin, producer: Producer, pace: Pace | None = None) -> Redrive:
    redrive = Redrive(admin, await planned(admin, WISH), pace or Pace(), lambda text: None)
    async with producer:
        await redrive.run(producer)
    return redrive


async def keys_in(admin: Admin, queue: MessageQueue = TOPIC) -> list[str]:
    end = (await admin.queue_state(queue)).max_offset
    data = (await admin.read_queue(queue, 0, end)).data if end else b""
    return [message.keys for message in message_record.decode_all(data)] if data else []


async def test_a_run_that_is_cancelled_ends_after_its_send_and_the_next_one_goes_on(admin, regulus_server):
    await put_letters(regulus_server, *((f"o{number}", "") for number in range(6)))
    where = regulus_server.name_server_address
    redrive = Redrive(admin, await planned(admin, WISH), Pace(), lambda text: None)
    task: asyncio.Task[None]
    async with Watched(where, before={3: lambda: task.cancel()}) as producer:
        task = asyncio.ensure_future(redrive.run(producer))
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (redrive.report.counts["sent"], redrive.report.left) == (3, 3)
    assert redrive.report.sentence() == "3 sent, 0 sent before, 3 left; brokers: broker-a; stopped: interrupted"
    assert await keys_in(admin) == ["o0", "o1", "o2"]
    again = await run(admin, Watched(where))
    assert again.report.sentence() == "3 sent, 3 sent before; brokers: broker-a"
    assert await keys_in(admin) == [f"o{number}" for number in range(6)]


async def test_a_send_whose_answer_is_lost_is_not_repeated_and_the_next_run_sees_what_became_of_it(
        admin, regulus_server):
    await put_letters(regulus_server, ("o0", ""), ("o1", ""), ("o2", ""))
    where = regulus_server.name_server_address
    redrive = await run(admin, Watched(where, after={1: RequestTimeout("no answer")},
                                       instead={2: RequestTimeout("nothing came")}))
    assert redrive.report.counts == {UNKNOWN: 2, "sent": 1}
    assert not redrive.report.is_whole
    assert [reason for _, reason in redrive.report.problems] == [
        "result unknown: no answer", "result unknown: nothing came"]
    assert (await run(admin, Watched(where))).report.counts == {"sent": 1}
    assert await keys_in(admin) == ["o0", "o2", "o1"]


async def test_messages_of_one_sharding_key_stay_in_order(admin, regulus_server):
    await put_letters(regulus_server, ("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"))
    where = regulus_server.name_server_address
    redrive = await run(admin, Watched(where, instead={1: BrokerRefused(1, "not now")}))
    assert redrive.report.counts == {"not sent": 1, "sent": 2, "behind another of its sharding key": 2}
    assert (await run(admin, Watched(where))).report.counts == {"sent": 3}
    assert await keys_in(admin) == ["b1", "b2", "a1", "a2", "a3"]


async def test_a_run_stops_when_several_sends_fail_one_after_another(admin, regulus_server):
    await put_letters(regulus_server, *((f"o{number}", "") for number in range(FAILURES_MAX + 2)))
    refused = {number: ConnectRefused("away") for number in range(1, 100)}
    redrive = await run(admin, Watched(regulus_server.name_server_address, instead=refused))
    assert (redrive.report.counts, redrive.report.left) == ({"not sent": FAILURES_MAX}, 2)
    assert redrive.report.stopped == f"{FAILURES_MAX} sends failed one after another"


async def test_a_topic_that_is_created_again_after_the_plan_is_refused(admin, regulus_server):
    await put_letters(regulus_server, ("o0", ""))
    redrive = Redrive(admin, await planned(admin, WISH), Pace(), lambda text: None)
    await admin.delete_topic("t")
    await admin.create_topic(TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1))
    async with Watched(regulus_server.name_server_address) as producer:
        with pytest.raises(JobRefused, match="a topic was created again while its messages were read: nothing was"):
            await redrive.run(producer)
    assert await keys_in(admin) == []


async def test_what_others_sent_since_the_plan_is_not_sent(admin, regulus_server):
    """The user takes time to answer."""
    await put_letters(regulus_server, ("o0", ""), ("o1", ""))
    plan = await planned(admin, WISH)
    await run(admin, Watched(regulus_server.name_server_address))
    await put_letters(regulus_server, ("o2", ""))
    plan.narrow(await planned(admin, WISH))
    assert (plan.to_send, plan.by_topic()) == ([], {})


@pytest.mark.parametrize("home", ["%RETRY%g", "%DLQ%g", "%RETRY%g_t", "delayed"])
async def test_a_first_letter_that_comes_back_keeps_the_others(admin, regulus_server, home):
    """It was consumed, and its copy is in one of the places in which failed messages wait."""
    await put_letters(regulus_server, ("o0", ""), ("o1", ""))
    where = regulus_server.name_server_address
    topic = "%RETRY%g" if home == "delayed" else home
    await admin.create_group(SubscriptionGroupConfig(group_name="g"))
    await admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))

    async def fail() -> None:
        while not await keys_in(admin):
            await asyncio.sleep(0.01)
        sent = message_record.decode((await admin.read_queue(TOPIC, 0, 1)).data)
        async with Producer(where, "p2") as producer:
            delay = {"DELAY": "18"} if home == "delayed" else {}
            await producer.send(Message(topic, b"x", properties={"REDRIVE_OF": sent.properties["REDRIVE_OF"], **delay}))
        await admin.reset_offset("g", TOPIC, 1)

    failing = asyncio.ensure_future(fail())
    redrive = await run(admin, Watched(where), Pace(canary=1))
    await failing
    assert redrive.report.stopped == "of the first 1, 1 came back to be tried again: the cause is not mended"
    assert (redrive.report.counts, redrive.report.left) == ({"sent": 1}, 1)


@pytest.mark.parametrize(("error", "is_certain"), [
    (BrokerRefused(17, "no topic"), True), (ConnectRefused("x"), True), (RequestTimeout("x"), False),
    (ConnectionLost("x"), False), (AnswerUnreadable("x"), False),
    (SendFailed(topic="t", attempts=1, elapsed_ms=1, brokers=(), cause=ConnectRefused("x")), True),
    (SendFailed(topic="t", attempts=1, elapsed_ms=1, brokers=(), cause=ConnectionLost("x")), False)])
def test_whether_a_failed_send_stored_nothing(error, is_certain):
    assert is_not_stored(error) is is_certain
