"""Sends that failed for good: kept on the disk, sent again in order, given up and told."""

import asyncio
import logging
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager, contextmanager
from unittest import mock

import pytest

from regulus.client import sync
from regulus.client.administration.admin import Admin
from regulus.client.config import KeptSendsConfig, ProducerConfig
from regulus.client.connecting.client_instance import now_ms
from regulus.client.sending.failed_sends import FailedSend
from regulus.client.sending.file_claim import FileClaim
from regulus.client.sending.kept_file import KeptFile, NewSend, encode
from regulus.client.sending.kept_sends import KeptSends
from regulus.client.sending.producer import Producer
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientClosed,
    ConfigError,
    ConnectRefused,
    KeptFileUnusable,
    MessageIllegal,
    RequestTimeout,
    SendFailed,
    SendKept,
    SendNotKept,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from tests.waiting import until

QUICK = KeptSendsConfig(rest_ms=10, away_rest_ms_max=50, poll_ms=10, tell_ms=10)
SLOW = KeptSendsConfig(rest_ms=3_600_000, rest_ms_max=3_600_000, away_rest_ms_max=3_600_000)
AWAY = ConnectRefused("nobody listens")
NO_TIME = ProducerConfig(send_msg_timeout=100)
PATIENT = ProducerConfig(send_msg_timeout=60_000)
"""No answer of a busy machine comes too late, so that nothing is stored twice."""


KEPT = 1_000


def new_send(number):
    message = Message("T", b"%d" % number, properties={"UNIQ_KEY": f"U{number}"})
    return NewSend("T", None, message.message_id, 1, encode([message]), "no broker")


def failing(body, topic="T", error=AWAY, queue=None):
    return FailedSend([[Message(topic, body, properties={"UNIQ_KEY": body.decode()})]], queue, error)


class Broker:
    """Stands in for a producer's way to send: takes what comes, unless `errors` has something for it."""

    def __init__(self):
        self.got = []
        self.queues = []
        self.errors = {}
        self.is_away = False

    async def send(self, messages, queue):
        self.got.append(b"+".join(message.body for message in messages).decode())
        self.queues.append(queue)
        await asyncio.sleep(0)
        if self.is_away:
            raise AWAY
        error = self.errors.get(self.got[-1])
        if error is not None:
            raise error


@asynccontextmanager
async def started(path, broker, config=QUICK, **settings):
    kept = KeptSends(path, config, **settings)
    await kept.start(broker.send)
    try:
        yield kept
    finally:
        await kept.shutdown()


@contextmanager
def opened(path):
    file = KeptFile(path)
    try:
        yield file
    finally:
        file.close()


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept"


# --- with a broker that stops and comes back --------------------------------------------------------------------------


async def stored(server, topic, *, count):
    """The messages of the topic's only queue, which are as many at least."""
    found = []
    async with Admin(server.name_server_address) as admin, asyncio.timeout(60):
        while (pulled := await admin.pull(MessageQueue(topic, "broker-a", 0), len(found))).messages \
                or len(found) < count:
            found += pulled.messages
        return found


async def create(server, topic):
    async with Admin(server.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))


async def test_what_fails_while_the_broker_is_away_is_stored_in_order_once_it_is_back(broker_process, path):
    await create(broker_process, "T")
    kept = KeptSends(path, QUICK)
    async with Producer(broker_process.name_server_address, "PG", PATIENT, on_send_failed=kept) as producer:
        await producer.send(Message("T", b"before"))
        await asyncio.to_thread(broker_process.stop)
        sent = [Message("T", b"%d" % number, "tag", ["k", "l"], {"colour": "red"}, flag=5) for number in range(8)]
        for message in sent:
            with pytest.raises(SendKept, match="the send to T failed, and is kept to be sent again: ") as caught:
                await producer.send(message, timeout_ms=100)
            assert caught.value.code == caught.value.__cause__.code
        assert kept.status.waiting == 8
        assert kept.status.oldest_time > 0
        await asyncio.to_thread(broker_process.start)
        _, *found = await stored(broker_process, "T", count=9)
        await until(lambda: not kept.status.waiting)
    assert [message.body for message in found] == [b"%d" % number for number in range(8)]
    assert [message.message_id for message in found] == [message.message_id for message in sent]
    assert {(message.tags, message.keys, message.properties["colour"], message.flag) for message in found} == {
        ("tag", "k l", "red", 5)}


