"""Sending failed messages back, and the way round when a broker does not take them."""

import asyncio
import logging

import pytest

from regulus.client.config import PushConsumerConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming import send_back as sending
from regulus.client.consuming.group_retry_limit import RetryLimit
from regulus.client.consuming.send_back import SendBack
from regulus.client.core.listener_cause import NO_CAUSE
from regulus.model.failure_causes import Cause
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.message_queue import MessageQueue
from regulus.model.sys_flag import INNER_BATCH
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers.send_message import decode_send_message_request
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time

QUEUE = MessageQueue("T", "a", 0)


def message():
    return MessageExt("T", b"x", {"UNIQ_KEY": "U"}, store_host=host_bytes("127.0.0.1", 10911), physical_offset=77,
                      reconsume_times=1)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(sending, "LETTER_PAUSE_FIRST_MS", 1)
    monkeypatch.setattr(sending, "LETTER_PAUSE_MAX_MS", 1)


def answering(*codes):
    """Sends back are answered with these codes, the last one again and again."""
    left = list(codes)

    def script(command):
        if command.code != RequestCode.CONSUMER_SEND_MSG_BACK:
            return command.response(ResponseCode.SUCCESS)
        code = left.pop(0) if len(left) > 1 else left[0]
        return command.response(code, "as the test wants it")
    return script


broken = answering(ResponseCode.SYSTEM_ERROR)
too_large = answering(ResponseCode.MESSAGE_ILLEGAL)


async def dead_letter(cluster, letter=None, **settings):
    return await send_back(cluster, letter=letter or message(), **settings)


async def send_back(cluster, delay_level=0, letter=None, failed=None, reconsume_times=1,
                    is_ours=lambda: True, cause=NO_CAUSE, **settings):
    config = PushConsumerConfig(**settings)
    address = cluster.name_server.address
    instance = client_instance.acquire(address, config)
    back = SendBack(instance, address, "CG", config, RetryLimit(instance, "CG", config, lambda: ["T"]))
    failed = failed or message()
    failed.reconsume_times = reconsume_times
    if letter is not None:
        result = await back.dead_letter(letter, QUEUE, is_ours, cause)
    else:
        result = await back.send_back(failed, QUEUE, delay_level, is_ours, cause)
    await back.close()
    await client_instance.release(instance)
    return result


async def test_of_a_message_out_of_a_whole_batch_no_broker_is_asked_to_copy_its_record():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        inner = message()
        inner.sys_flag = INNER_BATCH
        assert await send_back(cluster, delay_level=5, failed=inner)
        assert await dead_letter(cluster, letter=inner)
    assert broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK) == []
    sent = [decode_send_message_request(each).topic for each in broker.requests_of(RequestCode.SEND_MESSAGE_V2)]
    assert sent == ["%RETRY%CG", "%RETRY%CG"]


async def test_the_broker_of_the_message_is_asked_to_bring_it_again():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        assert await send_back(cluster, delay_level=5)
    (request,) = broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert request.ext == {"offset": "77", "group": "CG", "delayLevel": "5", "originMsgId": "U", "originTopic": "T",
                           "unitMode": "false", "bname": "a"}


async def test_a_limit_of_this_member_travels_with_the_request():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        assert await send_back(cluster, max_reconsume_times=3)
    assert broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)[0].ext["maxReconsumeTimes"] == "3"


async def test_when_the_broker_refuses_the_message_goes_to_the_retry_topic():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        assert await send_back(cluster)
        (send,) = broker.sends()
    assert (send.topic, send.reconsume_times) == ("%RETRY%CG", 2)
    assert send.properties["RETRY_TOPIC"] == "T"
    assert send.properties["DELAY"] == "4"
    assert "RECONSUME_TIME" not in send.properties
    assert send.max_reconsume_times < 0    # the group's


async def test_a_limit_of_this_member_travels_the_way_round_too():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        assert await send_back(cluster, max_reconsume_times=3)
        (send,) = broker.sends()
    assert send.max_reconsume_times == 3


