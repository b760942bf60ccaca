"""Creates the receiver for the protocol of an address."""

from collections.abc import Callable, Iterable

from regulus.client.config import PushConsumerConfig, SimpleConsumerConfig
from regulus.client.connecting.client_instance import GroupMember
from regulus.client.consuming.receiver import Receiver
from regulus.client.consuming.remoting_receiver import RemotingReceiver
from regulus.client.core.addresses import Protocol, split_protocol
from regulus.client.grpc_extra import imports_grpc
from regulus.wire.bodies import SubscriptionData

Subscriptions = Callable[[], Iterable[SubscriptionData]]


def simple_receiver(address: str, member: GroupMember, config: SimpleConsumerConfig,
                    subscriptions: Subscriptions) -> Receiver:
    """A receiver for the address. Raises ConfigError, MissingExtra."""
    protocol, rest = split_protocol(address)
    if protocol is Protocol.REMOTING:
        return RemotingReceiver(rest, member, config, config.consume_from_where, config.request_timeout)
    with imports_grpc():
        from regulus.client.consuming.grpc_receiver import GrpcReceiver
    return GrpcReceiver(rest, member.group, config, subscriptions, request_timeout_ms=config.request_timeout)


def push_receiver(address: str, member: GroupMember, config: PushConsumerConfig,
                  subscriptions: Subscriptions) -> Receiver:
    """A receiver for the address. Raises ConfigError, MissingExtra."""
    protocol, rest = split_protocol(address)
    if protocol is Protocol.REMOTING:
        return RemotingReceiver(rest, member, config, config.consume_from_where, config.mq_client_api_timeout,
                                is_orderly=config.consume_orderly, retries_max=config.max_reconsume_times)
    with imports_grpc():
        from regulus.client.consuming.grpc_receiver import GrpcReceiver
    return GrpcReceiver(rest, member.group, config, subscriptions, request_timeout_ms=config.mq_client_api_timeout,
                        is_push=True, is_orderly=config.consume_orderly)
