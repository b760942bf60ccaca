"""Makes a receiver: the protocol follows from the address."""

from collections.abc import Callable, Iterable

from regulus.client.config import PushConsumerConfig, SimpleConsumerConfig
from regulus.client.connecting.client_instance import GroupMember
from regulus.client.consuming.receiver import Receiver
from regulus.client.consuming.remoting_receiver import RemotingReceiver
from regulus.client.core.addresses import Protocol, split_protocol
from regulus.client.grpc_parts import grpc_receiver
from regulus.wire.bodies import SubscriptionData

Subscriptions = Callable[[], Iterable[SubscriptionData]]


def simple_receiver(address: str, member: GroupMember, config: SimpleConsumerConfig,
                    subscriptions: Subscriptions) -> Receiver:
    """Raises ConfigError, MissingExtra."""
    protocol, rest = split_protocol(address)
    if protocol is Protocol.REMOTING:
        return RemotingReceiver(rest, member, config, config.consume_from_where, config.request_timeout)
    from regulus.client.consuming.grpc_receiver import GrpcReceiver  # grpcio is an extra

    return GrpcReceiver(rest, member.group, config, subscriptions, request_timeout_ms=config.request_timeout)


def push_receiver(address: str, member: GroupMember, config: PushConsumerConfig,
                  subscriptions: Subscriptions) -> Receiver:
    """Raises ConfigError, MissingExtra."""
    protocol, rest = split_protocol(address)
    if protocol is Protocol.REMOTING:
        return RemotingReceiver(rest, member, config, config.consume_from_where, config.mq_client_api_timeout,
                                is_orderly=config.consume_orderly, retries_max=config.max_reconsume_times)
    return grpc_receiver(rest, member.group, config, subscriptions, config.mq_client_api_timeout, is_push=True,
                         is_orderly=config.consume_orderly)
