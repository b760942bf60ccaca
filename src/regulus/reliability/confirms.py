"""How a consumer with a database of its own confirms an effect to the stub's database.

    StubConfirms            over a connection to that database, if the consumer has one
    MessageConfirms         by a message on a topic of confirmations, which `ConfirmationListener` consumes next to the
                            relay; retries and dead letters are those of its group

A lost confirmation costs a resend, which the inbox answers and confirms again.
"""

from collections.abc import Sequence

from sqlalchemy import Engine

from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.client.sync import Producer
from regulus.model import message_properties as names
from regulus.model.message import Message, MessageExt
from regulus.reliability import judges, tables
from regulus.reliability.delivery_log import business_id
from regulus.reliability.tables import CONSUMER_GROUP_SIZE_MAX, storable

CONFIRMATION_TOPIC = "regulus_confirmations"
GROUP_PROPERTY = "CONSUMER_GROUP"


class StubConfirms:
    def __init__(self, engine: Engine) -> None:
        """Connects to nothing yet."""
        self._engine = engine

    def confirm(self, message_id: str, consumer_group: str) -> None:
        """Confirm one effect. Raises what the database raises."""
        with self._engine.begin() as connection:
            judges.confirm(connection, message_id, consumer_group)

    def confirm_all(self, message_ids: Sequence[str], consumer_group: str) -> None:
        """Confirm several effects in one commit. Raises what the database raises, and confirms none then."""
        with self._engine.begin() as connection:
            # In a fixed order, so that no two of these deadlock.
            for message_id in sorted(message_ids):
                judges.confirm(connection, message_id, consumer_group)


class MessageConfirms:
    def __init__(self, producer: Producer, topic: str = CONFIRMATION_TOPIC) -> None:
        """The caller starts `producer` and shuts it down."""
        self._producer = producer
        self._topic = topic

    def confirm(self, message_id: str, consumer_group: str) -> None:
        """Confirm one effect. Raises ClientError."""
        self._producer.send(Message(self._topic, message_id.encode(), keys=message_id,
                                    properties={names.BUSINESS_ID: message_id, GROUP_PROPERTY: consumer_group}))


class ConfirmationListener:
    """Confirms stubs from the messages of `MessageConfirms`.

        consumer = PushConsumer(name_server, "outbox-confirmations", ConfirmationListener(engine))
        consumer.subscribe(CONFIRMATION_TOPIC)
    """

    def __init__(self, engine: Engine) -> None:
        """Connects to nothing yet."""
        self._engine = engine
        self._is_checked = False

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        with self._engine.begin() as connection:
            if not self._is_checked:
                tables.check(connection, tables.stubs, tables.confirmations)
                self._is_checked = True
            # In a fixed order, so that no two of these deadlock.
            for message in sorted(messages, key=business_id):
                group = message.properties.get(GROUP_PROPERTY, "")
                judges.confirm(connection, business_id(message), storable(group, CONSUMER_GROUP_SIZE_MAX))
        return ConsumeStatus.CONSUME_SUCCESS
