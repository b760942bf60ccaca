"""How often a group tries a message again. It is set at the brokers for all members: the last one to set it wins."""

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
"""In the place of a limit: the broker knows the group's."""
RETRIES_MAX = 16
"""What a group's limit is unless it was set."""


class RetryLimit:
    """The limit of a member: told to each broker once, and carried by each request to one that was not told yet.

    Brokers are known by name, for one that comes back elsewhere has kept its groups, and what they were told since.
    """

    def __init__(self, instance: ClientInstance, group: str, config: PushConsumerConfig,
                 topics: Callable[[], Iterable[str]]) -> None:
        """`topics`: whose brokers are to know it."""
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
        """Tell brokers that routes name later, too."""
        if self._is_shared:
            self._tasks.supervise(self._run, f"retry limit of {self._group}")

    async def close(self) -> None:
        await self._tasks.cancel()

    def routes_changed(self) -> None:
        self._wanted.set()

    @property
    def own(self) -> int:
        """What this member counts to by itself, where no broker does."""
        return RETRIES_MAX if self._limit == GROUP_LIMIT else self._limit

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def at(self, broker_name: str) -> int:
        """What a request to this broker has to carry."""
        return GROUP_LIMIT if broker_name in self._told else self._limit

    def anywhere(self) -> int:
        """What a request has to carry that any broker may get."""
        return GROUP_LIMIT if self._told and not self._untold() else self._limit

    async def tell(self) -> None:
        """Tell the brokers that were not told. One that does not take it is logged, and told when a route changes."""
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
        """The masters that routes name, by their names."""
        routes = [route for topic in self._topics() if (route := self._instance.known_route(topic)) is not None]
        return {name: address for route in routes for name in sorted(route.brokers)
                if name not in self._told and (address := route.master(name)) is not None}


async def set_group_retry_limit(instance: ClientInstance, group: str, retry_max_times: int,
                                addresses: Collection[str]) -> None:
    """Change the limit at each broker and leave the group's other settings. Raises ClientError."""
    for address in addresses:
        known = await group_config(instance, group, address) or SubscriptionGroupConfig(group_name=group)
        if known.retry_max_times != retry_max_times:
            # Attributes are changes here; those that are not named stay.
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
