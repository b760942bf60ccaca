"""What becomes of messages: done, sent back, tried again here, dead letters; in order and not."""

import time

import pytest

from regulus.client import tasks
from regulus.client.config import MessageModel
from regulus.client.consuming import listener_calls as calls
from regulus.client.consuming.send_back import SendBack
from regulus.client.core.ordered_queue import TELL_AFTER_TRIES
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_group import (
    LATER,
    QUEUE,
    SUCCESS,
    Held,
    Shelf,
    consuming,
    pulls_of,
    told_by_calls,
)
from tests.waiting import until

REFUSED = ResponseCode.MESSAGE_ILLEGAL


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(calls, "LOCAL_RETRY_DELAY_MS", 5)


def sent_back(broker):
    return [(int(request.ext["offset"]) - 1000, request.ext["delayLevel"])
            for request in broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)]


class Answers:
    """A listener that answers by `script` and keeps what it saw."""

    def __init__(self, script=lambda message: SUCCESS):
        self.script = script
        self.seen = []
        self.at = []

    async def __call__(self, messages, context):
        self.seen += [(message.queue_offset, message.reconsume_times) for message in messages]
        self.at.append(time.monotonic())
        return self.script(messages[0])


# --- sending back ----------------------------------------------------------------------------------------------------


async def test_a_failed_message_that_no_broker_takes_back_is_tried_again_here_and_holds_the_offset_back():
    shelf = Shelf(count=3)
    shelf.send_back_code = shelf.send_code = REFUSED
    listener = Answers(lambda message: LATER if (message.queue_offset, message.reconsume_times) == (1, 0) else SUCCESS)
    async with consuming(shelf, listener) as (_, broker):
        await until(lambda: len(listener.seen) == 4)
        await until(lambda: shelf.committed == 3)
    assert sorted(listener.seen) == [(0, 0), (1, 0), (1, 1), (2, 0)]
    assert sent_back(broker) == [(1, "0")]


async def test_the_offset_stays_before_a_message_that_was_not_taken_back():
    shelf = Shelf(count=2)
    shelf.send_back_code = shelf.send_code = REFUSED
    listener = Answers(lambda message: SUCCESS if message.queue_offset else LATER)
    async with consuming(shelf, listener) as (_, broker):
        await until(lambda: len(listener.seen) > 4)
        assert len(sent_back(broker)) >= 3
    assert shelf.committed == 0


async def test_a_call_that_takes_too_long_and_is_not_taken_back_still_counts():
    shelf, listener = Shelf(count=1), Held()
    shelf.send_back_code = shelf.send_code = REFUSED
    async with consuming(shelf, listener, consume_timeout=20) as (_, broker):
        await until(lambda: len(sent_back(broker)) >= 2)
        assert shelf.committed == 0
        listener.end()
        await until(lambda: shelf.committed == 1)
    assert set(sent_back(broker)) == {(0, "3")}


class EndsMeanwhile(Shelf):
    """Answers a send-back when the call that it is about has ended."""

    def __init__(self, listener):
        super().__init__(count=1)
        self._listener = listener

    def __call__(self, command):
        if command.code == RequestCode.CONSUMER_SEND_MSG_BACK:
            self._listener.end()
            return self._slowly(command)
        return super().__call__(command)

    async def _slowly(self, command):
        await until(lambda: self._listener.running == 0)
        return super().__call__(command)


async def test_a_call_that_fails_while_its_messages_are_sent_back_sends_them_back_once():
    listener = Held(answer=LATER)
    shelf = EndsMeanwhile(listener)
    async with consuming(shelf, listener, consume_timeout=20) as (_, broker):
        await until(lambda: shelf.committed == 1)
    assert sent_back(broker) == [(0, "3")]


async def test_what_fails_while_no_broker_takes_it_back_is_tried_again_here():
    listener = Held(answer=LATER)
    shelf = EndsMeanwhile(listener)
    shelf.send_back_code = shelf.send_code = REFUSED
    async with consuming(shelf, listener, consume_timeout=20):
        await until(lambda: len(listener.seen) >= 2)
        assert shelf.committed == 0
        listener.answer = SUCCESS
        listener.end()
        await until(lambda: shelf.committed == 1)


