"""Messages that are taken back: whom the producer asks, and what it is told."""

import pytest

from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer
from regulus.errors import AnswerUnreadable, BrokerRefused, MessageIllegal, NoMaster, RequestTimeout
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import RecallMessageRequest
from regulus.wire.recall_handle import RecallHandle, encode
from tests.unit.client.scripted_servers import refused, scripted_cluster

HANDLE = encode(RecallHandle("T", "b", 1794700800001, "KEY"))


def takes_back(command):
    answer = command.response(ResponseCode.SUCCESS)
    answer.ext = {"msgId": "KEY"}
    return answer


async def recalled(script, *arguments, **options):
    """What the producer answers, and what broker b was asked."""
    def answers(command):
        is_recall = command.code == RequestCode.RECALL_MESSAGE
        return script(command) if is_recall else command.response(ResponseCode.SUCCESS)

    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        broker = await cluster.add_broker("b", others=answers)
        async with Producer(cluster.name_server.address, "PG", ProducerConfig(send_msg_timeout=60_000)) as producer:
            answer = await producer.recall(*arguments, **options)
        return answer, [RecallMessageRequest.decode(each) for each in broker.requests_of(RequestCode.RECALL_MESSAGE)]


async def test_the_broker_that_the_handle_names_is_asked_once():
    answer, asked = await recalled(takes_back, "T", HANDLE)
    assert answer == "KEY"
    assert asked == [RecallMessageRequest(producer_group="PG", topic="T", recall_handle=HANDLE)]


@pytest.mark.parametrize(("handle", "told"), [
    ("nonsense", "'nonsense' is no recall handle; the result of a send has one"), ("", "'' is no recall handle"),
    ("x" * 5000, "x' is no recall handle"),
    (encode(RecallHandle("Other", "b", 1, "KEY")), "the recall handle is of a message to Other, not to T"),
])
async def test_what_is_no_handle_of_the_topic_is_refused_here(handle, told):
    with pytest.raises(MessageIllegal, match=told) as caught:
        await recalled(takes_back, "T", handle)
    assert len(str(caught.value)) < 300


async def test_a_broker_that_is_not_there_is_named():
    with pytest.raises(NoMaster, match="broker gone, where the message waits, has no master"):
        await recalled(takes_back, "T", encode(RecallHandle("T", "gone", 1, "KEY")))


async def test_a_refusal_is_told_as_it_is_and_not_tried_again():
    with pytest.raises(BrokerRefused, match="as the test wants it") as caught:
        await recalled(lambda command: refused(command, ResponseCode.ILLEGAL_OPERATION), "T", HANDLE)
    assert caught.value.code == ResponseCode.ILLEGAL_OPERATION


async def test_an_answer_without_an_id_is_no_refusal():
    with pytest.raises(AnswerUnreadable, match=r"took the message back and its answer cannot be read: .*msgId"):
        await recalled(lambda command: command.response(ResponseCode.SUCCESS), "T", HANDLE)


async def test_without_an_answer_nobody_knows():
    with pytest.raises(RequestTimeout):
        await recalled(lambda command: None, "T", HANDLE, timeout_ms=50)
