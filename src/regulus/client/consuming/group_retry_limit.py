"""The retry limit of a group: how often a message is tried again. Brokers keep it for all members, and the last member
to set it wins."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from regulus.client.config import MessageModel, PushConsumerConfig
from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.tasks import TaskGroup
from regulus.errors import BrokerRefused, ClientError, HeaderError
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import (
    SubscriptionGroupWrapper,
    decode_subscription_group_config,
    encode_subscription_group_config,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetSubscriptiongroupConfigRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

GROUP_LIMIT = -1
"""Used in place of a limit: the broker uses the group's limit."""
RETRIES_MAX = 16
"""A group's limit unless it was set."""


class RetryLimit:
    """The limit of a member. It is set at each broker once; requests to brokers where it is not set yet carry it.

    Brokers are remembered by name, because a broker that comes back at another address still has its groups.
    """

    def __init__(self, instance: ClientInstance, group: str, config: PushConsumerConfig,
                 topics: Callable[[], Iterable[str]]) -> None:
        """The limit is set at the brokers of `topics`."""
        self._instance = instance
        self._group = group
        self._limit = max(config.max_reconsume_times, GROUP_LIMIT)
        self._is_shared = (self._limit >= 0 and config.share_max_reconsume_times
                           and config.message_model is MessageModel.CLUSTERING)
        self._topics = topics
        self._told: set[str] = set()
        self._wanted = asyncio.Event()
        self._tasks = TaskGroup()

    def start(self) -> None:
        """Set the limit also at brokers that appear in routes later."""
        if self._is_shared:
            self._tasks.supervise(self._run, f"retry limit of {self._group}")

    async def close(self) -> None:
        await self._tasks.cancel()

    def routes_changed(self) -> None:
        self._wanted.set()

    @property
    def own(self) -> int:
        """The limit to which this member counts itself when no broker does."""
        return RETRIES_MAX if self._limit == GROUP_LIMIT else self._limit

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def at(self, broker_name: str) -> int:
        """The limit that a request to this broker must carry."""
        return GROUP_LIMIT if broker_name in self._told else self._limit

    def anywhere(self) -> int:
        """The limit that a request must carry if any broker may receive it."""
        return GROUP_LIMIT if self._told and not self._untold() else self._limit

    async def tell(self) -> None:
        """Set the limit at the brokers where it is not set yet. A failure is logged; the next change of a route tries
        again."""
        if self._is_shared:
            await asyncio.gather(*(self._tell(name, address) for name, address in self._untold().items()))

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.tell()

    async def _tell(self, broker_name: str, address: str) -> None:
        try:
            await set_group_retry_limit(self._instance, self._group, self._limit, [address])
            self._told.add(broker_name)
        except (ClientError, HeaderError) as error:
            _log.warning("the retry limit of group %s could not be set at %s, so each request carries it: %s",
                         self._group, broker_name, error)

    def _untold(self) -> dict[str, str]:
        """Addresses of the masters in the routes at which the limit is not set yet, by broker name."""
        routes = [route for topic in self._topics() if (route := self._instance.known_route(topic)) is not None]
        return {name: address for route in routes for name in sorted(route.brokers)
                if name not in self._told and (address := route.master(name)) is not None}


async def set_group_retry_limit(instance: ClientInstance, group: str, retry_max_times: int,
                                addresses: Collection[str]) -> None:
    """Change the limit at each broker and keep the group's other settings. Raises ClientError."""
    for address in addresses:
        known = await group_config(instance, group, address) or SubscriptionGroupConfig(group_name=group)
        if known.retry_max_times != retry_max_times:
            # The attributes of this request are changes; those that it does not name stay.
            body = encode_subscription_group_config(replace(known, retry_max_times=retry_max_times, attributes={}))
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
