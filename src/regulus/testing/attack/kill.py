"""SIGKILL under load, repeatedly: each acknowledged message must exist once, at the position in its answer."""

import asyncio
from contextlib import suppress

from regulus.errors import RegulusError
from regulus.testing.attack.field import Field, Sent, Talk
from regulus.testing.running_server import ServerProcess
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import QueryConsumerOffsetRequest

KILLS = 3
SENDERS = 6
QUEUES = 4
KILLED_AFTER = (1, 300)
"""Acknowledged messages, counted from each start."""
KILLED_AFTER_S = 10.0
TOPIC = "Killed"
GROUP = "killers"


class Load:
    """The messages sent and acknowledged, and the offsets committed."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.count = 0
        self.acknowledged: list[Sent] = []
        self.committed = 0
        self.committed_count = 0
        self.kill_at = 0
        self.is_enough = asyncio.Event()

    async def send(self, port: int) -> None:
        """Send until the broker is killed. Each message is sent once, so none may exist twice."""
        chance = self.field.chance
        try:
            async with Talk(port) as talk:
                while True:
                    self.count += 1
                    body = f"{self.count:08d}".encode().ljust(chance.choice((8, 100, 3_000)), b".")
                    sent = await talk.sent(TOPIC, body, chance.randrange(QUEUES), KEYS=f"k{self.count}")
                    if sent is not None:
                        self.acknowledged.append(sent)
                    if len(self.acknowledged) >= self.kill_at:
                        self.is_enough.set()
        except (RegulusError, OSError):
            return

    async def commit(self, port: int) -> None:
        """Commit increasing offsets of a group until the broker is killed."""
        try:
            async with Talk(port) as talk:
                await talk.join(GROUP, TOPIC)
                while True:
                    # Counted before the answer: a killed broker may have accepted what it never answered.
                    self.committed += 1
                    self.committed_count += await talk.commit(GROUP, TOPIC, 0, self.committed)
                    await asyncio.sleep(0.002)
        except (RegulusError, OSError):
            return


async def kill(field: Field) -> None:
    server = field.server(flushConsumerOffsetInterval=field.chance.choice((50, 5_000)))
    server.start()
    load = Load(field)
    for _ in range(KILLS):
        load.kill_at = len(load.acknowledged) + field.chance.randint(*KILLED_AFTER)
        load.is_enough.clear()
        tasks = [asyncio.ensure_future(load.send(server.port)) for _ in range(SENDERS)]
        tasks.append(asyncio.ensure_future(load.commit(server.port)))
        with suppress(TimeoutError):
            await asyncio.wait_for(load.is_enough.wait(), KILLED_AFTER_S)
        server.kill()
        await asyncio.wait(tasks)
        try:
            server.start()
        except RegulusError as error:
            field.find(f"the broker did not start after a kill: {error}")
            return
        await audit(field, server, load)
        if field.is_over:
            break
    field.note = f"{len(load.acknowledged)} acknowledged, {load.committed_count} offsets committed"


async def audit(field: Field, server: ServerProcess, load: Load) -> None:
    async with Talk(server.port) as talk:
        for queue_id in range(QUEUES):
            there = await talk.queue(TOPIC, queue_id)
            _audit_queue(field, queue_id, [(message.queue_offset, message.body) for message in there],
                         [sent for sent in load.acknowledged if sent.queue_id == queue_id])
        header = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0)
        answer = await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, header.ext())
        if answer.code == ResponseCode.SUCCESS and int(answer.ext["offset"]) > load.committed:
            field.find(f"offset {answer.ext['offset']} of {GROUP} was never committed; {load.committed} was the last")


def _audit_queue(field: Field, queue_id: int, there: list[tuple[int, bytes]], acknowledged: list[Sent]) -> None:
    places = dict(there)
    if [offset for offset, _ in there] != list(range(len(there))):
        field.find(f"queue {queue_id} has gaps or repeats: {[offset for offset, _ in there][:20]} ...")
    if len({body for _, body in there}) < len(there):
        field.find(f"queue {queue_id} has a message twice")
    if len({sent.queue_offset for sent in acknowledged}) < len(acknowledged):
        field.find(f"queue {queue_id}: one queue offset was given to two messages")
    lost = [sent for sent in acknowledged if places.get(sent.queue_offset) != sent.body]
    if lost:
        field.find(f"queue {queue_id}: {len(lost)} acknowledged messages are not where the answer said, the first at "
                   f"{lost[0].queue_offset}")
