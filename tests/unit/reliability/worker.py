"""A relay and a consumer in a process of their own, to be killed: `worker.py <database> <name server>`."""

import asyncio
import sys

from sqlalchemy import create_engine

from regulus.client.push_consumer import PushConsumer
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.relay import RelayConfig
from regulus.reliability.relay_loop import Relay
from regulus.reliability.retry_policy import ResendPolicy
from tests.unit.reliability.consumed import FROM_FIRST
from tests.unit.reliability.shop import book


async def main(database: str, name_server: str) -> None:
    engine = create_engine(database)
    config = RelayConfig(policy=ResendPolicy(interval_ms=1_500, interval_ms_max=1_500, attempts_max=1_000),
                         batch_max=20, poll_interval_ms=50)
    consumer = PushConsumer(name_server, "billing", ApplyOnce(engine, book), FROM_FIRST)
    consumer.subscribe("orders")
    async with Relay(engine, name_server, config=config), consumer:
        print("works", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
