"""Taking queues, resets, hand-overs and locks, with a scripted broker and calls that end when a test says so."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest

from regulus.broker.groups.queue_locks import LOCK_EXPIRY_MS
from regulus.client import tasks
from regulus.client.config import ConsumeFromWhere, MessageModel, PushConsumerConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.consuming import consumption, rebalancer
from regulus.client.consuming.consumption import Consumption
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.queue_locks import RENEW_INTERVAL_MS, TRUSTED_MS
from regulus.client.consuming.queue_puller import OFFSET_RESET
from regulus.client.consuming.rebalancer import Rebalancer
from regulus.client.core.owned_queue import UNSTORED_MAX
from regulus.model import sys_flag as flags
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire import fastjson, json_fields, message_batch
from regulus.wire.bodies import OffsetSerializeWrapper
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_group import (
    ME,
    OTHER,
    QUEUE,
    SUCCESS,
    Held,
    Shelf,
    consuming,
    heard_all,
    places_of,
    pulls_of,
    push_reset,
)
from tests.unit.client.scripted_servers import closed_address, refused, scripted_cluster
from tests.waiting import until


def owns(consumer):
    return QUEUE in consumer.assigned_queues()


class SlowToTell(Shelf):
    """Tells the group's offset only when it `may_tell`; it was `asked` for it before."""

    def __init__(self, count=0):
        super().__init__(count)
        self.asked, self.may_tell = asyncio.Event(), asyncio.Event()

    def __call__(self, command):
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET and command.ext["topic"] == "T":
            return self._tell(super().__call__(command))
        return super().__call__(command)

    async def _tell(self, answer):
        self.asked.set()
        await self.may_tell.wait()
        return answer


class WithoutOffset(Shelf):
    """The group has none, before one is stored."""

    def __init__(self, count=0):
        super().__init__(count)
        self.committed = None

    def __call__(self, command):
        has_none = self.committed is None or command.ext.get("topic") != "T"
        if has_none and command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return refused(command, ResponseCode.QUERY_NOT_FOUND)
        return super().__call__(command)


# --- what is stored, and when ----------------------------------------------------------------------------------------


async def test_where_a_new_group_begins_is_stored_at_once():
    """Whoever takes the queue from a member that finished nothing would begin at its end, behind what came since."""
    shelf, held = WithoutOffset(count=5), Held()
    async with consuming(shelf, held, consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
                         persist_consumer_offset_interval=3_600_000) as (_, broker):
        await until(lambda: pulls_of(broker) == [5])
        shelf.put()
        await until(lambda: held.seen == [5])
        await until(lambda: shelf.committed == 5)
        held.end()
    assert [each.ext["topic"] for each in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET)
            if each.ext["commitOffset"] == "0"] == [], "all begin there anyway"


async def test_a_reset_that_comes_while_a_queue_is_taken_is_stored_at_once():
    shelf, held = SlowToTell(count=5), Held()
    async with consuming(shelf, held, is_awaited=False,
                         persist_consumer_offset_interval=3_600_000) as (_, broker):
        await shelf.asked.wait()
        push_reset(broker, 2)
        await heard_all(broker)
        shelf.may_tell.set()
        await until(lambda: shelf.committed == 2)
        held.end(3)


async def test_a_broker_that_answers_no_store_keeps_the_stores_of_no_other():
    class Deaf(Shelf):
        def __init__(self):
            super().__init__(count=1)
            self.may_answer = asyncio.Event()
            self.is_asked = False

        def __call__(self, command):
            answer = super().__call__(command)
            if command.code != RequestCode.UPDATE_CONSUMER_OFFSET or command.ext["topic"] != "T":
                return answer
            self.is_asked = True
            return self._later(answer)

        async def _later(self, answer):
            await self.may_answer.wait()
            return answer
    deaf, shelf = Deaf(), Shelf()
    config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, client_ip="10.0.0.5",
                                instance_name="me", rebalance_interval=20, persist_consumer_offset_interval=100,
                                mq_client_api_timeout=60_000)
    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("a", others=deaf)
        await cluster.add_broker("b", others=shelf)
        consumer = PushConsumer(cluster.name_server.address, "CG", lambda messages, context: SUCCESS, config)
        consumer.subscribe("T")
        async with consumer:
            await until(lambda: deaf.is_asked)
            for _ in range(3 * UNSTORED_MAX):
                shelf.put()
            await until(lambda: shelf.committed >= 2 * UNSTORED_MAX)
            deaf.may_answer.set()


