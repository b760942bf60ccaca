"""Pulling one queue: pauses, wake-ups and refusals, against a scripted broker."""

import asyncio
import itertools
import threading
from types import SimpleNamespace

import pytest

from regulus.client.config import ClientConfig, PushConsumerConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming.queue_puller import NOTHING_NEW_PAUSE_MS, QueuePuller
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.core.received import prepare_what_fits
from regulus.model import sys_flag as flags
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire import compression, message_batch
from regulus.wire.bodies import SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import refused, scripted_cluster
from tests.waiting import until

QUEUE = MessageQueue("T", "a", 0)


class Locked(OwnedQueue):
    """Its lock is what the test says."""

    __slots__ = ("has_lock",)

    def is_locked(self, now_ms):
        return self.has_lock


class Consumer:
    """The consumer's side of a puller: keeps what it gets."""

    def __init__(self, **settings):
        self.group = "CG"
        self.config = PushConsumerConfig(**{"pull_time_delay_when_exception": 5, **settings})
        self.is_suspended = False
        self.flow_limits = FlowLimits(count_max=3)
        self.moves = []
        self.got = []
        self.unreadable = {}

    def subscription(self, topic):
        return SubscriptionData.compile(topic, "A || B", 77)

    def statistics(self, topic):
        return TopicStatistics()

    def limits(self, topic):
        return self.flow_limits

    def pulled(self, owned, messages, unreadable, next_offset):
        self.got += owned.pulled(messages, next_offset)
        self.unreadable.update(unreadable)

    def moved(self, owned, offset, is_reset):
        owned.give_up()
        self.moves.append((offset, is_reset))


def found(command, count, tags="A"):
    start = int(command.ext["queueOffset"])
    body = b"".join(message_record.encode(MessageExt("T", b"x", {"TAGS": tags}, queue_offset=offset))
                    for offset in range(start, start + count))
    return placed(command, ResponseCode.SUCCESS, start + count, body)


def placed(command, code, next_offset, body=b""):
    return command.response(code, ext={"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "100",
                                       "suggestWhichBrokerId": "0"}, body=body)


@pytest.fixture
async def pulling():
    """Starts a puller whose pulls are answered by a script; gives (consumer, taking, puller, pulls so far)."""
    started = []
    async with scripted_cluster(queue_count=1) as cluster:
        async def start(script, consumer=None, offset=0, commit=0, has_lock=True, broker_id=0, slave=None):
            def others_of(script):
                return lambda command: script(command) if command.code == RequestCode.PULL_MESSAGE else (
                    command.response(0))
            broker = await cluster.add_broker("a", others=others_of(script))
            if slave is not None:
                await cluster.add_slave("a", others=others_of(slave))
            cluster.broker_id = broker_id
            instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
            consumer = consumer or Consumer()
            owned = Locked(QUEUE, offset, 0)
            owned.has_lock = has_lock
            owned.commit_offset = commit
            puller = QueuePuller(consumer, consumer, instance, owned)
            task = asyncio.ensure_future(puller.run())
            started.append((task, instance))
            return SimpleNamespace(consumer=consumer, owned=owned, puller=puller, task=task, instance=instance,
                                   address=broker.address,
                                   pulls=lambda: broker.requests_of(RequestCode.PULL_MESSAGE))
        yield start
        for task, instance in started:
            task.cancel()
            await asyncio.wait([task])
            await client_instance.release(instance)


