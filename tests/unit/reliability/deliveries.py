"""Deliveries as a consumer gets them, without one."""

from typing import Any

from sqlalchemy import Engine, Table, select

from regulus.client.listener import ConsumeContext
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY_QUEUE = MessageQueue("%RETRY%billing", "broker-a", 0)


def message(message_id: str, offset: int = 0, times: int = 0) -> MessageExt:
    return MessageExt("orders", message_id.encode(), {"BUSINESS_ID": message_id}, queue_offset=offset,
                      reconsume_times=times)


def context(group: str = "billing", queue: MessageQueue = QUEUE) -> ConsumeContext:
    return ConsumeContext(queue, group)


def rows(engine: Engine, table: Table, *columns: str) -> list[Any]:
    """Sorted; the columns by name."""
    with engine.connect() as connection:
        return sorted(map(tuple, connection.execute(select(*[table.c[name] for name in columns]))))
