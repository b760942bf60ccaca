"""Sets how often a group tries a message again, for all its members: the last one to set it wins."""

from collections.abc import Collection
from dataclasses import replace

from regulus.client.client_instance import ClientInstance
from regulus.errors import BrokerRefused
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import (
    SubscriptionGroupWrapper,
    decode_subscription_group_config,
    encode_subscription_group_config,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetSubscriptiongroupConfigRequest
from regulus.wire.remoting_command import RemotingCommand


async def set_group_retry_limit(instance: ClientInstance, group: str, retry_max_times: int,
                                addresses: Collection[str]) -> None:
    """Change the limit at each broker and leave the group's other settings. Raises ClientError."""
    for address in addresses:
        known = await group_config(instance, group, address) or SubscriptionGroupConfig(group_name=group)
        if known.retry_max_times != retry_max_times:
            body = encode_subscription_group_config(replace(known, retry_max_times=retry_max_times))
            await instance.request(address, RemotingCommand.request(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


async def group_config(instance: ClientInstance, group: str, address: str) -> SubscriptionGroupConfig | None:
    """The group's settings at a broker, None when it does not know the group. Raises ClientError."""
    header = GetSubscriptiongroupConfigRequest(group)
    try:
        answer = await instance.request(
            address, RemotingCommand.request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header.ext()))
        return decode_subscription_group_config(answer.body)
    except BrokerRefused as error:
        if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            return None
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    # RocketMQ 4.9 has no request for one group.
    answer = await instance.request(address, RemotingCommand.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    return SubscriptionGroupWrapper.decode(answer.body).subscription_group_table.get(group)
