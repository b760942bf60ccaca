"""What the front knows of topics and groups, while those who told it answer, and while they do not."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from regulus.errors import CallRefused
from regulus.proxy import catalog
from regulus.proxy.brokers import NAME_SERVER, OnRequest
from regulus.proxy.catalog import Catalog
from regulus.proxy.config import ProxyConfig
from regulus.wire.bodies import TopicRouteData
from regulus.wire.bodies.topic_route_data import BrokerData, QueueData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc.codes import Code, MessageType
from regulus.wire.remoting_command import RemotingCommand
from tests.virtual_time import in_virtual_time


class TwoBrokers:
    """Brokers `a` and `b` of one topic. `failures`: who (a name, or a request code) does not answer, and how."""

    on_request: OnRequest | None = None

    def __init__(self) -> None:
        self.failures: dict[str | int, Callable[[], CallRefused | None]] = {}
        self.asked: list[tuple[str, int]] = []
        self.queues = 4
        self.codes: dict[str, int] = {}      # what a broker answers instead
        self.unknown = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        self.asked.append((broker, command.code))
        await asyncio.sleep(0)
        if broker in self.failures or command.code in self.failures:
            failure = self.failures.get(broker, self.failures.get(command.code, lambda: None))()
            if failure is None:
                await asyncio.Event().wait()
            raise failure
        if broker == NAME_SERVER and self.unknown:
            return command.response(ResponseCode.TOPIC_NOT_EXIST, "no topic")
        if broker == NAME_SERVER:
            return command.response(0, body=TopicRouteData(
                queue_datas=[QueueData(broker_name=name, read_queue_nums=self.queues, write_queue_nums=self.queues,
                                       perm=6) for name in "ab"],
                broker_datas=[BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in "ab"]).encode())
        if broker in self.codes:
            return command.response(self.codes[broker], "no")
        if command.code == RequestCode.GET_TOPIC_CONFIG:
            return command.response(0, body=b'{"topicName":"t","attributes":{"message.type":"FIFO"}}')
        return command.response(0, body=b'{"groupName":"g","consumeMessageOrderly":true}')


def no_answer() -> CallRefused:
    return CallRefused(Code.PROXY_TIMEOUT, "no answer")


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> TwoBrokers:
    monkeypatch.setattr(catalog, "FRESH_S", 0.0)
    monkeypatch.setattr(catalog, "REFRESH_S_MAX", 0.05)
    return TwoBrokers()


async def queue_count(known: Catalog) -> int:
    return len((await known.queues("t")).publish_queues)


async def test_what_a_name_server_said_holds_while_it_does_not_answer(brokers: TwoBrokers) -> None:
    """Brokers go on to work without it, and so do their clients."""
    known = Catalog(brokers, ProxyConfig())
    assert await queue_count(known) == 8
    brokers.failures[NAME_SERVER] = no_answer
    assert await queue_count(known) == 8
    asked = len(brokers.asked)
    assert await queue_count(known) == 8
    assert len(brokers.asked) == asked      # not each time anew
    with pytest.raises(CallRefused):
        await known.queues("another")


@in_virtual_time
async def test_who_knows_an_older_value_waits_a_moment_for_a_newer_one(brokers: TwoBrokers) -> None:
    known = Catalog(brokers, ProxyConfig())
    assert await queue_count(known) == 8
    brokers.queues = 5
    assert await queue_count(known) == 10
    brokers.failures[NAME_SERVER] = lambda: None     # silent
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await queue_count(known) == 10
    assert loop.time() - begun == pytest.approx(catalog.REFRESH_S_MAX)
    asked = len(brokers.asked)
    begun = loop.time()
    for _ in range(20):                             # nobody waits again for the same question
        assert await queue_count(known) == 10
    assert loop.time() == begun
    assert len(brokers.asked) == asked


async def test_a_topic_that_is_deleted_is_not_served_from_memory(brokers: TwoBrokers) -> None:
    known = Catalog(brokers, ProxyConfig())
    assert await queue_count(known) == 8
    brokers.unknown = True
    for _ in range(2):
        with pytest.raises(CallRefused) as refused:
            await known.queues("t")
        assert refused.value.code == Code.TOPIC_NOT_FOUND
    brokers.failures[NAME_SERVER] = no_answer
    with pytest.raises(CallRefused) as refused:
        await known.queues("t")
    assert refused.value.code == Code.PROXY_TIMEOUT


async def test_one_broker_that_is_gone_keeps_no_client_from_the_others(brokers: TwoBrokers) -> None:
    known = Catalog(brokers, ProxyConfig())
    brokers.failures["a"] = no_answer
    assert await known.types("t") == (MessageType.FIFO,)
    assert (await known.group("g", "t")).consume_message_orderly
    brokers.failures["b"] = no_answer
    assert await known.types("t") == (MessageType.FIFO,)        # from before
    with pytest.raises(CallRefused) as refused:
        await known.types("another")
    assert refused.value.code == Code.PROXY_TIMEOUT
    with pytest.raises(CallRefused):
        await known.group("another", "t")


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION])
async def test_what_a_broker_does_not_say_is_not_taken_for_a_default(brokers: TwoBrokers, code: ResponseCode) -> None:
    """A group that consumes in order would be served out of order, and a topic would take what it may not."""
    known = Catalog(brokers, ProxyConfig())
    brokers.codes = {"a": code, "b": code}
    for asked in (known.types("t"), known.group("g", "t")):
        with pytest.raises(CallRefused):
            await asked
    brokers.codes = {"a": code}
    assert await known.types("t") == (MessageType.FIFO,)
    assert (await known.group("g", "t")).consume_message_orderly


async def test_what_no_broker_knows_has_the_defaults(brokers: TwoBrokers) -> None:
    known = Catalog(brokers, ProxyConfig())
    brokers.codes = {"a": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "b": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
    assert not (await known.group("g", "t")).consume_message_orderly
    brokers.codes = {"a": ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "b": ResponseCode.TOPIC_NOT_EXIST}
    assert len(await known.types("t")) == 4
    brokers.codes = {"a": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
    assert (await known.group("g2", "t")).consume_message_orderly


async def test_a_failure_that_nobody_waits_for_any_more_is_no_noise(brokers: TwoBrokers,
                                                                    caplog: pytest.LogCaptureFixture) -> None:
    known = Catalog(brokers, ProxyConfig())
    brokers.failures[NAME_SERVER] = no_answer
    asking = asyncio.ensure_future(known.queues("t"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert caplog.records == []
