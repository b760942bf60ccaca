"""The relay process of the demo: it sends stubs to the broker, records how far the consumer got, and leaves dead
letters to a human.

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

# Messages that were under way when a process was killed are sent again within seconds, not after the usual minute. The
# interval is longer than a cancelled flight needs to be parked: otherwise each of those would be sent once more. On a
# slow machine this happens nevertheless. The pauses grow, because the copies would otherwise crowd out the retries that
# end them. The number of attempts is practically unlimited, because the log has no trace of a flight that is given up
# before its retries end.
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
