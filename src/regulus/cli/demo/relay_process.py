"""The relay of the demo, and what belongs beside one: brings stubs to the broker, writes down how far the consumer got,
and leaves to a human what it gave up.

    python -m regulus.cli.demo.relay_process DIRECTORY NAME_SERVER
"""

import sys
from pathlib import Path

from regulus.cli.demo.board_process import CONSUMER_GROUP
from regulus.cli.demo.databases import airports
from regulus.cli.demo.processes import until_told_to_stop
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.model.topics import dlq_topic
from regulus.reliability.broker_watch import BrokerWatch
from regulus.reliability.dead_letters import DeadLetterListener
from regulus.reliability.relay import RelayConfig
from regulus.reliability.relay_loop import Relay
from regulus.reliability.retry_policy import ResendPolicy
from regulus.transport import event_loop

# What was under way when something was killed is sent again within seconds, where a minute is usual; later than a
# cancelled flight is parked, or each of these would come once more. On a slow machine each does: the pauses grow, or
# the copies would crowd out the retries that end them. How often is no matter, for of a flight that is given up before
# its retries end the log knows nothing.
POLICY = ResendPolicy(interval_ms=10_000, interval_ms_max=40_000, attempts_max=1_000)
WATCH_INTERVAL_MS = 1_000
POLL_INTERVAL_MS = 100


async def relay(directory: Path, name_server: str) -> None:
    engine = airports(directory)
    dead_letters = PushConsumer(name_server, "cancelled_flights", DeadLetterListener(engine), PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_thread_max=1))
    dead_letters.subscribe(dlq_topic(CONSUMER_GROUP))
    async with (Relay(engine, name_server, config=RelayConfig(policy=POLICY, poll_interval_ms=POLL_INTERVAL_MS)),
                BrokerWatch(engine, name_server, [CONSUMER_GROUP], WATCH_INTERVAL_MS)):
        await until_told_to_stop(dead_letters)


if __name__ == "__main__":
    event_loop.run(relay(Path(sys.argv[1]), sys.argv[2]))
