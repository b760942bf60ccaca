"""A broker is killed while the writers of a sink send; what they send again is stored once, and nothing is missing."""

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.testing.running_server import ServerProcess
from regulus.wire.row_digest import digest_of

WRITERS = 2
ROWS = 400
IN_FLIGHT = 32


class Writer:
    """Sends its rows in order, IN_FLIGHT at a time, until one is not acknowledged; then all of them anew."""

    def __init__(self, number: int) -> None:
        self.sink = f"S/{number}"
        self.queue = MessageQueue("Sunk", "broker-a", number)
        self.acknowledged = 0

    def messages(self) -> Iterator[Message]:
        digest = 0
        for row in range(ROWS):
            # As the producer sends it.
            message = Message("Sunk", f"{self.sink} {row}".encode(), properties={"WAIT": "true"})
            message.properties |= {"SINK": self.sink, "SEQ": f"1/{row}", "SINK_DIGEST": str(digest)}
            digest = digest_of([message], digest)
            yield message

    async def write(self, producer: Producer, on_acknowledged: Callable[[], None]) -> None:
        messages = self.messages()
        while some := [*islice(messages, IN_FLIGHT)]:
            for sending in [asyncio.ensure_future(producer.send(message, queue=self.queue)) for message in some]:
                await sending
                self.acknowledged += 1
                on_acknowledged()


async def write_until_killed(server: ServerProcess, writers: list[Writer], kill_at: int) -> None:
    """All writers send from their first row on; the broker is killed after so many acknowledgements in all."""
    count = 0

    def acknowledged() -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            server.kill()

    config = ProducerConfig(send_msg_timeout=10_000)
    async with Producer(server.name_server_address, "PG", config) as producer:
        outcomes = await asyncio.gather(*(writer.write(producer, acknowledged) for writer in writers),
                                        return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ClientError):
            raise outcome


async def stored(server: ServerProcess, writer: Writer) -> list[int]:
    rows: list[int] = []
    async with Admin(server.name_server_address) as admin:
        offset = 0
        while True:
            pulled = await admin.pull(writer.queue, offset, 32)
            if not pulled.messages:
                return rows
            rows += [int(message.body.split()[1]) for message in pulled.messages]
            offset = pulled.next_offset


@pytest.mark.parametrize("seed", range(3))
async def test_each_row_is_stored_once_whenever_the_broker_is_killed(
        make_broker_process: Callable[..., ServerProcess], tmp_path: Path, seed: int) -> None:
    """Killed four times, sometimes with a document of the marks behind the last rows, sometimes with none yet."""
    chance = random.Random(seed)
    settings = tmp_path / "broker.conf"
    settings.write_text(f"flushConsumerOffsetInterval={chance.choice((20, 100, 60_000))}\n"
                        "mappedFileSizeCommitLog=65536\n")
    server = make_broker_process("-c", str(settings))
    acknowledged = [0] * WRITERS
    for _ in range(4):
        writers = [Writer(number) for number in range(WRITERS)]
        await write_until_killed(server, writers, chance.randrange(1, WRITERS * ROWS))
        assert not server.is_running
        acknowledged = [max(before, writer.acknowledged) for before, writer in zip(acknowledged, writers, strict=True)]
        server.start()
        for writer, count in zip(writers, acknowledged, strict=True):
            rows = await stored(server, writer)
            assert rows == list(range(len(rows)))
            assert len(rows) >= count
    writers = [Writer(number) for number in range(WRITERS)]
    await write_until_killed(server, writers, -1)
    for writer in writers:
        assert writer.acknowledged == ROWS
        assert await stored(server, writer) == list(range(ROWS))
    async with Admin(server.name_server_address) as admin:
        marks = await admin.sink_marks(server.address, "S")
    assert {sink: (mark.batch, mark.row) for sink, mark in marks.items()} == {
        writer.sink: (1, ROWS - 1) for writer in writers}