async def test_of_many_messages_the_offset_is_stored_before_all_others_are_due():
    shelf = Shelf(count=3 * UNSTORED_MAX)
    async with consuming(shelf, lambda messages, context: SUCCESS,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        await until(lambda: shelf.committed >= UNSTORED_MAX)
        await until(lambda: consumer._consumption.owned[QUEUE].commit_offset == len(shelf.messages))
        stores = [each for each in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET) if each.ext["topic"] == "T"]
        assert len(stores) <= 3
    assert shelf.committed == len(shelf.messages), "what is left is stored when it is due, or the member leaves"


async def test_where_a_broker_sends_the_group_is_stored_at_once():
    shelf = Shelf(count=3, committed=9)
    shelf.moves[9] = 1
    async with consuming(shelf, Held(), persist_consumer_offset_interval=3_600_000):
        await until(lambda: shelf.committed == 1)


async def test_a_reset_that_a_pull_hears_of_lets_nothing_count_that_lies_before_it():
    class Resetting(Shelf):
        def _placed(self, command, code, next_offset, body=b""):
            answer = super()._placed(command, code, next_offset, body)
            if code == ResponseCode.PULL_OFFSET_MOVED:
                answer.remark = OFFSET_RESET
            return answer
    shelf, held = Resetting(count=3), Held()
    shelf.moves[3] = 9
    async with consuming(shelf, held, persist_consumer_offset_interval=3_600_000):
        await until(lambda: shelf.committed == 9)
        held.end(3)
        await until(lambda: len(held.ended) == 3)
    assert shelf.committed == 9


# --- resets ----------------------------------------------------------------------------------------------------------


async def test_a_reset_in_the_middle_of_an_orderly_call_brings_no_second_call_before_it_ended():
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (_, broker):
        await until(lambda: listener.running == 1)
        push_reset(broker, 1)
        await until(lambda: pulls_of(broker).count(3) == 2)      # the second taking has everything too
        assert listener.seen == [0]
        listener.end(10)
        await until(lambda: len(listener.seen) == 3)
    assert listener.seen == [0, 1, 2]
    assert listener.most == 1
    assert shelf.committed == 3


async def test_a_reset_before_a_call_that_waits_for_a_worker_was_begun_holds_the_queue_up_no_longer():
    shelf, listener = Shelf(count=1), Held()
    async with consuming(shelf, listener, queue_count=2, consume_orderly=True, consume_thread_max=1) as (
            consumer, broker):
        await until(lambda: listener.running == 1 and consumer._calls.workers.waiting() == 1)
        (running,) = consumer._calls.workers.running
        other = MessageQueue("T", "a", 1 - running.owned.queue.queue_id)
        waiting = consumer._consumption.owned[other]
        push_reset(broker, 0, other)
        await until(lambda: waiting.is_given_up)
        listener.end(10)
        await until(lambda: consumer._consumption.owned[other].commit_offset == 1)


async def test_a_reset_before_a_call_that_waits_for_its_rate_holds_the_queue_up_no_longer():
    listener = Held()
    async with consuming(Shelf(count=3), listener, consume_orderly=True, consume_rate_max=0.001,
                         consume_burst_max=1) as (consumer, broker):
        listener.end()
        await until(lambda: listener.ended == [0] and consumer._calls.workers.waiting() == 1)
        before = consumer._consumption.owned[QUEUE]
        push_reset(broker, 2)
        await until(lambda: before.is_given_up)
        await until(lambda: consumer._consumption.owned[QUEUE].is_busy)
        assert consumer._calls.workers.waiting() == 1


async def test_a_late_result_of_what_was_reset_moves_no_offset():
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_thread_max=1) as (_, broker):
        await until(lambda: listener.running == 1)
        push_reset(broker, 2)
        await until(lambda: shelf.committed == 2)
        listener.end()
        await until(lambda: listener.seen == [0, 2])
        assert shelf.committed == 2
        listener.end()
        await until(lambda: shelf.committed == 3)