async def test_a_pull_says_who_what_and_where(pulling):
    run = await pulling(lambda command: None, offset=7, commit=4)
    await until(run.pulls)
    assert run.pulls()[0].ext == {
        "consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "7", "maxMsgNums": "32", "sysFlag": "2",
        "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "77", "expressionType": "TAG", "bname": "a"}


async def test_with_post_subscription_the_expression_travels_too(pulling):
    run = await pulling(lambda command: None, Consumer(post_subscription_when_pull=True))
    await until(run.pulls)
    assert (run.pulls()[0].ext["subscription"], run.pulls()[0].ext["sysFlag"]) == ("A || B", "6")


async def test_above_a_limit_it_pauses_and_goes_on_when_there_is_room(pulling):
    run = await pulling(lambda command: found(command, 2) if int(command.ext["queueOffset"]) < 6 else None)
    await until(lambda: run.owned.is_full)
    assert run.consumer.limits("T").exceeded(run.owned.cache) == "count"
    assert len(run.pulls()) == 2
    run.owned.finished(run.consumer.got[:2])
    run.puller.has_room()
    await until(lambda: len(run.pulls()) >= 3)
    assert run.pulls()[2].ext["queueOffset"] == "4"


def batches(*counts, tags="A"):
    """Answers from a queue of inner batches of so many messages: whole records, from the one that has the offset on."""
    def script(command):
        start, base, body, next_offset = int(command.ext["queueOffset"]), 0, b"", 0
        for count in counts:
            if base + count > start:
                inner = message_batch.encode([Message("T", b"%d" % (base + index), tags) for index in range(count)])
                body += message_record.encode(MessageExt("T", inner, {"INNER_NUM": str(count)}, sys_flag=0xC0,
                                                         queue_offset=base))
                next_offset = base + count
            base += count
        return placed(command, ResponseCode.SUCCESS, next_offset, body) if body else None
    return script


async def test_a_record_with_a_whole_batch_gives_its_messages(pulling):
    run = await pulling(batches(2, 1))
    await until(lambda: len(run.consumer.got) == 3)
    assert [(each.queue_offset, each.body) for each in run.consumer.got] == [(0, b"0"), (1, b"1"), (2, b"2")]
    run.owned.finished(run.consumer.got)
    assert run.owned.commit_offset == 3


async def test_of_a_batch_in_whose_midst_the_group_stands_what_it_has_consumed_is_left_out(pulling):
    run = await pulling(batches(3, 2), offset=2)
    await until(lambda: len(run.consumer.got) == 3)
    assert [each.queue_offset for each in run.consumer.got] == [2, 3, 4]


async def test_nor_does_it_come_again_before_a_batch_that_cannot_be_taken_apart(pulling):
    inner = message_batch.encode([Message("T", b"%d" % n, "A") for n in range(3)])
    whole = message_record.encode(MessageExt("T", inner, {"INNER_NUM": "3"}, sys_flag=0xC0))
    torn = message_record.encode(MessageExt("T", b"torn", {"INNER_NUM": "2"}, sys_flag=0xC0, queue_offset=3))

    def script(command):
        start = int(command.ext["queueOffset"])
        return placed(command, ResponseCode.SUCCESS, 5, whole + torn if start < 3 else torn) if start < 5 else None
    run = await pulling(script, offset=2)
    await until(lambda: run.owned.next_offset == 5)
    assert [each.queue_offset for each in run.consumer.got] == [2, 3]
    assert run.consumer.unreadable.keys() == {3}


async def test_a_batch_before_a_record_that_cannot_be_read_comes_once(pulling):
    good = batches(3)
    bad = b"\0\0\0\x64no record"

    def script(command):
        answer, start = good(command), int(command.ext["queueOffset"])
        if start < 3:
            answer.body += bad
            return answer
        return placed(command, ResponseCode.SUCCESS, 4, bad) if start < 4 else None
    run = await pulling(script)
    await until(lambda: len(run.pulls()) >= 2)
    assert [each.queue_offset for each in run.consumer.got] == [0, 1, 2]
    assert [pull.ext["queueOffset"] for pull in run.pulls()[:2]] == ["0", "3"]


@pytest.mark.parametrize("said", ["1", "9", "no number"])
@pytest.mark.parametrize("before", [0, 2])
async def test_a_batch_that_does_not_say_where_it_ends_comes_once_before_a_record_that_cannot_be_read(
        pulling, said, before):
    """No checksum covers what it says: by that the pulls went back to it, or past what lies behind. A broker knows."""
    inner = message_batch.encode([Message("T", b"x", "A")] * 3)
    records = [message_record.encode(MessageExt("T", b"x", {"TAGS": "A"}, queue_offset=number))
               for number in range(before)]
    records.append(message_record.encode(MessageExt("T", inner, {"INNER_NUM": said}, sys_flag=0xC0,
                                                    queue_offset=before)))
    bases = [*range(before), before, before + 3, before + 4]
    records.append(b"\0\0\0\x64no record")

    def script(command):
        start = int(command.ext["queueOffset"])
        if start == before + 4:
            return None
        first = max(number for number, base in enumerate(bases) if base <= start)
        found = records[first:first + int(command.ext["maxMsgNums"])]
        return placed(command, ResponseCode.SUCCESS, bases[first + len(found)], b"".join(found))
    consumer = Consumer()
    object.__setattr__(consumer.config, "pull_time_delay_when_exception", 1)
    run = await pulling(script, consumer)
    await until(lambda: run.owned.next_offset == before + 4)
    assert [each.queue_offset for each in run.consumer.got] == [*range(before), before, before + 3]
    assert run.consumer.unreadable.keys() == {before, before + 3}


async def test_messages_with_other_tags_are_passed(pulling):
    run = await pulling(lambda command: found(command, 3, tags="C") if command.ext["queueOffset"] == "0" else None)
    await until(lambda: len(run.pulls()) == 2)
    assert run.owned.commit_offset == 3
    assert run.consumer.got == []


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_when_nothing_is_found_it_pulls_on_behind_at_once(pulling, code):
    run = await pulling(lambda command: placed(command, code, 5) if command.ext["queueOffset"] == "0" else None)
    await until(lambda: len(run.pulls()) == 2)
    assert run.pulls()[1].ext["queueOffset"] == "5"
    assert run.owned.commit_offset == 5


@pytest.mark.parametrize("remark", ["OFFSET_RESET", "OFFSET_TOO_SMALL"])
async def test_a_moved_offset_is_told_and_why(pulling, remark, caplog):
    caplog.set_level("INFO", "regulus.client.consuming.queue_puller")

    def moved(command):
        answer = placed(command, ResponseCode.PULL_OFFSET_MOVED, 9)
        answer.remark = remark
        return answer
    run = await pulling(moved)
    await until(run.task.done)
    assert run.consumer.moves == [(9, remark == "OFFSET_RESET")]
    assert len(run.pulls()) == 1
    (record,) = caplog.records
    assert (record.levelname, "out of range" in record.message) == (
        ("INFO", False) if remark == "OFFSET_RESET" else ("WARNING", True))


async def test_an_offset_that_moves_to_where_it_is_makes_no_storm_of_pulls(pulling):
    class Stays(Consumer):
        def moved(self, owned, offset, is_reset):
            self.moves.append(offset)

    consumer = Stays(pull_time_delay_when_exception=60_000)
    run = await pulling(lambda command: placed(command, ResponseCode.PULL_OFFSET_MOVED, 9), consumer, offset=9)
    await until(lambda: consumer.moves)
    for _ in range(200):    # turns of the loop, enough for many pulls
        await asyncio.sleep(0)
    assert len(run.pulls()) == 1


async def test_a_topic_that_is_gone_begins_at_its_first_message_when_it_is_made_anew(pulling, caplog):
    run = await pulling(lambda command: refused(command, ResponseCode.TOPIC_NOT_EXIST), offset=9)
    await until(run.task.done)
    assert run.consumer.moves == [(0, True)]
    assert len(run.pulls()) == 1
    assert "does not exist any more" in caplog.text


async def test_a_topic_that_never_was_there_moves_nothing(pulling):
    run = await pulling(lambda command: refused(command, ResponseCode.TOPIC_NOT_EXIST))
    await until(lambda: len(run.pulls()) == 2)
    assert run.consumer.moves == []


async def test_a_replica_is_not_believed_that_a_topic_is_gone(pulling):
    """It may not have heard of it yet, and while its master is away nobody can tell."""
    run = await pulling(lambda command: refused(command, ResponseCode.TOPIC_NOT_EXIST), offset=9, broker_id=1)
    await until(lambda: len(run.pulls()) == 2)
    assert run.consumer.moves == []


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_NOT_EXIST,
                                  ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_BUSY])
