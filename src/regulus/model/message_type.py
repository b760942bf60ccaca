"""The type of a message in metrics: what the properties of its send say, whatever its topic is made for.

Source: BrokerMetricsManager.getMessageType, release 5.5.1.
"""

from collections.abc import Mapping

from regulus.model import message_properties as names

NORMAL = "normal"
FIFO = "fifo"
DELAY = "delay"
TRANSACTION = "transaction"
MESSAGE_TYPES = (NORMAL, FIFO, DELAY, TRANSACTION)

_TRANSACTION_PREPARED = names.TRANSACTION_PREPARED
_SHARDING_KEY = names.SHARDING_KEY
_DELAYED = names.TIMER_PROPERTIES | {names.DELAY_TIME_LEVEL}


def message_type(properties: Mapping[str, str]) -> str:
    """A transaction before an order, an order before a delay."""
    if _TRANSACTION_PREPARED in properties and properties[_TRANSACTION_PREPARED].lower() == "true":
        return TRANSACTION
    if _SHARDING_KEY in properties:
        return FIFO
    return NORMAL if _DELAYED.isdisjoint(properties) else DELAY