async def test_nothing_more_is_sent_back_once_the_queue_is_lost():
    class LosesIt(Shelf):
        def __call__(self, command):
            if command.code == RequestCode.CONSUMER_SEND_MSG_BACK:
                consumer._consumption.owned[QUEUE].give_up()
            return super().__call__(command)

    shelf, listener = LosesIt(count=3), Held(answer=LATER)
    async with consuming(shelf, listener, consume_message_batch_max_size=3) as (consumer, broker):
        await until(lambda: listener.running == 1)
        listener.end()
        await until(lambda: sent_back(broker) and not consumer._calls._sends_back.all())
    assert sent_back(broker) == [(0, "0")]


@pytest.mark.parametrize(("ack_index", "again"), [(-1, [0, 1, 2]), (-2, [0, 1, 2]), (0, [1, 2]), (1, [2]), (2, [])])
async def test_what_lies_behind_the_ack_index_goes_back_also_when_that_is_below_the_first(ack_index, again):
    async def listen(messages, context):
        context.ack_index = ack_index
        return SUCCESS

    shelf = Shelf(count=3)
    async with consuming(shelf, listen, consume_message_batch_max_size=3) as (_, broker):
        await until(lambda: shelf.committed == 3)
    assert sent_back(broker) == [(offset, "0") for offset in again]


@pytest.mark.parametrize(("failed", "ack_index", "again"), [
    ([1], 2, [1]), ({0, 2}, 2, [0, 2]), ([0], 1, [0, 2]), ([7, -1], 2, []), ([], 2, []), ([0, 1, 2], 2, [0, 1, 2])])
async def test_messages_that_a_listener_names_go_back_wherever_they_stand(failed, ack_index, again):
    async def listen(messages, context):
        context.failed_indexes, context.ack_index = failed, ack_index
        return SUCCESS

    shelf = Shelf(count=3)
    async with consuming(shelf, listen, consume_message_batch_max_size=3) as (_, broker):
        await until(lambda: shelf.committed == 3)
    assert sent_back(broker) == [(offset, "0") for offset in again]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_is_told_whether_its_messages_come_in_order(orderly):
    told = []

    async def listen(messages, context):
        told.append(context.is_ordered)
        return SUCCESS

    shelf = Shelf(count=1)
    async with consuming(shelf, listen, consume_orderly=orderly):
        await until(lambda: shelf.committed == 1)
    assert told == [orderly]


# --- messages that cannot be read ------------------------------------------------------------------------------------


def shelf_with_an_unreadable_one():
    shelf = Shelf(count=2)
    shelf.put_unreadable()
    shelf.put()
    return shelf


async def test_a_message_that_cannot_be_unpacked_goes_back_with_its_reason_told_once_and_the_queue_goes_on(caplog):
    shelf, listener = shelf_with_an_unreadable_one(), Answers()
    async with consuming(shelf, listener) as (_, broker):
        await until(lambda: shelf.committed == 4)
    assert sorted(listener.seen) == [(0, 0), (1, 0), (3, 0)]
    assert sent_back(broker) == [(2, "0")]
    (told,) = told_by_calls(caplog)
    assert "offset 2" in told
    assert str(QUEUE) in told
    assert "body is not a zlib stream" in told


async def test_in_order_it_is_a_dead_letter_in_its_turn():
    shelf, listener = shelf_with_an_unreadable_one(), Answers()
    async with consuming(shelf, listener, consume_orderly=True) as (_, broker):
        await until(lambda: shelf.committed == 4)
    assert listener.seen == [(0, 0), (1, 0), (3, 0)]
    assert sent_back(broker) == [(2, "-1")]


async def test_an_unreadable_message_that_no_broker_takes_back_is_kept_until_its_bytes_are_a_dead_letter():
    shelf, listener = shelf_with_an_unreadable_one(), Answers()
    shelf.send_back_code, shelf.send_code = REFUSED, ResponseCode.NO_PERMISSION     # which may be given later
    async with consuming(shelf, listener) as (_, broker):
        await until(lambda: len(sent_back(broker)) >= 2)
        assert len(listener.seen) == 3
        assert shelf.committed == 2
        shelf.send_code = ResponseCode.SUCCESS
        await until(lambda: shelf.committed == 4)
    assert broker.requests_of(RequestCode.SEND_MESSAGE_V2)[-1].body == b"no stream"
    dead = broker.sends()[-1]
    assert dead.properties["RETRY_TOPIC"] == "T"
    assert "body is not a zlib stream" in dead.properties["UNREADABLE_REASON"]
    assert dead.reconsume_times > dead.max_reconsume_times >= 0