async def test_a_refused_pull_is_repeated_after_a_pause(pulling, code):
    run = await pulling(lambda command: refused(command, code))
    await until(lambda: len(run.pulls()) >= 3)
    assert {pull.ext["queueOffset"] for pull in run.pulls()} == {"0"}


async def test_a_queue_that_its_broker_refuses_is_told_once_and_counts_as_blocked_until_it_goes_on(pulling, caplog):
    is_damaged = True

    def script(command):
        if is_damaged:
            return command.response(ResponseCode.SYSTEM_ERROR, "the record at 4711 is damaged")
        return found(command, 1) if command.ext["queueOffset"] == "7" else None

    run = await pulling(script, offset=7)
    await until(lambda: len(run.pulls()) >= 4)
    (told,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "offset 7" in told
    assert "4711" in told
    assert run.owned.is_refused
    is_damaged = False
    await until(lambda: run.consumer.got)
    assert not run.owned.is_refused


async def test_a_record_that_cannot_be_read_is_pulled_alone_and_then_its_bytes_are_handed_on(pulling, caplog):
    good, behind = (message_record.encode(MessageExt("T", b"x", {"TAGS": "A"}, queue_offset=offset))
                    for offset in (0, 9))
    bad = b"\0\0\0\x64no record"

    def others_are_well(command):
        start, count = int(command.ext["queueOffset"]), int(command.ext["maxMsgNums"])
        if start == 0:
            return placed(command, ResponseCode.SUCCESS, 10, good + bad + behind)
        if start <= 8:
            return placed(command, ResponseCode.SUCCESS, 9 if count == 1 else 10, bad if count == 1 else bad + behind)
        return placed(command, ResponseCode.SUCCESS, 10, behind) if start == 9 else None

    run = await pulling(others_are_well)
    await until(lambda: len(run.pulls()) >= 7)
    assert [(each.queue_offset, each.body) for each in run.consumer.got] == [(0, b"x"), (8, bad), (9, b"x")]
    assert run.consumer.unreadable.keys() == {8}
    asked = [(pull.ext["queueOffset"], pull.ext["maxMsgNums"]) for pull in run.pulls()]
    assert asked[:7] == [("0", "32"), ("1", "32"), ("1", "1"), ("1", "1"), ("1", "1"), ("9", "32"), ("10", "32")]
    assert "cannot be read" in caplog.text


async def test_a_record_that_was_damaged_on_its_way_is_read_the_next_time(pulling):
    answers = [b"\0\0\0\x64damaged"]

    def script(command):
        if answers:
            return placed(command, ResponseCode.SUCCESS, 1, answers.pop())
        return found(command, 1) if command.ext["queueOffset"] == "0" else None
    run = await pulling(script)
    await until(lambda: run.consumer.got)
    assert [message.body for message in run.consumer.got] == [b"x"]
    assert run.consumer.unreadable == {}


def packed(command, sizes):
    """All messages from the one asked for on; message n unpacks to sizes[n] bytes."""
    start = int(command.ext["queueOffset"])
    if start == len(sizes):
        return None
    bits = flags.COMPRESSION_ZLIB
    body = b"".join(message_record.encode(MessageExt(
        "T", compression.compress(bytes(size), bits), {"TAGS": "A"}, queue_offset=offset,
        sys_flag=flags.COMPRESSED | bits)) for offset, size in enumerate(sizes) if offset >= start)
    return placed(command, ResponseCode.SUCCESS, len(sizes), body)


async def test_what_finds_no_room_once_unpacked_is_pulled_again_when_there_is_some(pulling):
    consumer = Consumer()
    consumer.flow_limits = FlowLimits(size_max_mib=1)
    run = await pulling(lambda command: packed(command, [1 << 20] * 5), consumer)
    await until(lambda: run.owned.is_full)
    assert [each.queue_offset for each in consumer.got] == [0, 1]
    assert run.owned.next_offset == 2
    while len(consumer.got) < 5:
        run.owned.finished(consumer.got)
        run.puller.has_room()
        await asyncio.sleep(0.001)
    assert [(each.queue_offset, len(each.body)) for each in consumer.got] == [(n, 1 << 20) for n in range(5)]
    await until(lambda: run.pulls()[-1].ext["queueOffset"] == "5")
    assert [pull.ext["queueOffset"] for pull in run.pulls()] == ["0", "2", "4", "5"]


async def test_nothing_waits_to_be_unpacked_behind_the_threads_of_the_application(pulling):
    may_end = threading.Event()
    busy = [asyncio.get_running_loop().run_in_executor(None, may_end.wait, 20) for _ in range(40)]
    run = await pulling(lambda command: packed(command, [10]))
    await until(lambda: run.consumer.got)
    assert not may_end.is_set()
    may_end.set()
    await asyncio.gather(*busy)


async def test_what_is_unpacked_when_the_queue_was_given_up_counts_for_nothing(pulling, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*parts):
        begun.set()
        assert go_on.wait(60)
        return prepare_what_fits(*parts)

    monkeypatch.setattr("regulus.client.consuming.queue_puller.prepare_what_fits", slowly)
    run = await pulling(lambda command: packed(command, [10]))
    await until(begun.is_set)
    run.owned.give_up()
    go_on.set()
    await asyncio.wait_for(run.task, 10)
    assert run.consumer.got == []


async def test_without_its_lock_a_queue_is_not_pulled(pulling):
    run = await pulling(lambda command: None, has_lock=False)
    await asyncio.sleep(0.02)
    assert run.pulls() == []
    run.owned.has_lock = True
    await until(run.pulls)


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND,
                                  ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_answers_that_bring_nothing_and_come_at_once_are_not_asked_for_as_fast_as_they_come(pulling, code):
    at = []

    def script(command):
        at.append(asyncio.get_running_loop().time())
        return placed(command, code, int(command.ext["queueOffset"]))

    run = await pulling(script)
    await until(lambda: len(run.pulls()) > 3)
    assert all(later - earlier > 0.9 * NOTHING_NEW_PAUSE_MS / 1000 for earlier, later in itertools.pairwise(at))


async def test_while_its_master_stands_still_a_queue_is_read_from_the_slave(pulling):
    """Its connection is open, and the name servers will know it for two minutes more."""
    asked = {0: 0, 1: 0}
    has_resumed = False

    def script_of(broker_id):
        def script(command):
            asked[broker_id] += 1
            if broker_id == 0 and not has_resumed:
                return None
            return found(command, 1) if int(command.ext["queueOffset"]) < 3 else placed(
                command, ResponseCode.PULL_NOT_FOUND, int(command.ext["queueOffset"]))
        return script

    consumer = Consumer()
    object.__setattr__(consumer.config, "consumer_timeout_when_suspend", 50)
    run = await pulling(script_of(0), consumer, slave=script_of(1))
    await until(lambda: len(run.consumer.got) == 3)
    assert asked[0] == 1        # the slave's answers name the master, which is not asked all the same
    has_resumed = True
    await run.instance.request(run.address, RemotingCommand.request(RequestCode.HEART_BEAT))    # as heartbeats do
    before = asked[0]
    await until(lambda: asked[0] > before)


async def test_where_both_stand_still_the_master_is_asked(pulling):
    asked = []

    def script_of(broker_id):
        return lambda command: asked.append(broker_id)

    consumer = Consumer()
    object.__setattr__(consumer.config, "consumer_timeout_when_suspend", 50)
    await pulling(script_of(0), consumer, slave=script_of(1))
    await until(lambda: len(asked) >= 4)
    assert asked[:4] == [0, 1, 0, 0]


async def test_where_to_read_is_what_the_last_answer_says(pulling):
    """As RocketMQ's client does, also where an offset has moved; and a slave that does not answer is asked no more."""
    asked = []
    codes = {0: ResponseCode.PULL_NOT_FOUND, 2: ResponseCode.PULL_RETRY_IMMEDIATELY, 3: ResponseCode.PULL_OFFSET_MOVED}

    def script(command):
        asked.append(run.puller._broker_id)
        if len(asked) == 2:
            return None
        answer = placed(command, codes[len(asked) - 1], len(asked))
        answer.ext["suggestWhichBrokerId"] = str(len(asked))
        return answer

    run = SimpleNamespace(puller=SimpleNamespace(_broker_id=0))
    consumer = Consumer()
    object.__setattr__(consumer.config, "consumer_timeout_when_suspend", 50)    # longer than any hold, by its check
    run = await pulling(script, consumer)
    await until(lambda: run.consumer.moves)
    assert asked[1:] == [1, 0, 3]
    assert run.puller._broker_id == 4
