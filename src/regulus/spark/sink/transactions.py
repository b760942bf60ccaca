"""Implements transactional sinks: tasks send half messages, and the driver's commit makes those of a batch visible.

    write     each row becomes a half message, which says which attempt of which task sent it
    commit    1. what was sent, and which attempt of each task counts, goes to the commit topic: the decision
              2. each half is committed         3. a last record says that this is done
    again     a batch that is decided already is not decided a second time: the halves of this time are rolled back,
              and those of the first time that are not visible yet are committed. For each topic the batch must have
              as many rows as the first time. Under a sinkId of the user, which may name other data by mistake, the
              rows must also be equal. A query's own id is that of its checkpoint, which gives the same input, though
              the rows made from it may differ each time (by the clock, by chance)
    ask       brokers that ask for a half are answered from the commit topic, by the workers that send for the sink

RocketMQ delivers a message twice that is committed twice. So a half is committed by one side only: by the driver, while
one is working; and a driver that takes over first checks whether the message is there.
"""

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress

from regulus.client import shared_loop
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.client.core.resend import RETRY_CODES, is_worth_a_retry
from regulus.client.sending.transaction_producer import (
    HalfMessage,
    TransactionProducer,
    TransactionProducerConfig,
    TransactionState,
)
from regulus.errors import (
    BrokerRefused,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    NoRoute,
    RequestTimeout,
    SinkRefused,
)
from regulus.model.message import MessageExt
from regulus.spark.sink.commits import Attempt, CommitTopic, RowSum, Verdicts
from regulus.spark.sink.options import SinkOptions
from regulus.spark.sink.rows import TRANSACTION_OF_SINK

ENDS_AT_ONCE = 64
RETRY_PAUSE_S = 0.2
ANSWERING_MAX = 64
"""Pairs of group and topic for which one worker process answers brokers, at most."""

_lock = threading.Lock()
_answering: dict[object, TransactionProducer] = {}