async def test_a_pushed_reset_of_a_queue_of_another_member_stores_nothing():
    shelf = Shelf(committed=100)
    shelf.members = [OTHER]
    async with consuming(shelf, Held()) as (_, broker):
        await until(lambda: broker.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        push_reset(broker, 50)
        await heard_all(broker)
        shelf.members = [ME]
        await until(lambda: pulls_of(broker))
        assert pulls_of(broker) == [100]
    assert shelf.committed == 100


async def test_a_reset_that_comes_while_a_queue_is_taken_says_where_to_begin_and_is_stored():
    shelf = SlowToTell(count=9)
    async with consuming(shelf, Held(), is_awaited=False) as (consumer, broker):
        await shelf.asked.wait()
        push_reset(broker, 5)
        await until(lambda: consumer._consumption._taking[QUEUE] == 5)
        shelf.may_tell.set()
        await until(lambda: pulls_of(broker))
        assert pulls_of(broker)[0] == 5
        await until(lambda: shelf.committed == 5)


async def test_a_reset_during_an_orderly_hand_over_is_what_the_next_owner_begins_with_and_rebalancing_lives_on():
    shelf, listener = Shelf(count=30), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        taking = consumer._consumption.owned[QUEUE]
        await until(lambda: not taking.is_pulled)
        push_reset(broker, 7)
        await until(lambda: taking.commit_offset == 7)
        listener.end()
        await until(lambda: not owns(consumer))
        assert shelf.committed == 7
        shelf.members = [ME]
        await until(lambda: len(listener.seen) == 2)
        assert listener.seen == [0, 7]
        listener.end(100)


# --- taking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orderly", [False, True])
async def test_the_route_is_asked_for_again_when_a_queue_s_broker_does_not_answer(orderly):
    """It may be gone, and while we want its queues others leave us more than they have to."""
    shelf = Shelf()
    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("b", shelf.send, others=shelf)
        cluster.add_unreachable_broker("a", closed_address())
        config = PushConsumerConfig(client_ip="10.0.0.5", instance_name="me", consume_orderly=orderly,
                                    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer = PushConsumer(cluster.name_server.address, "CG", Held(), config)
        consumer.subscribe("T")
        async with consumer:
            await until(lambda: sum(
                request.ext.get("topic") == "T" for request in cluster.name_server.requests) >= 2)


# --- hand-overs ------------------------------------------------------------------------------------------------------


async def test_the_result_of_a_call_counts_and_is_stored_before_its_queue_is_unlocked():
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True, persist_consumer_offset_interval=60_000) as (
            consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        taking = consumer._consumption.owned[QUEUE]
        await until(lambda: not taking.is_pulled)
        assert not places_of(broker, RequestCode.UNLOCK_BATCH_MQ)
        listener.end()
        await until(lambda: not owns(consumer))
        await until(lambda: places_of(broker, RequestCode.UNLOCK_BATCH_MQ))
        assert shelf.committed == 1
        assert places_of(broker, RequestCode.UPDATE_CONSUMER_OFFSET)[0] < places_of(
            broker, RequestCode.UNLOCK_BATCH_MQ)[0]
    assert listener.seen == [0]


async def test_a_reset_that_comes_while_a_hand_over_stores_its_offset_is_stored_too():
    class ResetsMeanwhile(Shelf):
        async def _stores(self, command):
            taking = consumer._consumption.owned[QUEUE]
            if taking.commit_offset == 1:
                push_reset(broker, 7)
                await until(lambda: taking.commit_offset == 7)
            return super().__call__(command)

        def __call__(self, command):
            if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and command.ext["topic"] == "T":
                return self._stores(command)
            return super().__call__(command)

    shelf, listener = ResetsMeanwhile(count=1), Held()
    listener.end()
    async with consuming(shelf, listener, consume_orderly=True, persist_consumer_offset_interval=60_000) as (
            consumer, broker):
        await until(lambda: owns(consumer) and consumer._consumption.owned[QUEUE].commit_offset == 1)
        shelf.members = [OTHER]
        await until(lambda: places_of(broker, RequestCode.UNLOCK_BATCH_MQ))
        assert shelf.committed == 7


async def test_at_the_end_offsets_are_stored_before_queues_are_unlocked():
    shelf, listener = Shelf(count=1), Held()
    listener.end()
    async with consuming(shelf, listener, consume_orderly=True, persist_consumer_offset_interval=60_000) as (_, broker):
        await until(lambda: listener.seen == [0])
    assert shelf.committed == 1
    assert places_of(broker, RequestCode.UPDATE_CONSUMER_OFFSET)[-1] < places_of(
        broker, RequestCode.UNLOCK_BATCH_MQ)[0]


async def test_a_queue_whose_call_does_not_end_is_given_up_without_unlocking_and_retaken_without_a_second_call(
        monkeypatch, caplog):
    monkeypatch.setattr(consumption, "SETTLE_WAIT_MS", 30)
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        await until(lambda: not owns(consumer))
        await until(lambda: broker.requests_of(RequestCode.UNLOCK_BATCH_MQ))    # of the retry topic's queue
        assert not places_of(broker, RequestCode.UNLOCK_BATCH_MQ)
        assert "although their listener calls still run" in caplog.text
        shelf.members = [ME]
        await until(lambda: owns(consumer))
        await until(lambda: pulls_of(broker).count(3) == 2)
        assert listener.seen == [0]
        assert "waits for the listener call" in caplog.text
        listener.end(10)
        await until(lambda: len(listener.seen) == 4)
    assert listener.seen == [0, 0, 1, 2]
    assert listener.most == 1


async def test_after_a_reset_too_a_queue_is_not_given_away_while_its_old_call_runs():
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        taking = consumer._consumption.owned[QUEUE]
        push_reset(broker, 1)
        await until(lambda: taking.is_given_up)
        taking = consumer._consumption.owned[QUEUE]
        shelf.members = [OTHER]
        await until(lambda: not taking.is_pulled)
        await until(lambda: broker.requests_of(RequestCode.UNLOCK_BATCH_MQ))    # of the retry topic's queue
        assert owns(consumer)
        assert not places_of(broker, RequestCode.UNLOCK_BATCH_MQ)
        listener.end()
        await until(lambda: places_of(broker, RequestCode.UNLOCK_BATCH_MQ))
    assert shelf.committed == 1


async def test_a_queue_that_is_unwanted_while_it_is_taken_keeps_its_lock_for_the_call_that_still_runs(monkeypatch):
    monkeypatch.setattr(consumption, "SETTLE_WAIT_MS", 30)
    held, may_tell = asyncio.Event(), asyncio.Event()

    class SlowToTell(Shelf):
        async def _tell_later(self, command):
            held.set()
            await may_tell.wait()
            return command.response(ResponseCode.SUCCESS, ext={"offset": "0"})

        def __call__(self, command):
            if command.code == RequestCode.QUERY_CONSUMER_OFFSET and command.ext["topic"] == "T" and was_given_up:
                return self._tell_later(command)
            return super().__call__(command)

    shelf, listener, was_given_up = SlowToTell(count=3), Held(), []
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        await until(lambda: not owns(consumer))
        was_given_up.append(True)
        shelf.members = [ME]
        await held.wait()
        shelf.members = [OTHER]
        await until(lambda: not consumer._consumption._wanted["T"])
        may_tell.set()
        await until(lambda: QUEUE not in consumer._consumption._taking)
        assert listener.running == 1
        assert not places_of(broker, RequestCode.UNLOCK_BATCH_MQ)
        listener.end(10)


async def test_what_ends_after_its_queue_was_lost_is_neither_stored_nor_sent_back():
    shelf, listener = Shelf(count=1), Held(answer=None)
    async with consuming(shelf, listener) as (consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        await until(lambda: not owns(consumer))
        shelf.committed = 77    # the new owner's
        listener.end()
        await until(lambda: not consumer._calls.workers.running)
    assert not broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert shelf.committed == 77


async def test_what_was_not_called_when_its_queue_was_lost_is_not_called():
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_thread_max=1) as (consumer, _):
        await until(lambda: listener.running == 1)
        shelf.members = [OTHER]
        await until(lambda: not owns(consumer))
        listener.end(3)
        await until(lambda: not consumer._calls.workers.running)
    assert listener.seen == [0]


async def test_a_queue_that_is_no_longer_wanted_when_it_could_begin_is_unlocked_and_left_alone():
    shelf = SlowToTell(count=1)
    async with consuming(shelf, Held(), is_awaited=False, consume_orderly=True) as (consumer, broker):
        await shelf.asked.wait()
        shelf.members = [OTHER]
        await until(lambda: not consumer._consumption._wanted["T"])
        shelf.may_tell.set()
        await until(lambda: places_of(broker, RequestCode.UNLOCK_BATCH_MQ))
        assert not owns(consumer)
        assert pulls_of(broker) == []


# --- locks -----------------------------------------------------------------------------------------------------------


async def test_a_lock_is_renewed_before_it_lapses(monkeypatch):
    monkeypatch.setattr(consumption, "RENEW_INTERVAL_MS", 20)
    async with consuming(Shelf(), Held(), consume_orderly=True) as (consumer, broker):
        await until(lambda: owns(consumer))
        taking = consumer._consumption.owned[QUEUE]
        first = taking.locked_until_ms
        await until(lambda: taking.locked_until_ms >= first + 60)
        assert consumer._consumption.owned[QUEUE] is taking
        assert len(places_of(broker, RequestCode.LOCK_BATCH_MQ)) >= 2


class LateToLock(Shelf):
    """Answers each wish for a lock of T when `late_ms` more have passed; `asked_by` is when the last one came."""

    late_ms = asked_by = 0

    def __call__(self, command):
        if command.code == RequestCode.LOCK_BATCH_MQ and b'"topic":"T"' in command.body:
            self.asked_by = consumption.steady_ms()
            self.late_ms += 10_000
        return super().__call__(command)


async def test_a_lock_is_trusted_from_when_it_was_asked_for_however_late_the_answer_comes(monkeypatch):
    shelf = LateToLock()
    monkeypatch.setattr(consumption, "steady_ms", lambda: steady_ms() + shelf.late_ms)
    async with consuming(shelf, Held(), consume_orderly=True) as (consumer, _):
        await until(lambda: owns(consumer))
        taking = consumer._consumption.owned[QUEUE]
        taken_until = taking.locked_until_ms
        assert taken_until <= shelf.asked_by + TRUSTED_MS
        await consumer._consumption.renew_locks()
        assert taken_until < taking.locked_until_ms <= shelf.asked_by + TRUSTED_MS


def test_we_have_stopped_before_another_member_may_have_the_lock():
    assert RENEW_INTERVAL_MS < TRUSTED_MS < LOCK_EXPIRY_MS


async def rests_until_locked_again(shelf, listener, broker):
    """Of three messages the first was called while the lock was there; the second is another member's."""
    await until(lambda: listener.running == 0)
    asked = len(broker.requests_of(RequestCode.LOCK_BATCH_MQ))
    await until(lambda: len(broker.requests_of(RequestCode.LOCK_BATCH_MQ)) > asked + 2)
    assert listener.seen == [0]
    shelf.committed = 2
    shelf.free = True
    await until(lambda: len(listener.seen) == 2)
    assert listener.seen == [0, 2]
    listener.end(10)
    await until(lambda: shelf.committed == 3)


async def test_without_its_lock_nothing_is_called_and_when_it_has_lapsed_the_queue_is_taken_anew(monkeypatch):
    monkeypatch.setattr(consumption, "RENEW_INTERVAL_MS", 20)
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        taking = consumer._consumption.owned[QUEUE]
        shelf.free = False
        await until(lambda: taking.locked_until_ms == 0)
        listener.end()
        await rests_until_locked_again(shelf, listener, broker)


async def test_when_the_connection_of_a_lock_is_lost_nothing_is_called_until_the_queue_is_locked_anew(
        monkeypatch, caplog):
    """A broker that was started anew has forgotten its locks, and may have given them to others."""
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True) as (consumer, broker):
        await until(lambda: listener.running == 1)
        shelf.free = False
        for connection in broker.connections:
            connection.abort()
        await until(lambda: not owns(consumer))
        listener.end()
        await rests_until_locked_again(shelf, listener, broker)
    assert "queues of group CG were locked is lost; they are taken again" in caplog.text


async def cut(consumer, broker, taking):
    for connection in broker.connections:
        connection.abort()
    await until(lambda: consumer._consumption.owned.get(QUEUE) not in (None, taking))


async def test_behind_a_lost_connection_an_ordered_queue_goes_on_where_it_was(monkeypatch):
    """All since the last store came again, and more: a broker that was killed has forgotten what it took last."""
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=9, committed=1), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        for running, count in ((4, 3), (6, 2)):
            listener.end(count)
            await until(lambda running=running: listener.seen[-1:] == [running])
            shelf.committed = 1     # it has forgotten what it was told since
            taking = consumer._consumption.owned[QUEUE]
            await cut(consumer, broker, taking)
            assert consumer._consumption.owned[QUEUE].next_offset >= running
            listener.end()          # the call that ran counts for nothing, and comes again
            await until(lambda running=running: listener.seen.count(running) == 2)
            await until(lambda running=running: shelf.committed == running)
        listener.end(9)
        await until(lambda: 8 in listener.ended)
    assert listener.seen == [1, 2, 3, 4, 4, 5, 6, 6, 7, 8]


