"""A producer takes back a message that waits for its time."""

import pytest

from regulus.broker.handlers.recall_message import handle_recall_message
from regulus.model.peer import Peer
from regulus.wire import recall_handle
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import RecallMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.timers.test_timers import HOST, NOW, delivered, make, run, send

OTHERS = "x\x02TIMER_DEL_UNIQKEY\x01V+K"
"""Among the properties of a record, it takes out a message of the topic V."""


def recall(broker, group="g", key="K"):
    handle = recall_handle.encode(recall_handle.RecallHandle("T", broker.config.broker_name, NOW + 4_001, key))
    header = RecallMessageRequest(producer_group=group, topic="T", recall_handle=handle)
    request = RemotingCommand.request(RequestCode.RECALL_MESSAGE, header.ext())
    return handle_recall_message(request, Peer(1, HOST, HOST), broker, NOW + 1_000).answer


def test_a_message_that_is_taken_back_does_not_come():
    broker = make(recall_message_enable=True)
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 5_000)
    run(broker, NOW + 1_000)
    assert recall(broker).code == ResponseCode.SUCCESS
    assert run(broker, NOW + 9_000) == []


@pytest.mark.parametrize("named", [{"group": OTHERS}, {"key": OTHERS}, {"group": "g\x01"}, {"key": "K\x02"}])
def test_a_recall_takes_out_messages_of_its_topic_alone(named):
    """To which alone its sender is known to be allowed to send."""
    broker = make(recall_message_enable=True)
    send(broker, NOW, "K", "V", TIMER_DELIVER_MS=NOW + 5_000)
    run(broker, NOW + 1_000)
    response = recall(broker, **named)
    assert response.code == ResponseCode.ILLEGAL_OPERATION
    assert "has a separator of properties in it" in response.remark
    run(broker, NOW + 9_000)
    assert delivered(broker, "V") == ["K"]