def keep_in_another_process(server, path, config):
    """A program that sends to nobody, and is killed once its sends are kept."""
    program = f"""
        import os, signal
        from regulus import Message, ProducerConfig
        from regulus.client.config import KeptSendsConfig
        from regulus.client.sending.kept_sends import KeptSends
        from regulus.client.sync import Producer
        from regulus.errors import SendKept

        producer = Producer("{server.name_server_address}", "PG", ProducerConfig(send_msg_timeout=100),
                            on_send_failed=KeptSends("{path}", {config}))
        producer.start()
        for number in range(4):
            try:
                producer.send(Message("T", b"%d" % number, properties={{"DELAY": "1"}} if number == 3 else None))
            except SendKept as error:
                print(number, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "1", "2", "3"], done.stderr


async def test_the_next_process_sends_what_a_killed_one_has_kept(broker_process, path):
    await create(broker_process, "T")
    await asyncio.to_thread(broker_process.stop)
    await asyncio.to_thread(keep_in_another_process, broker_process, path, "KeptSendsConfig()")
    with opened(path) as file:
        ids = [send.message_id for send in file.sends(9)]
    await asyncio.to_thread(broker_process.start)
    begun = int(asyncio.get_running_loop().time() * 1000)
    async with Producer(broker_process.name_server_address, "PG", PATIENT,
                        on_send_failed=KeptSends(path, QUICK)):
        found = await stored(broker_process, "T", count=4)
        is_late = asyncio.get_running_loop().time() * 1000 - begun
    assert [message.body for message in found] == [b"0", b"1", b"2", b"3"]
    assert [message.message_id for message in found] == ids
    assert is_late >= 1000, "the last one has a delay of a second"


async def test_a_sender_that_is_killed_leaves_the_rest_to_the_next_and_doubles_one_at_most(broker_process, path):
    await create(broker_process, "T")
    program = f"""
        import time
        from regulus import KeptSends, ProducerConfig
        from regulus.client.sync import Producer

        with Producer("{broker_process.name_server_address}", "PG", ProducerConfig(send_msg_timeout=60_000),
                      on_send_failed=KeptSends("{path}")):
            time.sleep(60)
    """
    with opened(path) as file:
        file.add([[new_send(number)] for number in range(KEPT)], QUICK, now_ms())
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)]) as sender:
            await until(lambda: file.status().waiting < KEPT - 5)
            sender.kill()
        left = file.status().waiting
    assert 0 < left < KEPT
    kept = KeptSends(path, QUICK)
    async with Producer(broker_process.name_server_address, "PG", PATIENT, on_send_failed=kept):
        await until(lambda: not kept.status.waiting)
    bodies = [int(message.body) for message in await stored(broker_process, "T", count=KEPT)]
    next_one = KEPT - left      # when the sender was killed, its answer may have been on its way
    assert bodies in ([*range(KEPT)], [*range(next_one + 1), *range(next_one, KEPT)])


def test_with_the_blocking_client_too(broker_process, path):
    kept = KeptSends(path, QUICK)
    with sync.Producer(broker_process.name_server_address, "PG", PATIENT, on_send_failed=kept) as producer:
        producer.send(Message("T", b"before"))
        broker_process.stop()
        futures = [producer.send_async(Message("T", b"%d" % number), timeout_ms=100) for number in range(3)]
        for future in futures:
            with pytest.raises(SendKept):
                future.result(60)
        broker_process.start()
        asyncio.run(until(lambda: not kept.status.waiting))
        with sync.Admin(broker_process.name_server_address) as admin:
            assert sum(offset.max_offset for offset in admin.topic_stats("T").values()) == 4


async def test_a_delay_goes_on_while_its_message_is_kept(path):
    """A reminder in an hour comes in an hour, and not an hour after the end of an outage of a day."""
    got = []

    async def send(messages, queue):
        got.extend(messages)

    kept = KeptSends(path, QUICK)
    await kept.start(send)
    try:
        before = now_ms()
        timed = Message("T", b"x", properties={"UNIQ_KEY": "U", "TIMER_DELAY_MS": "3600000"})
        assert await kept(FailedSend([[timed]], None, AWAY))
        after = now_ms()
        await until(lambda: got)
    finally:
        await kept.shutdown()
    [sent] = got
    assert before + 3_600_000 <= int(sent.properties.pop("TIMER_DELIVER_MS")) <= after + 3_600_000
    assert sent.properties == {"UNIQ_KEY": "U"}


# --- order ------------------------------------------------------------------------------------------------------------


async def test_nothing_overtakes_what_fails_and_each_topic_has_an_order_of_its_own(path, broker):
    broker.errors["2"] = RequestTimeout("no answer")
    async with started(path, broker) as kept:
        for body in (b"1", b"2", b"3"):
            await kept(failing(body))
        await kept(failing(b"other", "U"))
        await until(lambda: broker.got.count("2") >= 3 and "other" in broker.got)
        assert "3" not in broker.got
        del broker.errors["2"]
        await until(lambda: not kept.status.waiting)
    of_topic = [body for body in broker.got if body != "other"]
    assert of_topic[0] == "1"
    assert of_topic[-1] == "3"
    assert set(of_topic[1:-1]) == {"2"}


async def test_a_chosen_queue_whose_broker_is_away_holds_nothing_else_back(path, broker):
    broker.errors["1"] = AWAY
    async with started(path, broker) as kept:
        for body, queue_id in ((b"1", 0), (b"2", 1), (b"3", 0)):
            await kept(failing(body, queue=MessageQueue("T", "broker-a", queue_id)))
        await kept(failing(b"4"))
        await until(lambda: {"2", "4"} <= set(broker.got))
        assert "3" not in broker.got
        assert kept.status.waiting >= 2


async def test_sends_that_fail_together_are_kept_in_their_order(path, broker):
    broker.is_away = True
    async with started(path, broker, SLOW) as kept:
        assert await asyncio.gather(*(kept(failing(b"%d" % number)) for number in range(200))) == [True] * 200
    with opened(path) as file:
        assert [send.message_id for send in file.sends(999)] == [str(number) for number in range(200)]


async def test_a_batch_is_sent_again_as_one_and_to_the_queue_that_was_chosen(path, broker):
    queue = MessageQueue("T", "broker-a", 2)
    async with started(path, broker) as kept:
        await kept(FailedSend([[Message("T", b"1"), Message("T", b"2")], [Message("T", b"3")]], queue, AWAY))
        await until(lambda: not kept.status.waiting)
    assert broker.got == ["1+2", "3"]
    assert broker.queues == [queue, queue]


# --- bounds -----------------------------------------------------------------------------------------------------------


async def test_a_full_file_refuses_and_says_what_failed(path, broker):
    broker.is_away = True
    async with started(path, broker, KeptSendsConfig(sends_max=2, rest_ms=3_600_000)) as kept:
        await kept(failing(b"1"))
        await kept(failing(b"2"))
        with pytest.raises(SendNotKept, match=r"nobody listens; and it is not kept in .*kept: it holds 2 sends of 2 "
                                              r"that sends_max allows; 0 of them are given up") as caught:
            await kept(failing(b"3"))
        assert caught.value.code == AWAY.code
        assert kept.status.waiting == 2


async def test_a_file_that_cannot_be_written_is_an_error_of_the_send(path, broker):
    async with started(path, broker, SLOW) as kept:
        with mock.patch.object(KeptFile, "add", side_effect=KeptFileUnusable("the disk is full")), \
                pytest.raises(SendNotKept, match=r"nobody listens; and it is not kept in .*: the disk is full"):
            await kept(failing(b"1"))
        assert await kept(failing(b"2"))
    with pytest.raises(SendNotKept, match="is not running"):
        await kept(failing(b"3"))


async def test_a_fault_while_a_send_is_kept_is_an_error_of_the_send_and_nobody_waits_for_ever(path, broker):
    async with started(path, broker, SLOW) as kept:
        with mock.patch.object(KeptFile, "add", side_effect=ZeroDivisionError), \
                pytest.raises(SendNotKept, match="the log says why"):
            async with asyncio.timeout(10):
                await kept(failing(b"1"))
        assert await kept(failing(b"2"))


async def test_a_producer_that_is_closed_meanwhile_gives_nothing_up_and_counts_nothing(path, broker):
    broker.errors["1"] = ClientClosed("the producer was shut down")
    async with started(path, broker, SLOW) as kept:
        await kept(failing(b"1"))
        status = await kept.send_now()
        assert (status.waiting, status.given_up) == (1, 0)
    assert broker.got == ["1"]
    with opened(path) as file:
        assert file.head("T")[0].attempts == 0


# --- attempts ---------------------------------------------------------------------------------------------------------


async def test_after_its_attempts_a_send_is_given_up_told_once_and_the_next_one_goes(path, broker, caplog):
    told = []
    broker.errors["1"] = BrokerRefused(16, "no permission")
    async with started(path, broker, KeptSendsConfig(attempts_max=3, rest_ms=1, poll_ms=1, tell_ms=1),
                       on_given_up=told.append) as kept:
        await until(lambda: told)
        for body in (b"1", b"2"):
            await kept(failing(body))
        await until(lambda: len(told) == 2)
        await asyncio.sleep(0.05)
        assert (kept.status.waiting, kept.status.given_up) == (0, 1)
    assert broker.got == ["1", "1", "1", "2"]
    assert [(each.path, each.given_up) for each in told] == [(path, 0), (path, 1)]
    assert [(send.message_id, send.attempts) for send in told[1].sends] == [("1", 3)]
    [error] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "1 sends kept in" in error
    assert "1 to T, 3 attempts, BrokerRefused: server answered 16: no permission" in error


async def test_what_the_broker_can_never_store_is_given_up_at_once(path, broker):
    broker.errors["1"] = BrokerRefused(13, "too large")
    broker.errors["2"] = MessageIllegal("too large")
    async with started(path, broker) as kept:
        for body in (b"1", b"2", b"3"):
            await kept(failing(body))
        await until(lambda: not kept.status.waiting)
        assert kept.status.given_up == 2
    assert broker.got == ["1", "2", "3"]


async def test_an_outage_uses_up_no_attempt(path, broker):
    broker.is_away = True
    async with started(path, broker, KeptSendsConfig(attempts_max=1, rest_ms=1, away_rest_ms_max=1, poll_ms=1)) as kept:
        await kept(failing(b"1"))
        await until(lambda: len(broker.got) > 5)
        broker.is_away = False
        await until(lambda: not kept.status.waiting)
        assert kept.status.given_up == 0


async def test_what_is_too_old_is_given_up_after_a_last_try(path, broker):
    broker.is_away = True
    async with started(path, broker, SLOW) as kept:
        for body in (b"1", b"2"):
            await kept(failing(body))
    config = KeptSendsConfig(age_max_ms=1, rest_ms=1, away_rest_ms_max=1, poll_ms=1)
    async with started(path, broker, config) as kept:
        await until(lambda: kept.status.given_up == 2)
    assert broker.got == ["1"]


async def test_an_answer_that_cannot_be_read_is_not_answered_with_another_copy(path, broker):
    error = SendFailed(topic="T", attempts=1, elapsed_ms=1, brokers=("a",), cause=None)
    error.__cause__ = AnswerUnreadable("no queue offset")
    broker.errors["1"] = error
    async with started(path, broker) as kept:
        await kept(failing(b"1"))
        await until(lambda: not kept.status.waiting)
        assert kept.status.given_up == 0
    assert broker.got == ["1"]


async def test_a_process_that_starts_again_and_again_uses_up_no_attempts(path, broker):
    broker.errors["1"] = BrokerRefused(16, "no permission")
    patient = KeptSendsConfig(rest_ms=3_600_000, rest_ms_max=3_600_000, away_rest_ms_max=1, poll_ms=1)
    async with started(path, broker, SLOW) as kept:
        await kept(failing(b"1"))
    for _ in range(3):
        async with started(path, broker, patient) as kept:
            await until(lambda: broker.got)
            await asyncio.sleep(0.02)
    assert broker.got == ["1"]


async def test_what_is_stored_and_not_removed_yet_is_removed_before_anything_is_sent(path, broker):
    remove, failures = KeptFile.remove, [KeptFileUnusable("the disk is full"), KeptFileUnusable("still")]

    def removes(file, send_ids):
        if failures:
            raise failures.pop()
        return remove(file, send_ids)

    with mock.patch.object(KeptFile, "remove", removes), mock.patch("regulus.client.tasks.RESTART_MS_MIN", 1):
        async with started(path, broker) as kept:
            await kept(failing(b"1"))
            await kept(failing(b"2"))
            await until(lambda: not kept.status.waiting)
    assert broker.got == ["1", "2"]


# --- telling ----------------------------------------------------------------------------------------------------------


async def test_who_is_told_and_raises_is_told_again_and_of_the_end_too(path, broker, caplog):
    told = []

    async def on_given_up(given_up):
        told.append(given_up.given_up)
        if told == [0, 1]:
            raise ValueError("no database")

    broker.errors["1"] = MessageIllegal("too large")
    async with started(path, broker, on_given_up=on_given_up) as kept:
        await until(lambda: told)
        await kept(failing(b"1"))
        await until(lambda: told == [0, 1, 1])
        with opened(path) as file:
            assert file.remove([1]) == 1
        await until(lambda: told == [0, 1, 1, 0])
    assert "on_given_up" in caplog.text


# --- several processes ------------------------------------------------------------------------------------------------


async def test_of_two_on_one_file_one_sends_for_both_and_the_other_goes_on_when_it_ends(path):
    first, second = Broker(), Broker()
    async with started(path, second) as waiting:
        await waiting(failing(b"1"))
        await until(lambda: second.got == ["1"])
        async with started(path, first) as keeping:
            await keeping(failing(b"2"))
            await until(lambda: second.got == ["1", "2"] and not keeping.status.waiting)
            await waiting.shutdown()
            await keeping(failing(b"3"))
            await until(lambda: first.got == ["3"])


async def test_sends_under_way_are_not_sent_by_another(path, broker):
    claim = FileClaim(path)
    assert claim.take()
    async with started(path, broker) as kept:
        await kept(failing(b"1"))
        assert await kept.send_now() is None
        assert broker.got == []
        claim.release()
        await until(lambda: not kept.status.waiting)
    assert broker.got == ["1"]


async def test_two_at_once_in_one_process_send_each_once(path, broker):
    broker.is_away = True
    async with started(path, broker, SLOW) as kept:
        for number in range(20):
            await kept(failing(b"%d" % number))
        broker.is_away = False
        statuses = await asyncio.gather(kept.send_now(), kept.send_now())
    assert [status.waiting for status in statuses] == [0, 0]
    assert sorted(broker.got, key=int) == [str(number) for number in range(20)]


# --- SIGKILL ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_kill_loses_nothing_that_was_said_to_be_kept(path, after):
    program = f"""
        import asyncio
        from regulus.client.sending.failed_sends import FailedSend
        from regulus.client.sending.kept_sends import KeptSends
        from regulus.errors import ConnectRefused
        from regulus.model.message import Message

        async def nobody(messages, queue):
            raise ConnectRefused("nobody")

        async def main():
            kept = KeptSends("{path}")
            await kept.start(nobody)

            async def keep(number):
                message = Message("T", b"x" * 1000, properties={{"UNIQ_KEY": str(number)}})
                await kept(FailedSend([[message]], None, ConnectRefused("nobody")))
                print(number, flush=True)

            for first in range(0, 1000, 4):
                await asyncio.gather(*map(keep, range(first, first + 4)))

        asyncio.run(main())
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE,
                          text=True) as process:
        said = [process.stdout.readline().strip() for _ in range(after)]
        process.kill()
        said += process.stdout.read().split("\n")[:-1]
    with opened(path) as file:
        kept = [send.message_id for send in file.sends(1000)]
    assert len(said) >= after
    assert set(said) <= set(kept)
    assert kept == [str(number) for number in range(len(kept))]


