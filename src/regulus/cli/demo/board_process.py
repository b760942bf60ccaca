"""The consumer of the demo: applies each flight once to the departure board, and confirms its stub at the airports.

    python -m regulus.cli.demo.board_process DIRECTORY NAME_SERVER
"""

import logging
import sys
from pathlib import Path

from regulus.cli.demo.airports import TOPIC
from regulus.cli.demo.databases import airports, departure_board
from regulus.cli.demo.departures import depart
from regulus.cli.demo.processes import until_told_to_stop
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.model.message import MessageExt
from regulus.reliability.confirms import StubConfirms
from regulus.reliability.inbox import ApplyOnce
from regulus.transport import event_loop

CONSUMER_GROUP = "departure_board"
MAX_RECONSUME_TIMES = 2
CACHED_MAX = 100
"""Messages of a queue. What is retried waits behind them: with many, longer than until its stub is due again."""
TOGETHER_MAX = 32
"""Flights of one call, whose effects share a commit, and their confirmations another."""


async def consume(directory: Path, name_server: str) -> None:
    listener = ApplyOnce(departure_board(directory), depart, confirms=StubConfirms(airports(directory)))
    listener.check()

    # Here in the event loop, not in a thread: a file of SQLite has one writer at a time, and that one needs less time
    # than to be handed a message.
    async def apply(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        return listener(messages, context)

    consumer = PushConsumer(name_server, CONSUMER_GROUP, apply, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume_times=MAX_RECONSUME_TIMES,
        pull_threshold_for_queue=CACHED_MAX, consume_message_batch_max_size=TOGETHER_MAX))
    consumer.subscribe(TOPIC)
    await until_told_to_stop(consumer)


if __name__ == "__main__":
    # Cancelled flights fail on purpose; a traceback for each of 25,000 deliveries would hide everything else.
    for name in ("regulus.client.consuming.listener_workers", "regulus.reliability.applying"):
        logging.getLogger(name).setLevel(logging.ERROR)
    event_loop.run(consume(Path(sys.argv[1]), sys.argv[2]))
