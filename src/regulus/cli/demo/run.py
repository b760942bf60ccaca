"""Send all flights, consume them, kill the broker once, and wait until each flight has ended somewhere."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regulus.cli.demo.broker_process import BrokerProcess
from regulus.cli.demo.effects import DepartureBoard
from regulus.cli.demo.flights import FLIGHTS_IN_ALL, Flight, read_flights
from regulus.client.admin import Admin
from regulus.client.config import ConsumeFromWhere, ProducerConfig, PushConsumerConfig
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.client.producer import Producer
from regulus.client.push_consumer import PushConsumer
from regulus.errors import ClientError, RegulusError
from regulus.model.message import Message, MessageExt
from regulus.model.topics import TopicConfig, dlq_topic

TOPIC = "flights"
CONSUMER_GROUP = "departure_board"
DEAD_LETTERS = dlq_topic(CONSUMER_GROUP)
PRODUCER_GROUP = "airports"
MAX_RECONSUME_TIMES = 2
# Levels 3 and 4, where retries begin, wait half a second and one second here instead of 10 and 30 seconds.
DELAY_LADDER = "100ms 200ms 500ms 1s 2s 5s 10s 30s 1m 2m 3m 4m 5m 10m 20m 30m 1h 2h"
IN_FLIGHT = 256
KILL_AT = 0.5
DOWN_S = 1.0
RESEND_PAUSE_S = 0.2
QUIET_TIMEOUT_S = 30

Progress = Callable[[int, int, int], None]
"""Told (sent, applied, dead letters) about five times a second."""


@dataclass(slots=True)
class DemoRun:
    """What happened: times in seconds since the start, `started_at` by the wall's clock, since 1970."""

    started_at: float = 0.0
    killed_at_s: float = 0.0
    back_at_s: float = 0.0
    sent: int = 0
    resent: int = 0
    seconds: float = 0.0


class Demo:
    def __init__(
        self, directory: Path, port: int, name_server_port: int, flights_in_all: int, progress: Progress
    ) -> None:
        self._directory = directory
        self._name_server = f"127.0.0.1:{name_server_port}"
        self._flights_in_all = flights_in_all
        self._progress = progress
        self._board = DepartureBoard(directory / "departures.sqlite")
        self._dead: set[str] = set()
        self._run = DemoRun()
        self._broker = BrokerProcess(directory / "broker.conf", name_server_port, directory / "broker.log")
        self._started_at = 0.0
        (directory / "broker.conf").write_text(
            f"brokerName=broker-a\nlistenPort={port}\n"
            f"storePathRootDir={directory / 'store'}\nmessageDelayLevel={DELAY_LADDER}\n"
        )

    async def run(self) -> DemoRun:
        """Raises RegulusError when the flights do not come to rest in time."""
        await self._broker.start()
        try:
            await self._send_and_consume()
        finally:
            self._board.close()
            await self._broker.stop()
        return self._run

    async def _send_and_consume(self) -> None:
        async with Admin(self._name_server) as admin:
            await admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=8))
            await admin.create_topic(TopicConfig(topic_name=DEAD_LETTERS, read_queue_nums=1, write_queue_nums=1))
        self._started_at, self._run.started_at = time.monotonic(), time.time()
        consumer = PushConsumer(
            self._name_server,
            CONSUMER_GROUP,
            self._depart,
            PushConsumerConfig(
                max_reconsume_times=MAX_RECONSUME_TIMES, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            ),
        )
        consumer.subscribe(TOPIC)
        burial = PushConsumer(
            self._name_server,
            "cancelled_flights",
            self._bury,
            PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
        )
        burial.subscribe(DEAD_LETTERS)
        producer = Producer(self._name_server, PRODUCER_GROUP, ProducerConfig(auto_batch=True, batch_max_delay_ms=0))
        async with consumer, burial, producer:
            watch = asyncio.create_task(self._watch())
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._send_all(producer))
                    tasks.create_task(self._kill_once())
                await self._until_quiet()
            finally:
                watch.cancel()
                self._tell_progress()
        self._run.seconds = self._elapsed()

    async def _depart(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        """What this raises for a cancelled flight sends the message back, and at last to the dead letters."""
        for message in messages:
            self._board.apply(message.keys.partition(" ")[0], message.body, time.time_ns() // 1_000_000)
        return ConsumeStatus.CONSUME_SUCCESS

    async def _bury(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        """Dead letters are messages of a topic like any other; a flight sent twice may die twice."""
        self._dead.update(message.keys.partition(" ")[0] for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async def _send_all(self, producer: Producer) -> None:
        flights = islice(read_flights(), self._flights_in_all)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(self._send_some(producer, flights))

    async def _send_some(self, producer: Producer, flights: "islice[Flight]") -> None:
        for flight in flights:
            message = Message(TOPIC, flight.body, tags=flight.carrier, keys=flight.keys)
            while True:
                try:
                    await producer.send(message)
                    break
                except ClientError:
                    # The broker is down: the flight is ours until a broker has it. Sent again under the same key.
                    self._run.resent += 1
                    await asyncio.sleep(RESEND_PAUSE_S)
            self._run.sent += 1

    async def _kill_once(self) -> None:
        while self._run.sent < KILL_AT * self._flights_in_all:
            await asyncio.sleep(0.02)
        self._run.killed_at_s = self._elapsed()
        self._broker.kill()
        await asyncio.sleep(DOWN_S)
        await self._broker.start()
        self._run.back_at_s = self._elapsed()

    async def _until_quiet(self) -> None:
        """Until every flight is on the board or a dead letter; raises when nothing moves for too long."""
        settled, moved_at = 0, time.monotonic()
        while settled < self._flights_in_all:
            if time.monotonic() - moved_at > QUIET_TIMEOUT_S:
                raise RegulusError(
                    f"nothing moved for {QUIET_TIMEOUT_S} s: {self._board.applied_flights()} flights are applied and "
                    f"{len(self._dead)} dead-lettered; {self._directory / 'broker.log'} may say why"
                )
            await asyncio.sleep(0.2)
            before, settled = settled, self._board.applied_flights() + len(self._dead)
            if settled != before:
                moved_at = time.monotonic()

    async def _watch(self) -> None:
        while True:
            self._tell_progress()
            await asyncio.sleep(0.2)

    def _tell_progress(self) -> None:
        self._progress(self._run.sent, self._board.applied, len(self._dead))

    def _elapsed(self) -> float:
        return time.monotonic() - self._started_at


def run_demo(
    directory: Path, port: int, name_server_port: int, progress: Progress, flights_in_all: int = FLIGHTS_IN_ALL
) -> DemoRun:
    """Leaves store and departure board in `directory`."""
    return asyncio.run(Demo(directory, port, name_server_port, flights_in_all, progress).run())
