"""Leaves to a human what a consuming group gave up: the stub of a dead letter is sent no more, and somebody is told.

Without it a stub whose message is among the dead letters would be sent again and again, or never: its receipt says that
a consumer has it. A dead letter of which somebody was told, and whose stub a human sent again since, is mended: when it
comes again it takes the stub from nobody.
"""

from sqlalchemy import Connection, Engine, exists, or_, select, update

from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.model.message import MessageExt
from regulus.model.topics import DLQ_PREFIX
from regulus.reliability import tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.reliability.delivery_log import business_id
from regulus.reliability.tables import UNCONFIRMED, actions, alarms, confirmations, stubs


class DeadLetterListener:
    """Beside the relay, over the database of the stubs:

        consumer = PushConsumer(name_server, "outbox-dead-letters", DeadLetterListener(engine), from_first)
        consumer.subscribe(dlq_topic("billing"))

    The dead letters stay where they are.
    """

    def __init__(self, engine: Engine) -> None:
        """Connects to nothing yet."""
        self._engine = engine
        self._is_checked = False

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        group = context.message_queue.topic.removeprefix(DLQ_PREFIX)
        with self._engine.begin() as connection:
            if not self._is_checked:
                tables.check(connection, stubs, confirmations, alarms, actions)
                self._is_checked = True
            # In one order, so that no two of these wait for each other.
            for message in sorted(messages, key=business_id):
                told = (f"group {group} gave it up after {message.reconsume_times} deliveries: dead letter "
                        f"{context.message_queue.broker_name}/{message.queue_offset}")
                if not _is_mended(connection, business_id(message), told) and park(connection, business_id(message),
                                                                                   group):
                    raise_alarm(connection, AlarmKind.DEAD_LETTER, business_id(message), told)
        return ConsumeStatus.CONSUME_SUCCESS


def park(connection: Connection, message_id: str, consumer_group: str) -> bool:
    """Leave a stub to a human unless it is done, for the group, or left already; whether it was changed."""
    has_groups = exists().where(confirmations.c.message_id == message_id)
    is_open = has_groups.where(confirmations.c.consumer_group == consumer_group, confirmations.c.status == UNCONFIRMED)
    return connection.execute(
        update(stubs).where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED, ~stubs.c.is_manual,
                            or_(~has_groups, is_open))
        .values(is_manual=True, version=stubs.c.version + 1)).rowcount == 1


def _is_mended(connection: Connection, message_id: str, told: str) -> bool:
    """Alarms are looked through for those alone that a human sent again."""
    is_sent_again = connection.execute(select(exists().where(actions.c.message_id == message_id,
                                                             actions.c.action == "RETRY"))).scalar_one()
    return bool(is_sent_again) and bool(connection.execute(select(exists().where(
        alarms.c.kind == AlarmKind.DEAD_LETTER.value, alarms.c.subject == message_id, alarms.c.detail == told,
        alarms.c.open_key.is_(None)))).scalar_one())
