"""Who consumes in a group."""

import json

from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetConsumerListByGroupRequest


def test_the_ids_of_the_group_s_clients(rig):
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=1)
    rig.heartbeat("CG", "TopicA", client_id="c2", channel=2)
    response = rig.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequest("CG").ext())
    assert json.loads(response.body) == {"consumerIdList": ["c1", "c2"]}


def test_a_group_without_consumers_is_an_error(rig):
    response = rig.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequest("CG").ext())
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, CG")