class Transactions:
    """The driver's side of one sink, for one call; use it with `async with`."""

    def __init__(self, options: SinkOptions, sink_id: str, client: ClientConfig) -> None:
        self._options = options
        self._sink_id = sink_id
        self._admin = Admin(options.name_server, client)
        self._producer = TransactionProducer(options.name_server, options.producer_group,
                                             config=producer_config(options, client))
        self._topic = CommitTopic(self._admin, commit_topic_of(options), sink_id)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Transactions":
        await self._stack.enter_async_context(self._admin)
        await self._stack.enter_async_context(self._producer)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def commit(self, batch: int, attempts: Mapping[str, str], halves: Sequence[HalfMessage],
                     rows: Mapping[str, RowSum]) -> None:
        """Make a batch visible. It may be called again, and must be after an error. Raises ClientError, SinkRefused."""
        decision = await self._topic.decision(batch)
        if decision.latest > batch:
            raise SinkRefused(f"sink {self._sink_id} has committed batch {decision.latest}, and this is batch {batch}: "
                              "the checkpoint is not the sink's; give a new sinkId")
        if decision.attempts is None:
            if not halves:
                return
            await self._topic.create()
            await self._topic.append_commit(self._producer, batch, attempts, halves, rows)
            await self._end_all(halves, TransactionState.COMMIT)
            await self._topic.append_done(self._producer, batch)
            return
        if decision.attempts != attempts:
            await self.roll_back(halves)
        if not decision.is_done:
            decided = await self._topic.halves(decision, self._options.producer_group)
            await self._end_all(decided, TransactionState.COMMIT, looks_first=True)
            await self._topic.append_done(self._producer, batch)
        if decision.attempts != attempts:
            self._check_rows(batch, decision.rows, rows)

    def _check_rows(self, batch: int, before: Mapping[str, RowSum], rows: Mapping[str, RowSum]) -> None:
        """Raises SinkRefused when a decided batch comes again, and its rows differ from those of the first time."""
        only_counts = self._options.sink_id is None
        for topic in sorted({*before, *rows}):
            one, other = before.get(topic, RowSum()), rows.get(topic, RowSum())
            if one.count != other.count or not (only_counts or one == other):
                raise SinkRefused(
                    f"sink {self._sink_id} has committed batch {batch} with {one} for topic {topic}, and now has "
                    f"{other} for it: these are other data and were not sent; give a new sinkId, or a batch write a "
                    "higher jobId")

    async def roll_back(self, halves: Sequence[HalfMessage]) -> None:
        """Roll back half messages; brokers ask later about those for which it fails."""
        with suppress(ClientError):
            await self._end_all(halves, TransactionState.ROLLBACK)

    async def _end_all(self, halves: Sequence[HalfMessage], state: TransactionState, looks_first: bool = False) -> None:
        """End as many half messages as possible, and then raise the first ClientError."""
        left = iter(halves)

        async def end_some() -> None:
            for half in left:
                if not (looks_first and await self._is_visible(half)):
                    await self._end(half, state)

        outcomes = await asyncio.gather(*(end_some() for _ in range(min(ENDS_AT_ONCE, len(halves)))),
                                        return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _end(self, half: HalfMessage, state: TransactionState) -> None:
        """End one half message. Raises ClientError when the retry budget is spent."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.retry_budget_ms / 1000
        while True:
            try:
                return await self._producer.end_transaction(half, state)
            except (ConnectFailed, ConnectionLost, RequestTimeout, NoRoute) as error:
                failure: ClientError = error
                if state is TransactionState.COMMIT and await self._is_visible_if_asked(half):
                    return None
            except BrokerRefused as error:
                failure = error
                if not is_worth_a_retry(error, RETRY_CODES):
                    raise
            if loop.time() + RETRY_PAUSE_S > until:
                raise failure
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _is_visible_if_asked(self, half: HalfMessage) -> bool:
        with suppress(ClientError):
            return await self._is_visible(half)
        return False

    async def _is_visible(self, half: HalfMessage) -> bool:
        """Whether the half was committed: its message is in its own topic. Raises ClientError."""
        try:
            return bool(await self._admin.messages_by_unique_key(half.topic, half.message_id))
        except NoRoute:
            return False


def commit_batch(options: SinkOptions, sink_id: str, batch: int, attempts: Mapping[str, str],
                 halves: Sequence[HalfMessage], rows: Mapping[str, RowSum], client: ClientConfig) -> None:
    async def run() -> None:
        async with Transactions(options, sink_id, client) as transactions:
            await transactions.commit(batch, attempts, halves, rows)
    shared_loop.run(run())


def roll_back(options: SinkOptions, sink_id: str, halves: Sequence[HalfMessage], client: ClientConfig) -> None:
    """Roll back half messages that no commit names."""
    async def run() -> None:
        async with Transactions(options, sink_id, client) as transactions:
            await transactions.roll_back(halves)
    if halves:
        shared_loop.run(run())


def answer_brokers(options: SinkOptions, client: ClientConfig, topics: Iterable[str]) -> None:
    """Answer the brokers of these topics when they ask about halves of the group, until this process ends."""
    for topic in topics:
        key = (options.name_server, options.producer_group, client, topic)
        with _lock:
            if key not in _answering and len(_answering) < ANSWERING_MAX:
                _answering[key] = shared_loop.run(_answerer(options, client, topic))


async def _answerer(options: SinkOptions, client: ClientConfig, topic: str) -> TransactionProducer:
    verdicts: dict[str, Verdicts] = {}
    admin = Admin(options.name_server, client)
    await admin.start()

    async def check(message: MessageExt) -> TransactionState:
        attempt = Attempt.parse(message.properties.get(TRANSACTION_OF_SINK, ""))
        if attempt is None:
            return TransactionState.UNKNOWN
        known = verdicts.get(attempt.sink_id)
        if known is None:
            known = Verdicts(CommitTopic(admin, commit_topic_of(options), attempt.sink_id))
            verdicts[attempt.sink_id] = known
        return await known.of(attempt)

    producer = TransactionProducer(options.name_server, options.producer_group, check,
                                   producer_config(options, client), topics=(topic,))
    await producer.start()
    return producer


def commit_topic_of(options: SinkOptions) -> str:
    return options.commit_topic or f"{options.producer_group}-commits"


def producer_config(options: SinkOptions, client: ClientConfig) -> TransactionProducerConfig:
    return TransactionProducerConfig(
        connect_timeout=client.connect_timeout, access_key=client.access_key, secret_key=client.secret_key,
        tls=client.tls,
        send_msg_timeout=options.send_timeout_ms, end_transaction_timeout=options.send_timeout_ms)
