"""What a push consumer finds out and announces before it joins its group. Source: DefaultMQPushConsumerImpl.start."""

import logging
from collections.abc import Iterable, Mapping

from regulus.client.client_instance import ClientInstance
from regulus.client.config import MessageModel, PushConsumerConfig
from regulus.client.group_retry_limit import set_group_retry_limit
from regulus.client.send_back import GROUP_LIMIT
from regulus.errors import BrokerRefused, ClientError, NoRoute
from regulus.wire.bodies import CheckClientConfigBody, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

TAG = "TAG"


async def fetch_routes(instance: ClientInstance, topics: Iterable[str]) -> None:
    """Routes tell where brokers are. Unknown topics are fine: they may be created later. Raises NoNameServer."""
    for topic in topics:
        try:
            await instance.fetch_route(topic)
        except NoRoute:
            _log.info("topic %s has no route yet", topic)


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


async def limit_to_send(instance: ClientInstance, group: str, config: PushConsumerConfig, topics: Iterable[str]) -> int:
    """The retry limit that requests have to carry: GROUP_LIMIT when brokers know the group's limit by themselves."""
    limit = config.max_reconsume_times
    if limit < 0:
        return GROUP_LIMIT
    if not config.share_max_reconsume_times or config.message_model is not MessageModel.CLUSTERING:
        return limit
    routes = [route for topic in topics if (route := instance.known_route(topic)) is not None]
    addresses = sorted({address for route in routes for address in route.masters()})
    if not addresses:
        _log.warning("no broker is known yet to be told the retry limit of group %s, so each request carries it", group)
        return limit
    try:
        await set_group_retry_limit(instance, group, limit, addresses)
    except ClientError as error:
        _log.warning("the retry limit of group %s could not be set, so each request carries it: %s", group, error)
        return limit
    return GROUP_LIMIT
