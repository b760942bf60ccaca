"""Consumer groups for operators.

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, DELETE_SUBSCRIPTIONGROUP,
GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_SUBSCRIPTIONGROUP_CONFIG, UPDATE_AND_GET_GROUP_FORBIDDEN.
"""

from dataclasses import replace

from regulus.broker.attributes import GROUP_ATTRIBUTES, altered
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_listed, named_body
from regulus.broker.handlers.stepped import MEMBERS_A_STEP, document_in_steps
from regulus.broker.handlers.topic import delete_topic, is_retry_of_others
from regulus.broker.long_answers import SETTINGS_LINE, Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.model.receipt_handle import is_popped_retry_topic
from regulus.model.topics import SubscriptionGroupConfig, name_fault
from regulus.wire.bodies import (
    GroupForbidden,
    SubscriptionGroupList,
    decode_subscription_group_config,
    encode_subscription_group_config,
)
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    DeleteSubscriptiongroupRequest,
    GetSubscriptiongroupConfigRequest,
    UpdateAndGetGroupForbiddenRequest,
)
from regulus.wire.remoting_command import RemotingCommand


def handle_update_and_create_subscriptiongroup(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                               now_ms: int) -> Outcome:
    config = decode_subscription_group_config(named_body(request))
    return broker.long_answers.begin(request, peer, _put_groups(request, [config], broker, now_ms),
                                     line=SETTINGS_LINE)


def handle_update_and_create_subscriptiongroup_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                                    now_ms: int) -> Outcome:
    """Sets all groups or none: one invalid group refuses the list. Each step sets some of them, to the end of the
    list."""
    return broker.long_answers.begin(request, peer, _put_listed(request, peer, broker, now_ms), is_deed=True,
                                     line=SETTINGS_LINE)


def handle_delete_subscriptiongroup(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Deleting an unknown group succeeds."""
    header = DeleteSubscriptiongroupRequest.decode(request)
    return broker.long_answers.begin(request, peer, _deleted(request, header, broker, now_ms), is_deed=True,
                                     line=SETTINGS_LINE)


def _deleted(request: RemotingCommand, header: DeleteSubscriptiongroupRequest, broker: BrokerState,
             now_ms: int) -> Steps:
    """Delete the group in one step, and then its popped retry messages, one topic in each step. A group that is created
    again in the meantime starts after those messages."""
    yield from ()       # begins after the earlier requests of its line
    group = header.group_name
    retries = _retry_topics(group, broker) if header.clean_offset else []
    broker.subscription_groups.delete(group, now_ms)
    if header.clean_offset:
        broker.forget_group(group, now_ms)
    for retry in retries:
        yield           # deleting files takes time
        if group not in broker.subscription_groups and not is_retry_of_others(broker, retry, group):
            delete_topic(broker, retry, now_ms)
    broker.statistics.drop_pairs_of_group(group)
    broker.settings.use_all()
    return request.response(ResponseCode.SUCCESS)


def _retry_topics(group: str, broker: BrokerState) -> list[str]:
    """Topics with messages that the group popped and did not acknowledge."""
    return [topic for topic in broker.consumer_offsets.topics_of(group) if is_popped_retry_topic(topic, group)]


def handle_get_all_subscriptiongroup_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                            now_ms: int) -> Outcome:
    """All groups in one page. RocketMQ's clients that ask for pages stop when the answer has no total."""
    def steps() -> Steps:
        groups = broker.subscription_groups
        body = yield from document_in_steps((groups.encoded,), groups.document)
        return request.response(ResponseCode.SUCCESS, body=body)
    return broker.long_answers.begin(request, peer, steps())


def handle_get_subscriptiongroup_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetSubscriptiongroupConfigRequest.decode(request).group
    config = broker.subscription_groups.find(group, now_ms)
    if config is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {group}")
    return succeed(request, body=encode_subscription_group_config(config))


def handle_update_and_get_group_forbidden(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                          now_ms: int) -> Outcome:
    """Without `readable` it only reads."""
    header = UpdateAndGetGroupForbiddenRequest.decode(request)
    groups = broker.subscription_groups
    if header.readable is not None:
        fault = name_fault(header.group, "group") or name_fault(header.topic)
        if fault is not None:
            return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
        groups.set_readable(header.group, header.topic, header.readable, now_ms)
    body = GroupForbidden(group=header.group, topic=header.topic,
                          readable=groups.is_readable(header.group, header.topic))
    return succeed(request, body=body.encode())


def _put_listed(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Steps:
    listed = yield from decode_listed(SubscriptionGroupList, request, peer, broker)
    return (yield from _put_groups(request, listed.group_config_list, broker, now_ms))


def _put_groups(request: RemotingCommand, configs: list[SubscriptionGroupConfig], broker: BrokerState,
                now_ms: int) -> Steps:
    """Set all groups or none. Other requests that set groups wait in the same line. A group that is created
    automatically in the meantime gets the list's settings."""
    groups = broker.subscription_groups
    made = []
    for given in configs:
        fault = name_fault(given.group_name, "group")
        if fault is not None:
            return request.response(ResponseCode.INVALID_PARAMETER, fault)
        made.append(_with_altered_attributes(given, broker))
        if len(made) % MEMBERS_A_STEP == 0:
            yield
    for number, config in enumerate(made, 1):
        if config != groups.get(config.group_name):
            groups.put(config, now_ms)
        if number % MEMBERS_A_STEP == 0:
            yield
    broker.settings.use_all()
    return request.response(ResponseCode.SUCCESS)


def _with_altered_attributes(config: SubscriptionGroupConfig, broker: BrokerState) -> SubscriptionGroupConfig:
    current = broker.subscription_groups.get(config.group_name)
    signed = {key if key[:1] in "+-" else f"+{key}": value for key, value in config.attributes.items()}
    return replace(config, attributes=altered(GROUP_ATTRIBUTES, current.attributes if current else None, signed))
