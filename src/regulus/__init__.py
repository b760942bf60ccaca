"""Regulus: a message system that speaks RocketMQ, written in Python, whose log is a Spark table."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False       # as type checkers take it; to import `typing` takes longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from regulus.client.administration.admin import Admin
    from regulus.client.config import (
        ClientConfig,
        ConsumeFromWhere,
        KeptSendsConfig,
        MessageModel,
        MessageRequestMode,
        ProducerConfig,
        PushConsumerConfig,
        SimpleConsumerConfig,
    )
    from regulus.client.consuming.push_consumer import PushConsumer
    from regulus.client.consuming.simple_consumer import SimpleConsumer
    from regulus.client.listener import ConsumeContext, ConsumeStatus
    from regulus.client.received_message import PoppedState, ReceivedMessage
    from regulus.client.send_result import SendResult, SendStatus
    from regulus.client.sending.kept_sends import KeptSends
    from regulus.client.sending.producer import Producer
    from regulus.client.sending.transaction_producer import (
        HalfMessage,
        TransactionProducer,
        TransactionProducerConfig,
        TransactionSendResult,
        TransactionState,
    )
    from regulus.model.message import Message, MessageExt
    from regulus.model.message_queue import MessageQueue
    from regulus.transport.tls import TlsConfig

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "ClientConfig",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "HalfMessage",
    "KeptSends",
    "KeptSendsConfig",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageRequestMode",
    "PoppedState",
    "Producer",
    "ProducerConfig",
    "PushConsumer",
    "PushConsumerConfig",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "SimpleConsumerConfig",
    "TlsConfig",
    "TransactionProducer",
    "TransactionProducerConfig",
    "TransactionSendResult",
    "TransactionState",
    "__version__",
]

_HOMES = {
    "Admin": "regulus.client.administration.admin",
    "ClientConfig": "regulus.client.config",
    "ConsumeContext": "regulus.client.listener",
    "ConsumeFromWhere": "regulus.client.config",
    "ConsumeStatus": "regulus.client.listener",
    "HalfMessage": "regulus.client.sending.transaction_producer",
    "KeptSends": "regulus.client.sending.kept_sends",
    "KeptSendsConfig": "regulus.client.config",
    "Message": "regulus.model.message",
    "MessageExt": "regulus.model.message",
    "MessageModel": "regulus.client.config",
    "MessageQueue": "regulus.model.message_queue",
    "MessageRequestMode": "regulus.client.config",
    "PoppedState": "regulus.client.received_message",
    "Producer": "regulus.client.sending.producer",
    "ProducerConfig": "regulus.client.config",
    "PushConsumer": "regulus.client.consuming.push_consumer",
    "PushConsumerConfig": "regulus.client.config",
    "ReceivedMessage": "regulus.client.received_message",
    "SendResult": "regulus.client.send_result",
    "SendStatus": "regulus.client.send_result",
    "SimpleConsumer": "regulus.client.consuming.simple_consumer",
    "SimpleConsumerConfig": "regulus.client.config",
    "TlsConfig": "regulus.transport.tls",
    "TransactionProducer": "regulus.client.sending.transaction_producer",
    "TransactionProducerConfig": "regulus.client.sending.transaction_producer",
    "TransactionSendResult": "regulus.client.sending.transaction_producer",
    "TransactionState": "regulus.client.sending.transaction_producer",
}


def __getattr__(name: str) -> Any:
    """Clients are imported when first asked for, so that `import regulus` is cheap for those who need none."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