class BatchShelf(Shelf):
    """A queue of batches of three that rest as one record each: of `messages`, three in a row are the same record."""

    def put(self, body=b"x", **options):
        super().put(message_batch.encode([Message("T", body)] * 3), sys_flag=flags.NEED_UNWRAP | flags.INNER_BATCH)
        message = message_record.decode(self.messages.pop())
        message.properties["INNER_NUM"] = "3"
        self.messages += [message_record.encode(message)] * 3

    async def _pull(self, command):
        offset = int(command.ext["queueOffset"])
        if offset >= len(self.messages):
            return await super()._pull(command)
        return self._placed(command, ResponseCode.SUCCESS, offset - offset % 3 + 3, self.messages[offset])


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_behind_a_lost_connection_an_ordered_queue_goes_on_in_the_midst_of_a_batch(monkeypatch, count):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = BatchShelf(count=3), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(count)
        await until(lambda: listener.seen[-1:] == [count])
        shelf.committed = 0     # it has forgotten what it was told since
        taking = consumer._consumption.owned[QUEUE]
        await cut(consumer, broker, taking)
        listener.end(9)
        await until(lambda: 8 in listener.ended)
    assert listener.seen == [*range(count + 1), *range(count, 9)]


async def test_behind_a_lost_connection_a_topic_that_was_made_anew_begins_at_its_first_message(monkeypatch):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=9), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(2)
        await until(lambda: listener.seen == [0, 1, 2])
        shelf.messages.clear()
        shelf.committed = 0
        for number in range(5):
            shelf.put(physical_offset=5000 + number)
        taking = consumer._consumption.owned[QUEUE]
        await cut(consumer, broker, taking)
        listener.end(6)
        await until(lambda: 4 in listener.ended)
    assert listener.seen == [0, 1, 2, 0, 1, 2, 3, 4]