@pytest.mark.parametrize("orderly", [False, True])
async def test_broadcasting_passes_over_it(tmp_path, orderly, caplog):
    shelf, listener = shelf_with_an_unreadable_one(), Answers()
    async with consuming(shelf, listener, message_model=MessageModel.BROADCASTING, consume_orderly=orderly,
                         offset_store_path=str(tmp_path)) as (consumer, broker):
        await until(lambda: QUEUE in consumer.assigned_queues())
        await until(lambda: consumer._consumption.owned[QUEUE].commit_offset == 4)
    assert sorted(listener.seen) == [(0, 0), (1, 0), (3, 0)]
    assert sent_back(broker) == []
    assert len(told_by_calls(caplog)) == 1


async def test_a_record_that_cannot_be_read_becomes_a_dead_letter_of_its_bytes():
    shelf, listener = Shelf(count=1), Answers()
    shelf.messages.append(b"\0\0\0\x64no record")
    shelf.put()
    async with consuming(shelf, listener, pull_time_delay_when_exception=1) as (_, broker):
        await until(lambda: shelf.committed == 3)
    assert sorted(listener.seen) == [(0, 0), (2, 0)]
    assert sent_back(broker) == []
    (dead,) = broker.requests_of(RequestCode.SEND_MESSAGE_V2)
    assert dead.body == b"\0\0\0\x64no record"


# --- in order --------------------------------------------------------------------------------------------------------


async def test_an_orderly_queue_rests_after_a_failure_whatever_arrives():
    shelf = Shelf(count=1)
    listener = Answers(lambda message: SUCCESS if message.reconsume_times == 2 or message.queue_offset else LATER)
    async with consuming(shelf, listener, consume_orderly=True, suspend_current_queue_time_millis=100) as (_, broker):
        while len(listener.at) < 3:
            shelf.put()
            await until(lambda: len(shelf.messages) in pulls_of(broker))
        shelf.put()
        await until(lambda: shelf.committed == len(shelf.messages))
    first, second, third = listener.at[:3]
    assert second - first >= 0.099      # the consumer's clock counts whole ms
    assert third - second >= 0.099
    assert listener.seen == [(0, 0), (0, 1), (0, 2), *((offset, 0) for offset in range(1, len(shelf.messages)))]


async def test_a_blocked_orderly_queue_is_told_and_counted(caplog):
    shelf, listener = Shelf(count=2), Answers(lambda message: LATER)
    async with consuming(shelf, listener, consume_orderly=True, suspend_current_queue_time_millis=10) as (consumer, _):
        await until(lambda: len(listener.seen) > 2 * TELL_AFTER_TRIES)
        assert consumer.running_info().properties["PROP_BLOCKED_QUEUES"] == "1"
        listener.script = lambda message: SUCCESS
        await until(lambda: shelf.committed == 2)
        assert consumer.running_info().properties["PROP_BLOCKED_QUEUES"] == "0"
    told = told_by_calls(caplog)
    assert len(told) == 2
    assert "message U0 at offset 0 failed 3 times in" in told[0]
    assert "failed 6 times in" in told[1]


# --- what listeners answer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "words"), [(None, "returned nothing"), (True, "returned True")])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_that_answers_no_status_is_told_once_and_its_messages_come_again(caplog, answer, words,
                                                                                          orderly):
    shelf, listener = Shelf(count=3), Answers(lambda message: SUCCESS if message.reconsume_times else answer)
    shelf.send_back_code = shelf.send_code = REFUSED
    async with consuming(shelf, listener, consume_orderly=orderly, suspend_current_queue_time_millis=10):
        await until(lambda: shelf.committed == 3)
    assert sorted(listener.seen) == [(offset, times) for offset in range(3) for times in range(2)]
    assert [words in told for told in told_by_calls(caplog)] == [True]


async def test_a_listener_that_raises_is_not_said_to_forget_its_return(caplog):
    def fails(message):
        if message.reconsume_times == 0:
            raise ValueError("no stock")
        return SUCCESS

    shelf, listener = Shelf(count=1), Answers(fails)
    shelf.send_back_code = shelf.send_code = REFUSED
    async with consuming(shelf, listener):
        await until(lambda: shelf.committed == 1)
    assert told_by_calls(caplog) == []


class Incomparable:
    """As an array of numpy: it answers no question with yes or no, and not even its name."""

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")

    __hash__ = None

    def __repr__(self):
        raise ValueError("no name")


