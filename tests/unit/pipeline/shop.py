"""A shop whose billing sometimes fails: a real broker, real retries, and the consumers' own table of what they did."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.config import PushConsumerConfig
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.client.sync import Admin, Producer, PushConsumer
from regulus.model.message import Message, MessageExt
from regulus.model.topics import TopicConfig
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import ServerThread
from tests.waiting import wait_until

if TYPE_CHECKING:
    from regulus.pipeline.jobs.log_source import LogSource

LADDER = " ".join(["50ms"] * 18)
GROUP = "billing"
TOPIC = "orders"
ORDERS = 8
FAILS_ALWAYS, FAILS_ONCE = "o1", "o2"


@dataclass
class Shop:
    """`bills`: a SQLite file with table bills(id, billed_ms). o1 became a dead letter after 2 retries, o2 was billed at
    its second try, the others at once."""

    server: ServerThread
    bills: Path

    @property
    def name_server(self) -> str:
        return self.server.name_server_address

    @property
    def store(self) -> str:
        return str(self.server.store_path)

    @property
    def source(self) -> "LogSource":
        from regulus.pipeline.jobs.log_source import LogSource

        return LogSource({"storePath": self.store})

    @property
    def live_source(self) -> "LogSource":
        from regulus.pipeline.jobs.log_source import LogSource

        return LogSource({"nameServer": self.name_server})

    @property
    def effects_text(self) -> str:
        return f"sqlite:{self.bills}#bills"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    root = tmp_path_factory.mktemp("shop")
    bills = root / "bills.sqlite"
    with closing(sqlite3.connect(bills)) as connection:
        connection.execute("CREATE TABLE bills(id TEXT PRIMARY KEY, billed_ms INTEGER NOT NULL)")
        connection.commit()
    store = root / "store"
    with ServerThread(store, BrokerConfig(listen_port=0, message_delay_level=LADDER)) as server:
        shop = Shop(server, bills)
        _bill(shop)
        yield shop


@contextmanager
def restarted_without_epochs(root: Path, prepare: Callable[[ServerThread], None],
                             store_config: MessageStoreConfig | None = None) -> Iterator[ServerThread]:
    """A broker that does not tell when its topics were made, those that `prepare` makes: as RocketMQ's do not."""
    with ServerThread(root, store_config=store_config) as server:
        prepare(server)
    for path in (root / "config").glob("regulusTopicEpochs.json*"):
        path.unlink()
    with ServerThread(root, store_config=store_config) as server:
        yield server


def make_anew(admin: Admin, topic: str) -> None:
    """Delete a topic and make another of its name, which is empty."""
    admin.delete_topic(topic)
    admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
    wait_until(lambda: all(offset.max_offset == 0 for offset in admin.topic_stats(topic).values()), "an empty topic")


def send_orders(shop: Shop, *names: str, topic: str = TOPIC) -> None:
    with Producer(shop.name_server, "shop") as producer:
        for name in names:
            producer.send(Message(topic, b"order " + name.encode(), "A", name, {"customer": "c1"}))


def _bill(shop: Shop) -> None:
    names = [f"o{number}" for number in range(ORDERS)]
    send_orders(shop, *names)
    billed: set[str] = set()
    lock = threading.Lock()

    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        message = messages[0]
        if message.keys == FAILS_ALWAYS or (message.keys == FAILS_ONCE and message.reconsume_times == 0):
            return ConsumeStatus.RECONSUME_LATER
        with lock, closing(sqlite3.connect(shop.bills)) as connection:
            connection.execute("INSERT INTO bills VALUES (?, ?)", (message.keys, round(time.time() * 1000)))
            connection.commit()
            billed.add(message.keys)
        return ConsumeStatus.CONSUME_SUCCESS

    config = PushConsumerConfig(max_reconsume_times=2, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    consumer = PushConsumer(shop.name_server, GROUP, listen, config)
    consumer.subscribe(TOPIC)
    with consumer, Admin(shop.name_server) as admin:
        wait_until(lambda: len(billed) == ORDERS - 1, "bills")
        wait_until(lambda: f"%DLQ%{GROUP}" in admin.list_topics(), "the dead letter's topic")
        wait_until(lambda: sum(offset.max_offset for offset in admin.topic_stats(f"%DLQ%{GROUP}").values()) == 1,
                 "the dead letter")