async def test_a_dead_letter_stays_one_on_the_way_round():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        assert await send_back(cluster, delay_level=-1)
        (send,) = broker.sends()
    assert send.reconsume_times > send.max_reconsume_times >= 0


async def test_when_nobody_takes_the_message_it_is_said():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: refused(command, ResponseCode.MESSAGE_ILLEGAL), broken)
        assert not await send_back(cluster)


async def test_a_broker_that_is_away_is_told_of_once_whatever_the_number_of_messages(caplog):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        config = PushConsumerConfig()
        instance = client_instance.acquire(cluster.name_server.address, config)
        back = SendBack(instance, cluster.name_server.address, "CG", config,
                        RetryLimit(instance, "CG", config, lambda: ["T"]))
        assert await back.send_back(message(), QUEUE, 0, lambda: True, NO_CAUSE)
        await broker.stop()
        assert not any(await asyncio.gather(
            *(back.send_back(message(), QUEUE, 0, lambda: True, NO_CAUSE) for _ in range(3))))
        await back.close()
        await client_instance.release(instance)
    [told] = [record.getMessage() for record in caplog.records
              if record.name == sending.__name__ and record.levelno >= logging.WARNING]
    assert told.startswith("broker a is away (")


def takes(fits):
    """What fits is stored, and the rest is refused."""
    return lambda command: stored(command) if fits(command) else refused(command, ResponseCode.MESSAGE_ILLEGAL)


async def test_a_body_that_came_packed_through_a_broker_is_not_too_large_for_a_dead_letter():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        large = message()
        large.body = bytes(5 << 20)
        assert await dead_letter(cluster, large)
        assert len(broker.sends()) == 1


async def test_a_dead_letter_that_does_not_fit_is_made_by_its_broker():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", takes(lambda _: False))
        assert await dead_letter(cluster)
        (request,) = broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert request.ext["delayLevel"] == "-1"


@pytest.mark.parametrize("codes", [(ResponseCode.SYSTEM_BUSY,), (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY)],
                         ids=["busy once", "and busy again"])
async def test_a_broker_that_is_busy_is_asked_again_before_anything_is_left_out(codes):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", takes(lambda _: False), answering(*codes, ResponseCode.SUCCESS))
        assert await dead_letter(cluster)
        assert len(broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)) == len(codes) + 1
        assert not [send for send in broker.sends() if "NOT_WHOLE_REASON" in send.properties]


@in_virtual_time
async def test_a_broker_that_stays_busy_is_asked_for_a_time(monkeypatch):
    monkeypatch.setattr(sending, "LETTER_WAIT_MS", 20)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", takes(lambda command: "NOT_WHOLE_REASON" in str(command.ext)),
                                          answering(ResponseCode.SYSTEM_BUSY))
        assert await dead_letter(cluster)
        assert len(broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)) > 1
        assert "NOT_WHOLE_REASON" in broker.sends()[-1].properties


@pytest.mark.parametrize("asked", [1, 3])
async def test_a_queue_that_is_given_up_waits_for_no_busy_broker_and_leaves_nothing_out(asked):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", takes(lambda command: "NOT_WHOLE_REASON" in str(command.ext)),
                                          answering(ResponseCode.SYSTEM_BUSY))

        def is_ours():
            return len(broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)) < asked

        assert not await dead_letter(cluster, is_ours=is_ours)
        assert len(broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)) == asked
        assert not [send for send in broker.sends() if "NOT_WHOLE_REASON" in send.properties]


async def test_what_a_dead_letter_lacks_is_told_with_its_ids(caplog):
    caplog.set_level(logging.WARNING, "regulus.client.consuming.send_back")
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", takes(lambda command: b"lacks its body" in command.body), too_large)
        assert await dead_letter(cluster)
    (told,) = [text for text in caplog.messages if "not whole" in text]
    assert told.startswith("message U became a dead letter that is not whole: message at offset 0 of ")
    assert "lacks its body of 1 bytes" in told
    assert told.endswith("the whole one has id 7F00000100002A9F000000000000004D")