async def test_behind_a_lost_connection_a_reset_counts(monkeypatch):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=9, committed=4), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(2)
        await until(lambda: listener.seen[-1:] == [6])
        shelf.committed = 2
        taking = consumer._consumption.owned[QUEUE]
        await cut(consumer, broker, taking)
        listener.end()
        await until(lambda: len(listener.seen) == 4)
    assert listener.seen == [4, 5, 6, 2]


async def test_behind_a_lost_connection_another_message_at_the_place_of_the_last_one_is_not_passed_over(monkeypatch):
    """Where the lost end of a log began its next message lies, as at a slave that became the master."""
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=4), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(4)
        await until(lambda: 3 in listener.ended)
        shelf.messages.pop()
        shelf.put(physical_offset=1003, store_timestamp=5)
        shelf.put()
        taking = consumer._consumption.owned[QUEUE]
        await cut(consumer, broker, taking)
        listener.end(9)
        await until(lambda: 4 in listener.ended)
    assert listener.seen == [0, 1, 2, 3, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("refused_queries", [0, 1])
@pytest.mark.parametrize("offset", [2, 4])
async def test_behind_a_lost_connection_a_reset_that_comes_while_the_queue_is_taken_counts(
        offset, refused_queries, monkeypatch):
    """The broker tells it to the next pull, and to no other; also where it is one that the member has stored."""
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    resets = []

    class Reset(Shelf):
        refuses = 0

        def __call__(self, command):
            if command.code == RequestCode.PULL_MESSAGE and command.ext["topic"] == "T" and resets:
                self.committed = resets.pop()
                self.refuses = refused_queries
                return self._placed(command, ResponseCode.PULL_OFFSET_MOVED, self.committed)
            if command.code == RequestCode.QUERY_CONSUMER_OFFSET and self.refuses:
                self.refuses -= 1
                return refused(command, ResponseCode.SYSTEM_ERROR)
            return super().__call__(command)

    shelf, listener = Reset(count=9, committed=4), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(2)
        await until(lambda: listener.seen[-1:] == [6])
        resets.append(offset)
        taking = consumer._consumption.owned[QUEUE]
        await cut(consumer, broker, taking)
        listener.end()
        await until(lambda: len(listener.seen) == 4)
    assert listener.seen == [4, 5, 6, offset]


async def test_behind_a_reset_the_offsets_of_before_are_another_one_s(monkeypatch):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=9, committed=4), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(2)
        await until(lambda: listener.seen[-1:] == [6])
        for stored, count in ((2, 4), (4, 1)):      # 4 is where it began before the first of these resets
            shelf.committed = stored
            await cut(consumer, broker, consumer._consumption.owned[QUEUE])
            listener.end(count)                     # one of them ends the call that ran
            await until(lambda stored=stored, count=count: listener.seen[-1:] == [stored + count - 1])
        assert listener.seen == [4, 5, 6, 2, 3, 4, 5, 4]
        listener.end(9)


