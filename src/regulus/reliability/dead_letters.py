"""Leaves dead letters of a consuming group to a human: the stub of a dead letter is not sent again, and an alarm is
raised.

Otherwise a stub whose message is a dead letter would be sent again and again, or never: its receipt says that a
consumer has it. If an alarm was raised for a dead letter and a human has sent its stub again since, that case is
closed: when the dead letter arrives again, the stub is not changed.
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
    """Runs next to the relay, on the database of the stubs:

        consumer = PushConsumer(name_server, "outbox-dead-letters", DeadLetterListener(engine), from_first)
        consumer.subscribe(dlq_topic("billing"))

    The dead letters stay in their topic.
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
            # In a fixed order, so that no two of these deadlock.
            for message in sorted(messages, key=business_id):
                told = (f"group {group} gave it up after {message.reconsume_times} deliveries: dead letter "
                        f"{context.message_queue.broker_name}/{message.queue_offset}")
                if not _is_mended(connection, business_id(message), told) and park(connection, business_id(message),
                                                                                   group):
                    raise_alarm(connection, AlarmKind.DEAD_LETTER, business_id(message), told)
        return ConsumeStatus.CONSUME_SUCCESS


def park(connection: Connection, message_id: str, consumer_group: str) -> bool:
    """Leave a stub to a human unless it is done, for the group, or left already; returns whether it was changed."""
    has_groups = exists().where(confirmations.c.message_id == message_id)
    is_open = has_groups.where(confirmations.c.consumer_group == consumer_group, confirmations.c.status == UNCONFIRMED)
    return connection.execute(
        update(stubs).where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED, ~stubs.c.is_manual,
                            or_(~has_groups, is_open))
        .values(is_manual=True, version=stubs.c.version + 1)).rowcount == 1


def _is_mended(connection: Connection, message_id: str, told: str) -> bool:
    """Whether a human has sent the stub again since its alarm. Alarms are searched only for such stubs."""
    is_sent_again = connection.execute(select(exists().where(actions.c.message_id == message_id,
                                                             actions.c.action == "RETRY"))).scalar_one()
    return bool(is_sent_again) and bool(connection.execute(select(exists().where(
        alarms.c.kind == AlarmKind.DEAD_LETTER.value, alarms.c.subject == message_id, alarms.c.detail == told,
        alarms.c.open_key.is_(None)))).scalar_one())