async def test_a_dead_letter_that_fits_nowhere_lacks_what_does_not_fit():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", takes(lambda command: b"lacks its body" in command.body), too_large)
        large = message()
        large.properties["long"] = "x" * 30_000
        assert await dead_letter(cluster, large)
        whole, without_properties, without_body = broker.sends()
    assert "NOT_WHOLE_REASON" not in whole.properties
    assert "property long, 30000 signs" in without_properties.properties["NOT_WHOLE_REASON"]
    assert without_body.properties["UNIQ_KEY"] == "U"


async def test_a_dead_letter_that_may_be_taken_later_lacks_nothing():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: refused(command, ResponseCode.NO_PERMISSION))
        assert not await dead_letter(cluster)
        assert not broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert not [send for send in broker.sends() if "NOT_WHOLE_REASON" in send.properties]


async def test_what_never_fits_in_the_retry_topic_is_a_dead_letter_after_the_last_retry_here():
    for reconsume_times, is_taken in ((2, False), (3, True)):
        async with scripted_cluster() as cluster:
            await cluster.add_broker("a", takes(lambda command: b"lacks its body" in command.body), too_large)
            assert await send_back(cluster, max_reconsume_times=3, reconsume_times=reconsume_times) is is_taken


async def test_a_member_counts_to_its_own_limit_though_brokers_know_it_too(monkeypatch):
    monkeypatch.setattr(RetryLimit, "anywhere", lambda limit: -1)
    for reconsume_times, is_taken in ((2, False), (3, True)):
        async with scripted_cluster() as cluster:
            await cluster.add_broker("a", takes(lambda command: b"lacks its body" in command.body), too_large)
            assert await send_back(cluster, max_reconsume_times=3, reconsume_times=reconsume_times) is is_taken


# --- causes ----------------------------------------------------------------------------------------------------------

CAUSE = Cause("ValueError: no \x01price", "line 1\nline 2")


async def test_the_cause_goes_to_the_broker_and_with_the_copy_that_the_client_makes_itself():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        failed = message()
        failed.properties["CAUSE_1"] = "OSError: gone"
        assert await send_back(cluster, failed=failed, cause=CAUSE)
        (send,) = broker.sends()
    ext = broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)[0].ext
    assert (ext["regulusCause"], ext["regulusStack"]) == ("ValueError: no price", "line 1\nline 2")
    assert {name: text for name, text in send.properties.items() if name.startswith("CAUSE_")} == {
        "CAUSE_1": "OSError: gone", "CAUSE_2": "ValueError: no price", "CAUSE_STACK": "line 1\nline 2"}


async def test_without_causes_nothing_of_an_exception_leaves_the_consumer():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", stored, broken)
        assert await send_back(cluster, cause=CAUSE, with_causes=False)
        assert await dead_letter(cluster, cause=CAUSE, with_causes=False)
        sends = broker.sends()
    assert not {"regulusCause", "regulusStack"} & set(broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)[0].ext)
    assert not any(name.startswith("CAUSE_") for send in sends for name in send.properties)


@pytest.mark.parametrize(("settings", "is_said"), [
    ({"delay_level": -1}, True), ({"max_reconsume_times": 1}, True), ({"max_reconsume_times": 2}, False)])
async def test_a_dead_letter_is_told_once_with_group_keys_tries_and_cause(caplog, settings, is_said):
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        failed = message()
        failed.properties["KEYS"] = "o1"
        with caplog.at_level(logging.WARNING, logger=sending.__name__):
            assert await send_back(cluster, failed=failed, cause=CAUSE, **settings)
    assert [record.getMessage() for record in caplog.records if record.name == sending.__name__] == [
        r"message U with keys o1 is a dead letter of group CG after 2 tries: ValueError: no \x01price"] * is_said
