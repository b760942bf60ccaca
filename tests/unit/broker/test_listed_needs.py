"""Requests that name thousands of things: each is looked at as soon as it is read, and what a stranger names is not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from regulus.access.decision import Action, Allowed, Denied, Need, ResourceKind, Verdict
from regulus.access.guard import Guard
from regulus.access.needs import seen_in_parts
from regulus.broker.listed_needs import needs_of_part
from regulus.broker.request_table import ROWS
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.bodies import ConsumerData, LockBatchRequestBody, ProducerData, SubscriptionData
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode

SUB, CREATE, UPDATE = Action.SUB, Action.CREATE, Action.UPDATE
TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
NAMED = {
    Code.HEART_BEAT: lambda names: {"clientID": "c", "consumerDataSet": [
        {"groupName": "G", "subscriptionDataSet": [{"topic": name} for name in names]}]},
    Code.LOCK_BATCH_MQ: lambda names: {"consumerGroup": "G", "clientId": "c", "mqSet": [
        {"topic": name, "brokerName": "b", "queueId": 0} for name in names]},
    Code.UNLOCK_BATCH_MQ: lambda names: {"consumerGroup": "G", "clientId": "c", "mqSet": [
        {"topic": name, "brokerName": "b", "queueId": 0} for name in names]},
    Code.UPDATE_AND_CREATE_TOPIC_LIST: lambda names: {"topicConfigList": [{"topicName": name} for name in names]},
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda names: {"groupConfigList": [
        {"groupName": name} for name in names]}}


class World:
    """`may` says what the one user may touch; `asked` are the needs that were looked at, `told` what was denied."""

    def __init__(self, rig, may: Callable[[Need], bool], open_codes: tuple[int, ...] = ()) -> None:
        self.rig, self.may, self.open_codes = rig, may, open_codes
        self.asked: list[Need] = []
        self.told: list[int] = []
        rig.broker.guard = Guard(lambda: self, lambda request, peer: None,
                                 lambda request, peer, denied: self.told.append(request.code))
        rig.peer = rig.peer.of_user("alice")

    def looks_at(self, code: int) -> bool:
        return code not in self.open_codes

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        assert (user, source) == ("alice", "10.0.0.5")
        self.asked += needs
        denied = [need for need in needs if not self.may(need)]
        return Denied("a rule", int(ResponseCode.NO_PERMISSION), f"no {denied[0].name}") if denied else Allowed("all")

    def ask(self, code: int, names: list[str], behind: bytes = b"") -> Any:
        text = json.dumps(NAMED[code](names)).encode()
        return self.rig.ask(code, body=text.replace(b'"behind"', b'"' + behind) if behind else text)


def test_each_request_that_the_door_leaves_to_its_handler_is_walked_here():
    assert sorted(NAMED) == sorted(code for code, row in ROWS.items() if row.needs is seen_in_parts)


@pytest.mark.parametrize(("part", "needs"), [
    (ProducerData(group_name="PG"), ()),
    (ConsumerData(group_name="billing"), (Need(GROUP, "billing", (SUB,)),)),
    (SubscriptionData.compile("orders", "*", 1), (Need(TOPIC, "orders", (SUB,)),)),
    (SubscriptionData.compile("%RETRY%billing", "*", 1), (Need(GROUP, "billing", (SUB,)),)),
    (MessageQueue("orders", "b", 0), (Need(TOPIC, "orders", (SUB,)),)),
    (LockBatchRequestBody(consumer_group="billing", client_id="c"), (Need(GROUP, "billing", (SUB,)),)),
    (TopicConfig(topic_name="orders"), (Need(TOPIC, "orders", (CREATE,)),)),
    (SubscriptionGroupConfig(group_name="billing"), (Need(GROUP, "billing", (UPDATE,)),))])
def test_what_each_part_needs(part, needs):
    assert needs_of_part(part) == needs


@pytest.mark.parametrize("code", NAMED)
def test_a_stranger_is_denied_at_the_first_name_and_the_rest_is_not_read(rig, code):
    world = World(rig, lambda need: False)
    answer = world.ask(code, ["first", *[f"T{number}" for number in range(10_000)], "behind"], behind=b"no JSON {")
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "no first")
    assert len(world.asked) == 1
    assert world.told == [code]
    assert len(rig.broker.long_answers) == 0


@pytest.mark.parametrize("code", NAMED)
def test_who_may_not_touch_the_last_of_many_has_nothing_done(rig, code):
    world = World(rig, lambda need: need.name != "last")
    before = set(rig.broker.topics.names()), set(rig.broker.subscription_groups.names())
    assert world.ask(code, [*[f"T{number}" for number in range(1_000)], "last"]).code == ResponseCode.NO_PERMISSION
    assert (set(rig.broker.topics.names()), set(rig.broker.subscription_groups.names())) == before
    assert rig.broker.clients.consumer_group("G") is None
    assert not rig.broker.queue_locks.is_any_held("G", rig.broker.steady_ms)


@pytest.mark.parametrize("code", NAMED)
def test_what_only_fastjson_would_write_is_looked_at_too(rig, code):
    """A name without quotation marks is no plain JSON, and so it is read in another way."""
    world = World(rig, lambda need: need.name != "last")
    text = json.dumps(NAMED[code](["T1", "last"])).replace("{", "{odd:1,", 1)
    assert (answer := rig.ask(code, body=text.encode())).code == ResponseCode.NO_PERMISSION
    assert answer.remark == "no last"
    assert world.told == [code]
    assert rig.broker.clients.consumer_group("G") is None
    world.may = lambda need: True
    assert rig.ask(code, body=text.encode()).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", [Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ])
def test_the_group_is_looked_at_too(rig, code):
    world = World(rig, lambda need: need.kind is not GROUP)
    assert world.ask(code, ["T1"]).remark == "no G"


@pytest.mark.parametrize("code", NAMED)
def test_each_name_is_looked_at_once(rig, code):
    world = World(rig, lambda need: True)
    assert world.ask(code, ["T1", "T2", "T1"]).code == 0
    assert sorted(need.name for need in world.asked if need.name != "G") == ["T1", "T2"]


@pytest.mark.parametrize("code", NAMED)
def test_nobody_is_asked_where_such_requests_are_not_looked_at(rig, code):
    world = World(rig, lambda need: False, open_codes=(code,))
    assert world.ask(code, ["T1"]).code == 0
    assert world.asked == []
