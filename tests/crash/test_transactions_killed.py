"""A broker is killed while transactions are under way: each is seen once or never, as its producer decided."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.sending.transaction_producer import TransactionProducer, TransactionProducerConfig, TransactionState
from regulus.errors import ClientError
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.testing.running_server import ServerProcess

HALVES = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)
OPS = MessageQueue("RMQ_SYS_TRANS_OP_HALF_TOPIC", "broker-a", 0)
COUNT = 120
IN_FLIGHT = 12
CONFIG = TransactionProducerConfig(send_msg_timeout=2_000, end_transaction_timeout=2_000)


class Books:
    """The database of the producer's process: what each local transaction decided."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.decided: dict[str, TransactionState] = {}
        self.ended = 0
        self.on_ended: Callable[[int], None] = lambda count: None

    async def execute(self, message: Message) -> TransactionState:
        decision = self.chance.choice((TransactionState.COMMIT, TransactionState.ROLLBACK))
        self.decided[message.message_id] = decision
        return self.chance.choice((decision, decision, TransactionState.UNKNOWN))

    async def check(self, message: MessageExt) -> TransactionState:
        return self.decided.get(message.message_id, TransactionState.ROLLBACK)

    async def transact(self, producer: TransactionProducer, number: int) -> None:
        try:
            result = await producer.send_in_transaction(Message("Tx", b"%d" % number), self.execute)
        except ClientError:
            return      # its half may be there; the check will roll it back
        if result.is_ended:
            self.ended += 1
            self.on_ended(self.ended)


async def everything(admin: Admin, queue: MessageQueue) -> list[MessageExt]:
    found: list[MessageExt] = []
    offset = 0
    while (pulled := await admin.pull(queue, offset)).messages:
        found += pulled.messages
        offset = pulled.next_offset
    return found


async def still_open(admin: Admin) -> set[str]:
    """The unique keys of the halves whose last copy no op message names."""
    named = {int(message.body) for message in await everything(admin, OPS)}
    newest = {message.message_id: message.queue_offset for message in await everything(admin, HALVES)}
    return {key for key, queue_offset in newest.items() if queue_offset not in named}


@pytest.mark.parametrize("seed", range(3))
async def test_a_killed_broker_forgets_no_transaction_and_commits_none_twice(
        make_broker_process: Callable[..., ServerProcess], tmp_path: Path, seed: int) -> None:
    settings = tmp_path / "broker.conf"
    settings.write_text("transactionCheckInterval=300\ntransactionTimeOut=300\ntransactionCheckMax=1000\n"
                        f"flushConsumerOffsetInterval={(50, 400, 60_000)[seed]}\n")
    server = make_broker_process("-c", str(settings))
    books = Books(seed)
    for round_number in range(3):
        kill_at = books.ended + books.chance.randrange(5, COUNT // 3)
        books.on_ended = lambda count, kill_at=kill_at: server.kill() if count == kill_at else None
        async with TransactionProducer(server.name_server_address, "PG", books.check, CONFIG) as producer:
            for first in range(0, COUNT, IN_FLIGHT):
                if server.is_running:
                    await asyncio.gather(*(books.transact(producer, round_number * COUNT + first + number)
                                           for number in range(IN_FLIGHT)))
        server.kill()
        server.start()
    committed = {key for key, decision in books.decided.items() if decision is TransactionState.COMMIT}
    assert len(committed) > 10
    async with TransactionProducer(server.name_server_address, "PG", books.check, CONFIG, topics=["Tx"]), \
            Admin(server.name_server_address) as admin, asyncio.timeout(60):
        while await still_open(admin):
            await asyncio.sleep(0.2)
        found = Counter([message.message_id for queue in await admin.queues("Tx")
                         for message in await everything(admin, queue)])
    assert found == Counter(committed)
