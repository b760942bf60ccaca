"""What a producer hands to its hook, and what the caller of the send is told."""

import asyncio
import logging

import pytest

from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConnectFailed,
    MessageIllegal,
    NoBroker,
    PartlySent,
    SendFailed,
    SendKept,
    SendNotKept,
    Throttled,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import ResponseCode
from tests.unit.client.scripted_servers import closed_address, refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time


class Keeper:
    """Takes everything over, unless it is told otherwise."""

    def __init__(self, answer=True):
        self.failed = []
        self.answer = answer

    async def __call__(self, failed):
        self.failed.append(failed)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def bodies(self):
        return [[[message.body for message in batch] for batch in each.batches] for each in self.failed]


def producer_of(cluster, keeper, **settings):
    return Producer(cluster.name_server.address, "PG", ProducerConfig(**settings), on_send_failed=keeper)


def refuses(code):
    return lambda command: refused(command, code)


async def test_what_the_hook_takes_over_is_told_as_kept_with_its_cause_and_code():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, keeper) as producer:
            message = Message("T", b"x")
            with pytest.raises(SendKept, match="the send to T failed, and is kept to be sent again: send to T failed "
                                               "after 3 attempts") as caught:
                await producer.send(message)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    [failed] = keeper.failed
    assert caught.value.__cause__ is failed.error
    assert isinstance(failed.error, SendFailed)
    assert (list(failed.messages), failed.queue) == ([message], None)
    assert len(message.message_id) == 32


@pytest.mark.parametrize("answer", [False, None, 1])
async def test_what_the_hook_does_not_take_over_fails_as_without_it(answer):
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, Keeper(answer)) as producer:
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message("T", b"x"))
    assert isinstance(caught.value.__cause__, BrokerRefused)


async def test_a_client_error_of_the_hook_is_told_and_any_other_is_logged(caplog):
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, Keeper(SendNotKept("full"))) as producer:
            with pytest.raises(SendNotKept, match="full") as caught:
                await producer.send(Message("T", b"x"))
            assert isinstance(caught.value.__cause__, SendFailed)
        async with producer_of(cluster, Keeper(ValueError("a fault"))) as producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"))
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "on_send_failed raised for a send to T, which stays failed"
    assert str(record.exc_info[1]) == "a fault"


@in_virtual_time
async def test_a_plain_function_is_a_hook_too():
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        async with producer_of(cluster, lambda failed: True, send_msg_timeout=50) as producer:
            with pytest.raises(SendKept):
                await producer.send(Message("T", b"x"))


@in_virtual_time
async def test_refusals_by_flow_control_that_outlast_the_time_are_failures_too():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_BUSY))
        async with producer_of(cluster, keeper, send_msg_timeout=500) as producer:
            for _ in range(2):
                with pytest.raises(SendKept) as caught:
                    await producer.send(Message("T", b"x"))
                assert caught.value.code == ResponseCode.SYSTEM_BUSY
    assert [type(failed.error) for failed in keeper.failed] == [Throttled, Throttled]


@in_virtual_time
async def test_without_any_broker_the_message_has_its_key_nevertheless():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        cluster.topics_unknown.update(("T", "TBW102"))
        async with producer_of(cluster, keeper, send_msg_timeout=50) as producer:
            with pytest.raises(SendKept):
                await producer.send(Message("T", b"x"))
            with pytest.raises(NoBroker):
                await producer.send(Message("T", b"x"), selector=lambda queues, message, argument: queues[0])
    [failed] = keeper.failed
    assert isinstance(failed.error, NoBroker)
    assert len(failed.messages[0].message_id) == 32


async def test_a_chosen_queue_is_kept_with_the_send():
    keeper = Keeper()
    queue = MessageQueue("T", "a", 2)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, keeper) as producer:
            with pytest.raises(SendKept):
                await producer.send(Message("T", b"x"), queue=queue)
            with pytest.raises(SendKept):
                await producer.send(Message("T", b"x"), selector=lambda queues, message, argument: queues[argument],
                                    argument=2)
    assert [failed.queue for failed in keeper.failed] == [queue, queue]


async def test_what_can_never_be_stored_or_is_nobodys_fault_is_raised():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.MESSAGE_ILLEGAL))
        async with producer_of(cluster, keeper) as producer:
            with pytest.raises(MessageIllegal):
                await producer.send(Message("T", b""))
            with pytest.raises(BrokerRefused):
                await producer.send(Message("T", b"x"))
            broker.script = lambda command: command.response(ResponseCode.SUCCESS)      # and says not where
            with pytest.raises(SendFailed, match="cannot be read"):
                await producer.send(Message("T", b"x"))
            broker.script = lambda command: None
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            while len(broker.sends()) < 3:
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        with pytest.raises(ClientClosed):
            await producer.send(Message("T", b"x"))
    assert keeper.failed == []


async def test_a_batch_is_one_failure():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, keeper) as producer:
            with pytest.raises(SendKept):
                await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
    assert keeper.bodies() == [[[b"1", b"2"]]]


async def test_of_several_batches_all_that_is_not_stored_is_kept():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        is_first = iter([True])
        await cluster.add_broker("a", lambda command: stored(command) if next(is_first, False) else refused(
            command, ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, keeper) as producer:
            with pytest.raises(PartlySent) as caught:
                await producer.send_in_batches([Message("T", b"%d" % number * 40) for number in range(5)], size_max=300)
            assert isinstance(caught.value.__cause__, SendKept)
            assert caught.value.stored == 2
            with pytest.raises(SendKept):
                await producer.send_in_batches([Message("T", b"y")])
    assert [[[body[:1] for body in batch] for batch in batches] for batches in keeper.bodies()] == [
        [[b"2", b"3"], [b"4"]], [[b"y"]]]


async def test_each_send_of_a_gathered_batch_is_a_failure_of_its_own_in_order():
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, keeper, auto_batch=True) as producer:
            errors = await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(5)),
                                          return_exceptions=True)
    assert {type(error) for error in errors} == {SendKept}
    assert keeper.bodies() == [[[b"%d" % number]] for number in range(5)]


async def test_a_shutdown_waits_until_what_gathers_is_kept():
    kept = []

    async def keep(failed):
        await asyncio.sleep(0.01)
        kept.append(failed)
        return True

    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        producer = producer_of(cluster, keep, auto_batch=True)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await asyncio.sleep(0)
        await producer.shutdown()
        assert len(kept) == 1
        with pytest.raises(SendKept):
            await sending


@in_virtual_time
async def test_a_half_message_and_a_send_without_an_answer_are_not_kept():
    """A half that is sent later is another one, whose transaction has not run."""
    keeper = Keeper()
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        async with TransactionProducer(cluster.name_server.address, "PG", on_send_failed=keeper) as producer:
            with pytest.raises(SendFailed):
                await producer.send_half(Message("T", b"x"), timeout_ms=50)
            with pytest.raises(ConnectFailed):
                await producer.send_oneway(Message("T", b"x"))
            assert keeper.failed == []
            with pytest.raises(SendKept):
                await producer.send(Message("T", b"x"), timeout_ms=50)
    assert issubclass(SendKept, ClientError)
