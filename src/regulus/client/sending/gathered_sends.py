"""Concurrent sends that travel together: each caller has its own result, the requests are few.

A *lane* is what may be one batch: a topic, a queue if one is wanted, a tag, a wish to wait for the store. Where nothing
is under way, what is sent in one moment leaves at the end of that moment. Where something is, sends gather until it is
answered, until they fill a batch, or until the first of them has waited `batch_max_delay_ms`.

Source: ProduceAccumulator.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from regulus.client.config import ProducerConfig
from regulus.client.core.batching import MESSAGE_OVERHEAD, content_size, may_gather, waits
from regulus.client.send_result import SendResult
from regulus.client.tasks import TaskGroup
from regulus.model.message import Message
from regulus.model.message_properties import TAGS
from regulus.model.message_queue import MessageQueue

SendTogether = Callable[[Sequence[Message], MessageQueue | None],
                        Coroutine[object, object, Sequence[SendResult | BaseException]]]
"""Sends messages of one lane, in order; each one's result, or why it has none."""

_LaneKey = tuple[str, MessageQueue | None, bool, str]


class _Lane:
    """`waiting` are messages that gather now, and who waits for their results."""

    __slots__ = ("key", "size", "timer", "under_way", "waiting")

    def __init__(self, key: _LaneKey) -> None:
        self.key = key
        self.size = 0
        self.timer: asyncio.Handle | None = None
        self.under_way = 0
        self.waiting: list[tuple[Message, asyncio.Future[SendResult]]] = []


class GatheredSends:
    """`held_size` counts the bytes of bodies and properties that gather, in all lanes."""

    def __init__(self, config: ProducerConfig, send: SendTogether, tasks: TaskGroup) -> None:
        self.held_size = 0
        self._held_size_max = config.total_batch_max_bytes
        self._batch_size_max = config.batch_max_bytes
        self._body_size_max = config.max_message_size
        self._delay_s = config.batch_max_delay_ms / 1000
        # What is large enough to be compressed is a batch of its own, because batches are not compressed.
        self._compressed_from = config.compress_msg_body_over_howmuch
        self._send = send
        self._tasks = tasks
        self._lanes: dict[_LaneKey, _Lane] = {}

    def add(self, message: Message, queue: MessageQueue | None) -> "asyncio.Future[SendResult] | None":
        """The result to come; None when the message must be sent directly."""
        size = content_size(message)
        if not may_gather(message) or self.held_size + size > self._held_size_max:
            return None
        key = (message.topic, queue, waits(message), message.properties.get(TAGS, ""))
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        is_alone = size >= self._batch_size_max or len(message.body) >= self._compressed_from
        if lane.waiting and (is_alone or not self._fits(lane, size)):
            self._leave(lane)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SendResult] = loop.create_future()
        lane.waiting.append((message, future))
        lane.size += size
        self.held_size += size
        if is_alone or lane.size >= self._batch_size_max:
            self._leave(lane)
        elif lane.timer is None:
            lane.timer = (loop.call_later(self._delay_s, self._leave, lane) if lane.under_way and self._delay_s
                          else loop.call_soon(self._leave, lane))
        return future

    def _fits(self, lane: _Lane, size: int) -> bool:
        """Small messages weigh little in `batch_max_bytes`, and yet each needs room in what a broker takes at once."""
        return (lane.size + size <= self._batch_size_max and
                lane.size + size + MESSAGE_OVERHEAD * (len(lane.waiting) + 1) <= self._body_size_max)

    def send_all(self) -> None:
        """Let everything that gathers leave now."""
        for lane in list(self._lanes.values()):
            if lane.waiting:
                self._leave(lane)

    def _leave(self, lane: _Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        # Whoever gave up meanwhile is not sent any more.
        waiting = [each for each in lane.waiting if not each[1].done()]
        lane.waiting = []
        self.held_size -= lane.size
        lane.size = 0
        if waiting:
            lane.under_way += 1
            self._tasks.spawn_with(self._send([message for message, _ in waiting], lane.key[1]),
                                   f"batch to {lane.key[0]}", lambda task: self._done(lane, task, waiting))
        elif not lane.under_way:
            self._lanes.pop(lane.key, None)

    def _done(self, lane: _Lane, task: "asyncio.Task[Sequence[SendResult | BaseException]]",
              waiting: "Sequence[tuple[Message, asyncio.Future[SendResult]]]") -> None:
        """Give each caller its own result, or all of them the same failure."""
        lane.under_way -= 1
        if task.cancelled():
            for _, future in waiting:
                future.cancel()
        else:
            error = task.exception()
            results = [error] * len(waiting) if error is not None else task.result()
            for (_, future), result in zip(waiting, results, strict=True):
                _settle(future, result)
        if lane.waiting and self._delay_s:
            self._leave(lane)
        elif not lane.under_way and not lane.waiting:
            self._lanes.pop(lane.key, None)


def _settle(future: "asyncio.Future[SendResult]", result: SendResult | BaseException) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


def split_result(result: SendResult, messages: Sequence[Message]) -> list[SendResult]:
    """The result of each message of a batch."""
    if len(messages) == 1:
        return [result]
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != len(messages):
        offset_ids = [result.offset_message_id] * len(messages)
    return [SendResult(result.send_status, message.message_id, result.message_queue, result.queue_offset + index,
                       offset_id) for index, (message, offset_id) in enumerate(zip(messages, offset_ids, strict=True))]