ODD = {
    "answer": lambda context: Incomparable(),
    "unhashable": lambda context: [],
    "ack_index": lambda context: setattr(context, "ack_index", None) or SUCCESS,
    "delay_level": lambda context: setattr(context, "delay_level_when_next_consume", "3") or LATER,
    "failed_indexes": lambda context: setattr(context, "failed_indexes", ["0"]) or SUCCESS,
    "no list": lambda context: setattr(context, "failed_indexes", None) or SUCCESS,
    "suspend": lambda context: setattr(context, "suspend_current_queue_time_millis", None) or LATER,
    "no value": lambda context: delattr(context, "ack_index") or SUCCESS,
}


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("odd", ODD)
async def test_whatever_a_listener_answers_or_sets_its_messages_come_again(odd, orderly, is_async):
    seen = []

    def function(messages, context):
        seen.append(messages[0].queue_offset)
        return SUCCESS if messages[0].reconsume_times else ODD[odd](context)

    async def coroutine(messages, context):
        return function(messages, context)

    shelf = Shelf(count=2)
    shelf.send_back_code = shelf.send_code = REFUSED
    async with consuming(shelf, coroutine if is_async else function, consume_orderly=orderly,
                         suspend_current_queue_time_millis=10) as (consumer, _):
        await until(lambda: shelf.committed == 2)
        assert consumer.running_info().properties["PROP_TASKS_RESTARTED"] == "0"
    assert sorted(seen) == [0, 0, 1, 1]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_listener_may_empty_its_list(is_async):
    def function(messages, context):
        messages.clear()
        return SUCCESS

    async def coroutine(messages, context):
        return function(messages, context)

    shelf = Shelf(count=3)
    async with consuming(shelf, coroutine if is_async else function, consume_message_batch_max_size=2):
        await until(lambda: shelf.committed == 3)


# --- send-backs that die ---------------------------------------------------------------------------------------------


@pytest.fixture
def dying(monkeypatch):
    """The first send-back of each kind, the second dead letter, raises what nobody expects."""
    failures = {"send_back": 1, "hand_on": 1, "dead_letter": 2}

    def failing_once(name):
        own = getattr(SendBack, name)

        def fails_once(self, message, *rest):
            failures[name] -= 1
            if failures[name] == 0:
                raise LookupError(f"a fault of {name}")
            return own(self, message, *rest)
        return fails_once

    for name in failures:
        monkeypatch.setattr(SendBack, name, failing_once(name))
    monkeypatch.setattr(tasks, "RESTART_MS_MIN", 1)


async def test_a_message_whose_send_back_dies_comes_again_and_this_is_told(dying, caplog):
    shelf, listener = Shelf(count=2), Answers(lambda message: SUCCESS if message.reconsume_times else LATER)
    async with consuming(shelf, listener, consume_thread_max=1):
        await until(lambda: shelf.committed == 2)
    assert sorted(listener.seen) == [(0, 0), (0, 1), (1, 0)]
    assert "a fault of send_back" in caplog.text


async def test_a_call_that_takes_too_long_and_whose_send_back_dies_is_sent_back_again(dying, caplog):
    shelf, listener = Shelf(count=1), Held()
    async with consuming(shelf, listener, consume_timeout=20) as (_, broker):
        await until(lambda: sent_back(broker) == [(0, "3")])
        await until(lambda: shelf.committed == 1)
        listener.end()
    assert "a fault of send_back" in caplog.text


@pytest.mark.parametrize("orderly", [False, True])
async def test_an_unreadable_message_whose_handing_on_dies_is_handed_on_again(dying, caplog, orderly):
    shelf = Shelf()
    shelf.put_unreadable()
    shelf.put()
    async with consuming(shelf, Answers(), consume_orderly=orderly, suspend_current_queue_time_millis=10) as (
            _, broker):
        await until(lambda: shelf.committed == 2)
    assert [offset for offset, _ in sent_back(broker)] == [0]
    assert "a fault of hand_on" in caplog.text


async def test_dead_letters_that_were_stored_before_one_died_are_not_stored_again(dying):
    shelf = Shelf(count=2)
    sent = []
    send = shelf.send
    shelf.send = lambda command: sent.append(command) or send(command)
    async with consuming(shelf, Answers(lambda message: LATER), consume_orderly=True, max_reconsume_times=0,
                         share_max_reconsume_times=False, consume_message_batch_max_size=2,
                         suspend_current_queue_time_millis=10):
        await until(lambda: shelf.committed == 2)
    assert len(sent) == 2
