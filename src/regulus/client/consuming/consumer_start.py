"""What a consumer finds out and announces before its start returns. Source: DefaultMQPushConsumerImpl.start."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from regulus.client.connecting.client_instance import ClientInstance, now_ms, steady_ms
from regulus.client.consuming.consumption import Consumption
from regulus.client.consuming.rebalancer import Rebalancer
from regulus.client.core.resend import REFUSED_FIRST_MS, REFUSED_MAX_MS, REFUSED_MULTIPLIER
from regulus.errors import BrokerRefused, ClientError, NoNameServer, NoRoute, WrongNameServer
from regulus.wire.bodies import CheckClientConfigBody, SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import NotificationRequest
from regulus.wire.headers.pop_message import ANY_QUEUE, INIT_MAX
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
        _tell_late(group)
    _tell_unknown(group, [*rebalancer.unknown, *consumption.untaken])


async def begin_at_ends(instance: ClientInstance, group: str, topics: Iterable[str]) -> None:
    """Until each broker was asked once to let a new group of pops begin at the ends of its queues, which the first pop
    does else: what is sent from then on is not passed over. RocketMQ's brokers do nothing of the kind."""
    asked: dict[str, list[str]] = {}
    for topic in topics:
        route = instance.known_route(topic)
        for address in () if route is None else route.masters():
            asked.setdefault(address, []).append(topic)
    unknown = {_place(topic, address): None for address, of_broker in asked.items() for topic in of_broker}
    try:
        async with asyncio.timeout(ENDS_WAIT_MS / 1000):
            await asyncio.gather(*(_begin_at(instance, group, address, of_broker, unknown)
                                   for address, of_broker in asked.items()))
    except TimeoutError:
        _tell_late(group)
    _tell_unknown(group, list(unknown))


async def _begin_at(instance: ClientInstance, group: str, address: str, topics: Sequence[str],
                    unknown: dict[str, None]) -> None:
    """Beside other brokers: one that keeps silent holds up none of them."""
    for topic in topics:
        header = NotificationRequest(consumer_group=group, topic=topic, queue_id=ANY_QUEUE, poll_time=0,
                                     born_time=now_ms(), init_mode=INIT_MAX)
        try:
            await instance.request(address, RemotingCommand.request(RequestCode.NOTIFICATION, header.ext()))
        except ClientError as error:
            if not (isinstance(error, BrokerRefused) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
                _log.info("group %s does not begin yet in %s: %s", group, _place(topic, address), error)
                continue
        del unknown[_place(topic, address)]


def _place(topic: str, address: str) -> str:
    return f"topic {topic} at {address}"


def _tell_late(group: str) -> None:
    _log.warning("consumer %s starts before all brokers answered, within %d ms", group, ENDS_WAIT_MS)


def _tell_unknown(group: str, unknown: Sequence[str]) -> None:
    if unknown:
        _log.warning("consumer %s has started, and it is not known yet where it begins in %d places; what is sent "
                     "there until it is may be passed over: %s", group, len(unknown), "; ".join(unknown[:TOLD_MAX]))
