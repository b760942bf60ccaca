"""Consumer groups as operators see them.

UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, DELETE_SUBSCRIPTIONGROUP,
GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_SUBSCRIPTIONGROUP_CONFIG, UPDATE_AND_GET_GROUP_FORBIDDEN.
"""

from dataclasses import replace

from regulus.broker.attributes import GROUP_ATTRIBUTES, altered
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_named, named_body
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.model.topics import SubscriptionGroupConfig, name_fault
from regulus.wire import encoded_table
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
    return _put_groups(request, [decode_subscription_group_config(named_body(request))], broker, now_ms)


def handle_update_and_create_subscriptiongroup_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                                    now_ms: int) -> Outcome:
    return _put_groups(request, decode_named(SubscriptionGroupList, request).group_config_list, broker, now_ms)


def handle_delete_subscriptiongroup(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """An unknown group is fine."""
    header = DeleteSubscriptiongroupRequest.decode(request)
    group = header.group_name
    broker.subscription_groups.delete(group, now_ms)
    if header.clean_offset:
        broker.forget_group(group, now_ms)
    broker.statistics.drop_pairs_of_group(group)
    return succeed(request)


def handle_get_all_subscriptiongroup_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                            now_ms: int) -> Outcome:
    """Everything in one page: a client that asks for pages stops when the total is not told."""
    return succeed(request, body=b"".join(encoded_table.compact(broker.subscription_groups.document())))


def handle_get_subscriptiongroup_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetSubscriptiongroupConfigRequest.decode(request).group
    config = broker.subscription_groups.find(group, now_ms)
    if config is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {group}")
    return succeed(request, body=encode_subscription_group_config(config))


def handle_update_and_get_group_forbidden(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                          now_ms: int) -> Outcome:
    """Without `readable` it only tells."""
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


def _put_groups(request: RemotingCommand, configs: list[SubscriptionGroupConfig], broker: BrokerState,
                now_ms: int) -> Outcome:
    """All or none."""
    groups = broker.subscription_groups
    for config in configs:
        fault = name_fault(config.group_name, "group")
        if fault is not None:
            return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
    for config in [_with_altered_attributes(config, broker) for config in configs]:
        if config != groups.get(config.group_name):
            groups.put(config, now_ms)
    return succeed(request)


def _with_altered_attributes(config: SubscriptionGroupConfig, broker: BrokerState) -> SubscriptionGroupConfig:
    current = broker.subscription_groups.get(config.group_name)
    signed = {key if key[:1] in "+-" else f"+{key}": value for key, value in config.attributes.items()}
    return replace(config, attributes=altered(GROUP_ATTRIBUTES, current.attributes if current else None, signed))
