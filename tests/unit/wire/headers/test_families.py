"""Spellings of single headers that a camel-case rule would miss."""

import pytest

from regulus.errors import HeaderError
from regulus.wire import headers
from regulus.wire.ext_fields import Header


@pytest.mark.parametrize(("header", "ext"), [
    (headers.QueryMessageRequest(topic="T", key="k", max_num=32, begin_timestamp=0, end_timestamp=9,
                                 unique_key_query=True),
     {"topic": "T", "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9",
      "_UNIQUE_KEY_QUERY": "true"}),
    (headers.UnregisterClientRequest(client_id="c", producer_group="PG"), {"clientID": "c", "producerGroup": "PG"}),
    (headers.HeartBeatResponse(is_support_heart_beat_v2=True, is_sub_change=False),
     {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}),
    (headers.RegisterBrokerRequest(broker_name="b", broker_addr="h:1", cluster_name="C", ha_server_addr="h:2",
                                   broker_id=0, zone_name="z"),
     {"brokerName": "b", "brokerAddr": "h:1", "clusterName": "C", "haServerAddr": "h:2", "brokerId": "0",
      "compressed": "false", "bodyCrc32": "0", "__ZONE_NAME": "z"}),
    (headers.DeleteSubscriptiongroupRequest(group_name="G", clean_offset=True),
     {"groupName": "G", "cleanOffset": "true", "removeOffset": "true"}),
    (headers.InvokeBrokerToResetOffsetRequest(topic="T", group="G", timestamp=-1),
     {"topic": "T", "group": "G", "timestamp": "-1", "isForce": "true"}),
    (headers.SetCommitlogReadModeRequest("1"), {"READ_AHEAD_MODE": "1"}),
    (headers.GetRouteinfoByTopicRequest(topic="T", zone_mode=True), {"topic": "T", "__ZONE_MODE": "true"}),
])
def test_the_spelling_on_the_wire(header: Header, ext: dict[str, str]) -> None:
    assert header.ext() == ext
    assert type(header).from_ext(ext) == header


def test_4_9_calls_the_offset_switch_by_another_name() -> None:
    assert headers.DeleteSubscriptiongroupRequest.from_ext({"groupName": "G", "removeOffset": "true"}).clean_offset


def test_a_route_is_asked_for_a_topic() -> None:
    with pytest.raises(HeaderError, match="GetRouteinfoByTopicRequest lacks the field topic"):
        headers.GetRouteinfoByTopicRequest.from_ext({})
