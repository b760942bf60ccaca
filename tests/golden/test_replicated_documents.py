"""A broker that took over what a real slave copied from its master tells the same to the next one that asks."""

import pytest
from recorded_session import frames_of

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.state import (
    CONSUMER_OFFSET_DOCUMENT,
    DELAY_OFFSET_DOCUMENT,
    SUBSCRIPTION_GROUP_DOCUMENT,
    TOPICS_DOCUMENT,
    BrokerState,
)
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.testing.memory_store import MemoryStore
from regulus.wire import fastjson
from regulus.wire.codes import RequestCode

DOCUMENTS = {RequestCode.GET_ALL_TOPIC_CONFIG: TOPICS_DOCUMENT,
             RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SUBSCRIPTION_GROUP_DOCUMENT,
             RequestCode.GET_ALL_CONSUMER_OFFSET: CONSUMER_OFFSET_DOCUMENT,
             RequestCode.GET_ALL_DELAY_OFFSET: DELAY_OFFSET_DOCUMENT}
HOST = host_bytes("127.0.0.1", 10911)


def exchanges():
    recorded = frames_of("ha-slave-sync")
    answers = {(frame.connection, frame.command.opaque): frame.command for frame in recorded if not frame.from_client}
    for number, frame in enumerate(recorded):
        answer = answers.get((frame.connection, frame.command.opaque))
        if frame.from_client and answer is not None:
            yield pytest.param(frame.command, answer, id=f"{RequestCode(frame.command.code).name}-{number}")



@pytest.mark.parametrize(("request_", "recorded"), list(exchanges()))
def test_what_was_copied_is_told_again(request_, recorded):
    broker = BrokerState(BrokerConfig(broker_cluster_name="DefaultCluster"), MemoryStore())
    broker.load_documents({DOCUMENTS[request_.code]: recorded.body.decode()})
    ours = request_table.handle(request_, Peer(1, HOST, HOST), broker, 0).answer
    assert ours.code == recorded.code
    assert includes(fastjson.loads(ours.body), fastjson.loads(recorded.body))


def includes(ours, theirs) -> bool:
    """Members and entries of our own may be added; what they have we have with the same value."""
    if isinstance(theirs, dict):
        return all(key in ours and includes(ours[key], value) for key, value in theirs.items())
    return ours == theirs