# --- life -------------------------------------------------------------------------------------------------------------


async def test_a_start_that_fails_leaves_the_producer_unstarted(path):
    path.mkdir()
    producer = Producer("127.0.0.1:1", "PG", NO_TIME, on_send_failed=KeptSends(path))
    for _ in range(2):
        with pytest.raises(KeptFileUnusable):
            await producer.start()
    path.rmdir()
    async with producer:
        with pytest.raises(SendKept) as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == caught.value.__cause__.code
    async with producer:    # once more
        with pytest.raises(SendKept):
            await producer.send(Message("T", b"x"))


async def test_it_belongs_to_one_producer(path):
    kept = KeptSends(path)
    async with Producer("127.0.0.1:1", "PG", on_send_failed=kept):
        with pytest.raises(ConfigError, match="is another producer's"):
            await Producer("127.0.0.1:1", "PG2", on_send_failed=kept).start()


async def test_a_send_without_a_broker_has_its_key_when_it_is_kept(path):
    async with Producer("127.0.0.1:1", "PG", NO_TIME, on_send_failed=KeptSends(path, SLOW)) as producer:
        message = Message("T", b"x")
        with pytest.raises(SendKept):
            await producer.send(message)
    with opened(path) as file:
        [send] = file.sends(9)
        assert send.message_id == message.message_id
        assert len(send.message_id) == 32
        assert message.message_id.encode() in file.head("T")[1]