async def test_a_queue_that_was_another_member_s_since_its_lock_was_lost_begins_where_that_one_left_it(monkeypatch):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    shelf, listener = Shelf(count=9, committed=4), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, broker):
        listener.end(2)
        await until(lambda: listener.seen[-1:] == [6])
        shelf.free = False
        for connection in broker.connections:
            connection.abort()
        await until(lambda: not owns(consumer))
        listener.end()
        shelf.members = [OTHER]
        consumer.routes_changed()
        await until(lambda: not consumer._consumption._wanted["T"])
        shelf.committed, shelf.free, shelf.members = 4, True, [ME]
        consumer.routes_changed()
        await until(lambda: len(listener.seen) == 4)
        assert listener.seen == [4, 5, 6, 4]
        listener.end(9)


async def test_behind_a_lapsed_lock_an_ordered_queue_goes_on_where_it_was(monkeypatch):
    monkeypatch.setattr(consumption, "RENEW_INTERVAL_MS", 20)
    shelf, listener = Shelf(count=5, committed=1), Held()
    async with consuming(shelf, listener, consume_orderly=True,
                         persist_consumer_offset_interval=3_600_000) as (consumer, _):
        listener.end(2)
        await until(lambda: listener.seen == [1, 2, 3])
        taking = consumer._consumption.owned[QUEUE]
        shelf.free = False
        await until(lambda: taking.locked_until_ms == 0)
        shelf.free = True
        await until(lambda: consumer._consumption.owned.get(QUEUE) not in (None, taking))
        listener.end(5)
        await until(lambda: 4 in listener.ended)
    assert listener.seen == [1, 2, 3, 3, 4]


