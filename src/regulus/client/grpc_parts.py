"""Where a `grpc://` address leads to: `client.grpc`, for which grpcio has to be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from regulus.errors import MissingExtra

if TYPE_CHECKING:
    from regulus.client.config import ClientConfig, ProducerConfig
    from regulus.client.consuming.grpc_receiver import GrpcReceiver
    from regulus.client.sending.grpc_sender import GrpcSender, OnRecover
    from regulus.client.sending.send_queues import SendQueues
    from regulus.wire.bodies import SubscriptionData


def grpc_sender(address: str, config: ProducerConfig, queues: SendQueues, topics: Callable[[], Iterable[str]],
                on_recover: OnRecover) -> GrpcSender:
    """Raises ConfigError, MissingExtra."""
    try:
        from regulus.client.sending.grpc_sender import GrpcSender
    except ImportError as error:
        raise _missing() from error
    return GrpcSender(address, config, queues, topics, on_recover)


def grpc_receiver(address: str, group: str, config: ClientConfig, subscriptions: Callable[[],
                  Iterable[SubscriptionData]], request_timeout_ms: int, *, is_push: bool = False,
                  is_orderly: bool = False) -> GrpcReceiver:
    """Raises ConfigError, MissingExtra."""
    try:
        from regulus.client.consuming.grpc_receiver import GrpcReceiver
    except ImportError as error:
        raise _missing() from error
    return GrpcReceiver(address, group, config, subscriptions, request_timeout_ms=request_timeout_ms, is_push=is_push,
                        is_orderly=is_orderly)


def _missing() -> MissingExtra:
    return MissingExtra("grpc:// needs grpcio and protobuf, which are not installed: pip install 'regulus-mq[grpc]'")
