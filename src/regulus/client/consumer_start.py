"""What a push consumer finds out and announces before it joins its group. Source: DefaultMQPushConsumerImpl.start."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from regulus.client.client_instance import ClientInstance, steady_ms
from regulus.client.consumption import Consumption
from regulus.client.core.resend import REFUSED_FIRST_MS, REFUSED_MAX_MS, REFUSED_MULTIPLIER
from regulus.client.rebalancer import Rebalancer
from regulus.errors import BrokerRefused, ClientError, NoNameServer, NoRoute, WrongNameServer
from regulus.wire.bodies import CheckClientConfigBody, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

TAG = "TAG"

ENDS_WAIT_MS = 5_000
"""How long a start waits for brokers that do not say where a queue begins: it goes on without them."""

TOLD_MAX = 8
"""Queues that one warning names."""


async def fetch_routes(instance: ClientInstance, topics: Iterable[str]) -> None:
    """Routes tell where brokers are. Unknown topics are fine: they may be created later. Name servers that are not up
    yet are waited for, as long as a request to them may take. Raises NoNameServer."""
    until_ms = steady_ms() + instance.config.mq_client_api_timeout
    for topic in topics:
        try:
            await _fetch_route(instance, topic, until_ms)
        except NoRoute:
            _log.info("topic %s has no route yet", topic)


async def _fetch_route(instance: ClientInstance, topic: str, until_ms: int) -> None:
    pause_ms = REFUSED_FIRST_MS
    while True:
        try:
            await instance.fetch_route(topic)
            return
        except NoNameServer as error:
            if isinstance(error, WrongNameServer) or steady_ms() + pause_ms > until_ms:
                raise
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(pause_ms * REFUSED_MULTIPLIER, REFUSED_MAX_MS)


async def check_expressions(instance: ClientInstance, group: str,
                            subscriptions: Mapping[str, SubscriptionData]) -> None:
    """Have a broker look at every expression that is not a list of tags. Raises BrokerRefused for a bad one."""
    for topic, subscription in subscriptions.items():
        route = instance.known_route(topic)
        if subscription.expression_type == TAG or route is None:
            continue
        body = CheckClientConfigBody(client_id=instance.client_id, group=group, subscription_data=subscription).encode()
        for address in route.readable_addresses():
            try:
                await instance.request(address, RemotingCommand.request(RequestCode.CHECK_CLIENT_CONFIG, body=body))
            except BrokerRefused:
                raise
            except ClientError as error:
                _log.warning("expression of topic %s not checked at %s: %s", topic, address, error)
            else:
                break


async def find_ends(group: str, rebalancer: Rebalancer, consumption: Consumption) -> None:
    """Until each queue that is ours was asked once where it begins: what is sent from then on is not passed over."""
    try:
        async with asyncio.timeout(ENDS_WAIT_MS / 1000):
            await rebalancer.first_look()
            await consumption.first_tries()
    except TimeoutError:
        _log.warning("consumer %s starts before all brokers answered, within %d ms", group, ENDS_WAIT_MS)
    unknown = [*rebalancer.unknown, *consumption.untaken]
    if unknown:
        _log.warning("consumer %s has started, and it is not known yet where it begins in %d places; what is sent "
                     "there until it is may be passed over: %s", group, len(unknown), "; ".join(unknown[:TOLD_MAX]))
