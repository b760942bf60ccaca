"""Names of topics and groups, as RocketMQ's proxy takes them."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy.names import full_name, group_name, topic_name
from regulus.wire.grpc import messages


@pytest.mark.parametrize("name", ["Orders", "a" * 127, "ns%Orders", "%RETRY%" + "g" * 240, "%DLQ%g", "a|b-c_d"])
def test_topics_that_may_be_named(name: str) -> None:
    assert topic_name(name) == name


@pytest.mark.parametrize("name", ["", "  ", "a" * 128, "a b", "../etc", "Größe", "TBW102", "SCHEDULE_TOPIC_XXXX",
                                  "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "CHECKPOINT_TOPIC",
                                  "rmq_sys_wheel_timer", "a\n"])
def test_topics_that_may_not(name: str) -> None:
    with pytest.raises(CallRefused) as refused:
        topic_name(name)
    assert refused.value.code == 40002


@pytest.mark.parametrize("name", ["", "g" * 121, "CID_RMQ_SYS_TRANS", "a/b"])
def test_groups_that_may_not_be_named(name: str) -> None:
    with pytest.raises(CallRefused) as refused:
        group_name(name)
    assert refused.value.code == 40003


def test_groups_that_may() -> None:
    assert group_name("g" * 120) == "g" * 120


def test_a_namespace_stands_before_the_name_wherever_the_client_wrote_it() -> None:
    assert full_name(messages.Resource(name="Orders")) == "Orders"
    assert full_name(messages.Resource(name="Orders", resource_namespace="ns")) == "ns%Orders"
    assert full_name(messages.Resource(name="Orders"), "of-the-headers") == "of-the-headers%Orders"
    assert full_name(messages.Resource(name="ns%Orders"), "ns") == "ns%Orders"