async def test_a_lock_whose_connection_is_lost_while_its_queue_is_taken_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(consumption, "INCOMPLETE_INTERVAL_MS", 10)
    cut = []

    class Cut(Shelf):
        def __call__(self, command):
            if command.code == RequestCode.HEART_BEAT and not cut and places_of(broker, RequestCode.LOCK_BATCH_MQ):
                cut.append(len(broker.requests))
                for connection in broker.connections:
                    connection.abort()
            return super().__call__(command)

    shelf, listener = Cut(count=1), Held()
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("a", others=shelf)
        consumer = PushConsumer(cluster.name_server.address, "CG", listener, PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me", consume_orderly=True,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
        consumer.subscribe("T")
        async with consumer:
            await until(lambda: listener.running)
            listener.end()
    assert places_of(broker, RequestCode.LOCK_BATCH_MQ)[1] > cut[0]
    assert places_of(broker, RequestCode.PULL_MESSAGE)[0] > places_of(broker, RequestCode.LOCK_BATCH_MQ)[1]


# --- offsets that moved ----------------------------------------------------------------------------------------------


async def test_a_broadcasting_member_goes_on_where_the_broker_says_and_not_at_the_end(tmp_path):
    folder = tmp_path / ME / "CG"
    folder.mkdir(parents=True)
    text = fastjson.dumps_pretty(json_fields.to_value(OffsetSerializeWrapper(offset_table={QUEUE: 50})))
    (folder / "offsets.json").write_text(text)
    shelf, listener = Shelf(count=21), Held()
    shelf.moves = {50: 0}
    listener.end(100)
    async with consuming(shelf, listener, message_model=MessageModel.BROADCASTING, offset_store_path=str(tmp_path),
                         consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET):
        await until(lambda: len(listener.seen) == 21)
    assert sorted(listener.seen) == list(range(21))
    kept = OffsetSerializeWrapper.decode((folder / "offsets.json").read_bytes()).offset_table
    assert kept == {QUEUE: 21}


async def test_when_the_queue_goes_on_further_up_what_is_cached_is_still_consumed():
    shelf, listener = Shelf(count=3), Held()
    shelf.moves = {3: 5}
    async with consuming(shelf, listener, consume_orderly=True) as (_, broker):
        await until(lambda: 5 in pulls_of(broker))
        listener.end(10)
        await until(lambda: len(listener.seen) == 3)
        for _ in range(4):
            shelf.put()
        await until(lambda: len(listener.seen) == 5)
    assert listener.seen == [0, 1, 2, 5, 6]
    assert shelf.committed == 7


async def test_a_queue_that_is_sent_to_and_fro_is_pulled_with_pauses_and_its_offset_stored_by_one_task():
    pulled_at = []

    class ToAndFro(Shelf):
        def __call__(self, command):
            if command.code == RequestCode.PULL_MESSAGE and command.ext["queueOffset"] == "1":
                pulled_at.append(asyncio.get_running_loop().time())
            return None if command.code == RequestCode.UPDATE_CONSUMER_OFFSET else super().__call__(command)

    shelf = ToAndFro(count=5)
    shelf.moves = {0: 3, 3: 1, 1: 3}
    async with consuming(shelf, Held(), mq_client_api_timeout=50) as (consumer, _):
        await until(lambda: len(pulled_at) > 3)
        assert len(consumer._consumption._jobs.all()) <= 1
    assert all(later - earlier > 0.9 * consumption.MOVED_PAUSE_MS / 1000
               for earlier, later in itertools.pairwise(pulled_at))


# --- rebalancing -----------------------------------------------------------------------------------------------------


async def test_a_broker_that_does_not_answer_keeps_no_queue_of_another_from_us(monkeypatch):
    """It comes first by name, and tells nothing: neither members, nor offsets, nor that it got a heartbeat."""
    monkeypatch.setattr(rebalancer, "MEMBERS_TIMEOUT_MS", 50)
    monkeypatch.setattr(consumption, "ANNOUNCE_WAIT_MS", 50)
    shelf, listener = Shelf(), Held()
    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("a", others=lambda _: None)
        healthy = await cluster.add_broker("b", others=shelf)
        consumer = PushConsumer(cluster.name_server.address, "CG", listener, PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me", mq_client_api_timeout=300))
        consumer.subscribe("T")
        async with consumer:
            await until(lambda: MessageQueue("T", "b", 0) in consumer.assigned_queues())
            asked = len(healthy.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
            dead = cluster.brokers["a"]
            before = len(dead.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
            consumer.routes_changed()
            await until(lambda: len(healthy.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > asked + 1)
            assert len(dead.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) == before


async def test_a_rebalance_that_dies_is_told_and_begins_anew(monkeypatch, caplog):
    monkeypatch.setattr(tasks, "RESTART_MS_MIN", 1)
    rebalance, failures = Rebalancer._rebalance, [KeyError("a fault of ours")]

    async def fails_once(self):
        if failures:
            raise failures.pop()
        return await rebalance(self)
    monkeypatch.setattr(Rebalancer, "_rebalance", fails_once)
    async with consuming(Shelf(), Held()) as (consumer, _):
        await until(lambda: owns(consumer))
        assert consumer.running_info().properties["PROP_TASKS_RESTARTED"] == "1"
    assert "task rebalance CG died" in caplog.text
    assert "a fault of ours" in caplog.text


@asynccontextmanager
async def consuming_topics(count):
    async with scripted_cluster(queue_count=2) as cluster:
        broker = await cluster.add_broker("a", others=Shelf())
        consumer = PushConsumer(cluster.name_server.address, "CG", Held(), PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me"))
        for number in range(count):
            consumer.subscribe(f"T{number}")
        begun = asyncio.get_running_loop().time()
        async with consumer:
            await until(lambda: len(consumer.assigned_queues()) == 2 * (count + 1))
            yield consumer, broker, asyncio.get_running_loop().time() - begun


async def test_many_topics_that_are_taken_share_their_heartbeats():
    async with consuming_topics(40) as (_, broker, spent_s):
        beats = len(broker.requests_of(RequestCode.HEART_BEAT))
    assert beats <= 4 + spent_s * 1000 / consumption.ANNOUNCE_INTERVAL_MS


async def test_a_rebalance_looks_at_each_queue_once(monkeypatch):
    async with consuming_topics(10) as (consumer, broker, _):
        looked_at = []
        reconcile = Consumption._reconcile

        def counted(self, queues):
            looked_at.extend(queues)
            reconcile(self, queues)
        monkeypatch.setattr(Consumption, "_reconcile", counted)
        before = len(broker.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        consumer.routes_changed()
        await until(lambda: len(broker.requests_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) >= before + 11)
        await until(lambda: len(looked_at) >= 22)
        assert sorted(looked_at) == consumer.assigned_queues()


async def test_a_queue_is_unsubscribed_and_subscribed_again():
    shelf, listener = Shelf(count=1), Held()
    listener.end(10)
    async with consuming(shelf, listener) as (consumer, _):
        await until(lambda: listener.seen == [0])
        consumer.unsubscribe("T")
        await until(lambda: not owns(consumer))
        assert shelf.committed == 1
        consumer.subscribe("T")
        shelf.put()
        await until(lambda: listener.seen == [0, 1])


async def test_a_member_that_leaves_while_it_takes_queues_ends():
    held = asyncio.Event()

    class Slow(Shelf):
        def __call__(self, command):
            if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
                held.set()
                return None
            return super().__call__(command)

    async with asyncio.timeout(20), consuming(Slow(), Held(), is_awaited=False, consume_orderly=True) as (_, broker):
        await held.wait()
    assert places_of(broker, RequestCode.UNLOCK_BATCH_MQ)
