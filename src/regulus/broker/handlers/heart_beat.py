"""Clients connect and leave: HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG."""

from collections.abc import Generator, Sequence

from regulus.broker.filters.message_filter import not_served, subscription_filter
from regulus.broker.groups.clients import PRODUCER_GROUPS_MAX, Client
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_listed, decode_named
from regulus.broker.long_answers import Steps, client_line
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.broker.topics import UNIT_SUB_FLAG
from regulus.errors import HeaderError
from regulus.model.peer import Peer
from regulus.model.topics import retry_topic
from regulus.wire.bodies import CheckClientConfigBody, ConsumerData, HeartbeatData, ProducerData
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import HeartBeatResponse, UnregisterClientRequest
from regulus.wire.remoting_command import RemotingCommand

PRODUCERS_A_STEP = 256
"""Producers registered in one step; each costs the check of a permission."""


def handle_heart_beat(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """A heartbeat with many topics is read in steps. It takes effect after all of it is read, and before later requests
    of its connection."""
    return broker.long_answers.begin(request, peer, _heard(request, peer, broker, now_ms), line=client_line(peer))


def _heard(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Steps:
    heartbeat = yield from decode_listed(HeartbeatData, request, peer, broker)
    client = Client(peer.channel, heartbeat.client_id, request.language, request.version, peer.remote_text, now_ms,
                    broker.steady_ms, peer.user)
    fingerprint = heartbeat.heartbeat_fingerprint or 0
    is_sub_change = fingerprint == 0
    for consumer in heartbeat.consumer_data_set:
        yield from _register(consumer, client, bool(heartbeat.without_sub), broker, now_ms)
        group = broker.clients.consumer_group(consumer.group_name)
        if group is not None and group.heartbeat_fingerprint != fingerprint:
            group.heartbeat_fingerprint = fingerprint
            is_sub_change = True
    if not (yield from _register_producers(heartbeat.producer_data_set, client, broker)):
        return request.response(ResponseCode.SYSTEM_ERROR,
                                f"the connection produces for {PRODUCER_GROUPS_MAX} groups, the most besides groups "
                                "named after a topic to which it may send: use other connections for the others")
    header = HeartBeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_sub_change)
    return request.response(ResponseCode.SUCCESS, ext=header.ext())


def _register_producers(producers: Sequence[ProducerData], client: Client,
                        broker: BrokerState) -> Generator[None, None, bool]:
    """False when there are too many; those within the limit are registered."""
    are_all = True
    for number, producer in enumerate(producers, 1):
        group = producer.group_name
        is_own_topic = group in broker.topics and broker.may_end(client, group)
        are_all &= broker.clients.register_producer(group, client, is_own_topic=is_own_topic)
        if number % PRODUCERS_A_STEP == 0:
            yield
    return are_all


def _register(consumer: ConsumerData, client: Client, without_sub: bool, broker: BrokerState,
              now_ms: int) -> Generator[None, None, None]:
    group = consumer.group_name
    settings = broker.subscription_groups.find(group, now_ms)
    if settings is None:
        return
    if settings.retry_queue_nums > 0:
        order = any(broker.topics.is_order(subscription.topic) for subscription in consumer.subscription_data_set)
        broker.topics.create_if_absent(retry_topic(group), settings.retry_queue_nums, now_ms,
                                       UNIT_SUB_FLAG if consumer.unit_mode else 0, order)
    changed = broker.clients.register_consumer(
        group, client, consumer.consume_type, consumer.message_model, consumer.consume_from_where,
        None if without_sub else consumer.subscription_data_set)
    if changed:
        broker.group_notices.note(group)
    if refiltered := broker.clients.take_refiltered():
        # A held request may wait for messages that its group no longer wants.
        broker.held_requests.wake_topics(refiltered)
    if not without_sub:
        yield from broker.consumer_filters.hear(group, consumer.subscription_data_set, now_ms)


def handle_unregister_client(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Takes effect after the heartbeats that the connection sent before."""
    return broker.long_answers.begin(request, peer, _unregistered(request, peer, broker, now_ms),
                                     line=client_line(peer))


def _unregistered(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Steps:
    yield from ()       # one step, after the earlier requests of its line
    header = UnregisterClientRequest.decode(request)
    if header.producer_group:
        broker.clients.unregister_producer(header.producer_group, peer.channel)
    if header.consumer_group and broker.clients.unregister_consumer(header.consumer_group, peer.channel):
        broker.member_left(header.consumer_group, now_ms)
    return request.response(ResponseCode.SUCCESS)


def handle_check_client_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """A consumer asks before its start whether its filter is supported."""
    subscription = decode_named(CheckClientConfigBody, request).subscription_data if request.body else None
    if subscription is None:
        return succeed(request)
    if refusal := not_served(subscription.expression_type, broker.config):
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal)
    try:
        subscription_filter(subscription)
    except HeaderError as error:
        return refuse(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return succeed(request)
