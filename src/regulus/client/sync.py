"""The same clients for programs without an event loop: every method blocks until it is done.

        with Producer("127.0.0.1:9876", "my-group") as producer:
            producer.send(Message("my-topic", b"hello"))

All blocking clients of a process share one event loop in a thread of its own, and so their connections. They may be
used from any number of threads; a consumer's listener is called in a pool of threads, as with the asyncio client.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from regulus.client import admin as asyncio_admin
from regulus.client import producer as asyncio_producer
from regulus.client import push_consumer as asyncio_push_consumer
from regulus.client import transaction_producer as asyncio_transaction_producer
from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig
from regulus.client.core.queue_selector import QueueSelector
from regulus.client.listener import MessageListener
from regulus.client.send_result import SendResult
from regulus.client.transaction_producer import (
    Check,
    Execute,
    HalfMessage,
    TransactionProducerConfig,
    TransactionSendResult,
    TransactionState,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.transport.event_loop import loop_factory

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
# A forked child has the loop but not its thread; clients made there get a loop of their own.
os.register_at_fork(after_in_child=_loops.clear)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """The coroutine's result, run in the shared event loop. Raises what it raises."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


def submit(coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
    """Begin the coroutine in the shared event loop and return at once."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = loop_factory()()
            threading.Thread(target=loop.run_forever, name="regulus-clients", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


class Producer:
    """Blocking `regulus.Producer`."""

    def __init__(self, name_server: str, group: str, config: ProducerConfig | None = None) -> None:
        self._producer = _made_in_loop(lambda: asyncio_producer.Producer(name_server, group, config))

    def start(self) -> None:
        run(self._producer.start())

    def shutdown(self) -> None:
        run(self._producer.shutdown())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.shutdown()

    def send(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
             argument: object = None, timeout_ms: int | None = None) -> SendResult:
        return run(self._producer.send(message, queue=queue, selector=selector, argument=argument,
                                       timeout_ms=timeout_ms))

    def send_async(self, message: Message, *, queue: MessageQueue | None = None,
                   timeout_ms: int | None = None) -> "Future[SendResult]":
        """Begin a send and return at once; the future has the result or the error."""
        sending = self._producer.send(message, queue=queue, timeout_ms=timeout_ms)
        return asyncio.run_coroutine_threadsafe(sending, _loop())

    def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue | None = None,
                   timeout_ms: int | None = None) -> SendResult:
        return run(self._producer.send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        run(self._producer.send_oneway(message, queue=queue))

    def fetch_publish_message_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        return run(self._producer.fetch_publish_message_queues(topic))


class TransactionProducer(Producer):
    """Blocking `regulus.TransactionProducer`; its callbacks are called in threads."""

    _producer: asyncio_transaction_producer.TransactionProducer

    def __init__(self, name_server: str, group: str, check: Check | None = None,
                 config: TransactionProducerConfig | None = None, *, topics: Iterable[str] = ()) -> None:
        self._producer = _made_in_loop(lambda: asyncio_transaction_producer.TransactionProducer(
            name_server, group, check, config, topics=topics))

    def send_in_transaction(self, message: Message, execute: Execute, *,
                            timeout_ms: int | None = None) -> TransactionSendResult:
        return run(self._producer.send_in_transaction(message, execute, timeout_ms=timeout_ms))

    def send_half(self, message: Message, *, queue: MessageQueue | None = None, immunity_s: int | None = None,
                  timeout_ms: int | None = None) -> HalfMessage:
        return run(self._producer.send_half(message, queue=queue, immunity_s=immunity_s, timeout_ms=timeout_ms))

    def end_transaction(self, half: HalfMessage, state: TransactionState, *, from_check: bool = False,
                        timeout_ms: int | None = None) -> None:
        run(self._producer.end_transaction(half, state, from_check=from_check, timeout_ms=timeout_ms))


class PushConsumer:
    """Blocking `regulus.PushConsumer`; it consumes in the background between `start` and `shutdown`."""

    def __init__(self, name_server: str, group: str, listener: MessageListener,
                 config: PushConsumerConfig | None = None) -> None:
        self._consumer = _made_in_loop(
            lambda: asyncio_push_consumer.PushConsumer(name_server, group, listener, config))

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = "TAG") -> None:
        _made_in_loop(lambda: self._consumer.subscribe(topic, expression, expression_type))

    def start(self) -> None:
        run(self._consumer.start())

    def shutdown(self) -> None:
        run(self._consumer.shutdown())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.shutdown()

    def suspend(self) -> None:
        _made_in_loop(self._consumer.suspend)

    def resume(self) -> None:
        _made_in_loop(self._consumer.resume)

    def assigned_queues(self) -> list[MessageQueue]:
        return _made_in_loop(self._consumer.assigned_queues)


def _blocking(
    method: Callable[Concatenate[asyncio_admin.Admin, P], Coroutine[Any, Any, R]],
) -> "Callable[Concatenate[Admin, P], R]":
    @wraps(method)
    def call(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(self._admin, *args, **kwargs))
    return call


class Admin:
    """Blocking `regulus.Admin`."""

    def __init__(self, name_server: str, config: ClientConfig | None = None) -> None:
        self._admin = asyncio_admin.Admin(name_server, config)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.shutdown()

    start = _blocking(asyncio_admin.Admin.start)
    shutdown = _blocking(asyncio_admin.Admin.shutdown)
    cluster_info = _blocking(asyncio_admin.Admin.cluster_info)
    topic_route = _blocking(asyncio_admin.Admin.topic_route)
    master_addresses = _blocking(asyncio_admin.Admin.master_addresses)
    create_topic = _blocking(asyncio_admin.Admin.create_topic)
    delete_topic = _blocking(asyncio_admin.Admin.delete_topic)
    list_topics = _blocking(asyncio_admin.Admin.list_topics)
    topic_configs = _blocking(asyncio_admin.Admin.topic_configs)
    topic_stats = _blocking(asyncio_admin.Admin.topic_stats)
    groups_of_topic = _blocking(asyncio_admin.Admin.groups_of_topic)
    put_kv = _blocking(asyncio_admin.Admin.put_kv)
    get_kv = _blocking(asyncio_admin.Admin.get_kv)
    queues = _blocking(asyncio_admin.Admin.queues)
    max_offset = _blocking(asyncio_admin.Admin.max_offset)
    min_offset = _blocking(asyncio_admin.Admin.min_offset)
    search_offset = _blocking(asyncio_admin.Admin.search_offset)
    earliest_store_time = _blocking(asyncio_admin.Admin.earliest_store_time)
    create_group = _blocking(asyncio_admin.Admin.create_group)
    delete_group = _blocking(asyncio_admin.Admin.delete_group)
    list_groups = _blocking(asyncio_admin.Admin.list_groups)
    group_configs = _blocking(asyncio_admin.Admin.group_configs)
    group_config = _blocking(asyncio_admin.Admin.group_config)
    consumer_connection = _blocking(asyncio_admin.Admin.consumer_connection)
    consumer_running_info = _blocking(asyncio_admin.Admin.consumer_running_info)
    consume_stats = _blocking(asyncio_admin.Admin.consume_stats)
    progress = _blocking(asyncio_admin.Admin.progress)
    reset_offset_by_timestamp = _blocking(asyncio_admin.Admin.reset_offset_by_timestamp)
    reset_offset = _blocking(asyncio_admin.Admin.reset_offset)
    set_offsets = _blocking(asyncio_admin.Admin.set_offsets)
    group_offset = _blocking(asyncio_admin.Admin.group_offset)
    queue_state = _blocking(asyncio_admin.Admin.queue_state)
    read_queue = _blocking(asyncio_admin.Admin.read_queue)
    view_message = _blocking(asyncio_admin.Admin.view_message)
    messages_by_unique_key = _blocking(asyncio_admin.Admin.messages_by_unique_key)
    messages_by_key = _blocking(asyncio_admin.Admin.messages_by_key)
    message_at = _blocking(asyncio_admin.Admin.message_at)
    pull = _blocking(asyncio_admin.Admin.pull)
    broker_runtime_info = _blocking(asyncio_admin.Admin.broker_runtime_info)
    broker_config = _blocking(asyncio_admin.Admin.broker_config)
    update_broker_config = _blocking(asyncio_admin.Admin.update_broker_config)
    clean_expired_consume_queues = _blocking(asyncio_admin.Admin.clean_expired_consume_queues)
    delete_expired_commit_log = _blocking(asyncio_admin.Admin.delete_expired_commit_log)
    log_state = _blocking(asyncio_admin.Admin.log_state)
    update_archived_offset = _blocking(asyncio_admin.Admin.update_archived_offset)
    read_commit_log = _blocking(asyncio_admin.Admin.read_commit_log)
    sink_marks = _blocking(asyncio_admin.Admin.sink_marks)


def _made_in_loop(make: Callable[[], R]) -> R:
    """What `make` gives, called in the event loop, where the clients' parts live."""
    async def call() -> R:
        return make()
    return run(call())
