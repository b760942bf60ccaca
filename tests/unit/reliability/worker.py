"""A business, its relay and its consumer in one process, to be killed and started again."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sqlalchemy import create_engine, select

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.sync import Producer
from regulus.model.topics import dlq_topic
from regulus.reliability import applying
from regulus.reliability.confirms import CONFIRMATION_TOPIC, ConfirmationListener, MessageConfirms, StubConfirms
from regulus.reliability.dead_letters import DeadLetterListener
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.relay import RelayConfig
from regulus.reliability.relay_loop import Relay
from regulus.reliability.retry_policy import ResendPolicy
from regulus.testing.crash_points import await_settled
from tests.unit.reliability.kept_in_a_file import FileClaims
from tests.unit.reliability.shop import book, count_stubs, orders, place_orders
from tests.waiting import until

GROUP = "billing"
BEHIND = "behind"
"""The order that is placed last: when it is booked, all copies before it in the one queue were consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a process works with. `claims`: a file, or the address of a Redis."""

    database: str
    name_server: str
    order: str = "1"
    claims: str = ""
    lease_ms: int = 300_000
    fails: int = 0              # deliveries whose effect fails
    retries_max: int = -1
    own_database: str = ""      # of the consumer, where it has one
    tells_by_message: bool = False
    interval_ms: int = 150
    attempts_max: int = 1_000
    stale_ms: int = 130 * 60_000
    at_once: int = 1            # messages of one call
    orders_behind: int = 0      # placed with the order, and consumed with it
    relays: bool = True
    consumes: bool = True


def work(setting, *, is_last=False):
    """Place the order if it is not there, relay and consume, until it is settled; `is_last`: and no copy is left."""
    asyncio.run(_work(setting, is_last=is_last))


def finish(setting):
    work(setting, is_last=True)


async def _work(setting, *, is_last):
    engine = create_engine(setting.database)
    _place(engine, setting.order, *orders_with(setting))
    if setting.at_once > 1:
        applying.TOGETHER_MS_MAX = 60_000       # however slow the machine is
    async with AsyncExitStack() as running:
        confirms = None
        if setting.tells_by_message:
            confirms = MessageConfirms(running.enter_context(Producer(setting.name_server, "confirms")))
        elif setting.own_database:
            confirms = StubConfirms(engine)
        for each in _parts(setting, engine, confirms):
            await running.enter_async_context(each)
            if setting.at_once > 1:     # behind the relay, so that the consumer finds all of them at once
                await until(lambda: count_stubs(engine, status="UNCONFIRMED", queue_offset=None) == 0)
        await asyncio.to_thread(await_settled, engine, [setting.order, *orders_with(setting)])
        if is_last:
            _place(engine, BEHIND)
            await asyncio.to_thread(await_settled, engine, [BEHIND])


def orders_with(setting):
    return [f"{setting.order}-{number}" for number in range(setting.orders_behind)]


def _place(engine, *ids):
    """In one transaction, so that they are sent, and consumed, together."""
    with engine.connect() as connection:
        is_placed = connection.execute(select(orders.c.id).where(orders.c.id == ids[0])).first()
    if not is_placed:
        place_orders(engine, *ids)


def _parts(setting, engine, confirms):
    if setting.relays:
        policy = ResendPolicy(interval_ms=setting.interval_ms, interval_ms_max=setting.interval_ms,
                              attempts_max=setting.attempts_max, stale_ms=setting.stale_ms, retry_gap_ms=1, lease_ms=1)
        yield Relay(engine, setting.name_server, config=RelayConfig(policy=policy, poll_interval_ms=20))
    if setting.consumes:
        yield _consumer(setting, GROUP, "orders", _listener(setting, engine, confirms))
    if setting.retries_max == 0:
        yield _consumer(setting, "dead-letters", dlq_topic(GROUP), DeadLetterListener(engine))
    if setting.tells_by_message:
        yield _consumer(setting, "confirmations", CONFIRMATION_TOPIC, ConfirmationListener(engine))


def _consumer(setting, group, topic, listener):
    # One thread: what lies behind another message is consumed behind it.
    consumer = PushConsumer(setting.name_server, group, listener, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_thread_max=1,
        consume_message_batch_max_size=setting.at_once, max_reconsume_times=setting.retries_max,
        poll_name_server_interval=100))
    consumer.subscribe(topic)
    return consumer


def _listener(setting, engine, confirms):
    def effect(connection, message):
        book(connection, message)
        if message.reconsume_times < setting.fails and message.body.decode() != BEHIND:
            raise ValueError("no stock")

    effects = create_engine(setting.own_database) if setting.own_database else engine
    return ApplyOnce(effects, effect, claims=claims_of(setting), confirms=confirms)


def claims_of(setting):
    if not setting.claims:
        return None
    if setting.claims.startswith("redis:"):
        import redis

        from regulus.reliability.claims import RedisClaims

        return RedisClaims(redis.Redis.from_url(setting.claims, socket_timeout=5), GROUP, lease_ms=setting.lease_ms)
    return FileClaims(setting.claims, lease_ms=setting.lease_ms)
