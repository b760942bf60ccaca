"""What has threads of its own elsewhere: plain listeners are called by the loop, and blocking clients are refused."""

import inspect
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from regulus.client.consuming.listener_workers import ListenerWorkers, OnResult
from regulus.client.core.token_bucket import TokenBucket
from regulus.client.foreign_calls import is_async
from regulus.client.listener import ConsumeContext, ConsumeStatus, MessageListener
from regulus.errors import RegulusError
from regulus.model.message import MessageExt


class LoopWorkers(ListenerWorkers):
    """Each call of a plain function is one step of the loop, during which no time passes."""

    def __init__(self, listener: MessageListener, count: int, on_result: OnResult,
                 bucket: TokenBucket | None = None) -> None:
        super().__init__(listener if is_async(listener) else _as_coroutine(listener), count, on_result, bucket)


def _as_coroutine(listener: MessageListener) -> MessageListener:
    async def call(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        try:
            said = listener(messages, context)
            return await said if inspect.isawaitable(said) else said
        except SystemExit as error:     # a thread of the listener would end, and nothing else
            raise RuntimeError("the listener called sys.exit()") from error
    return call


def refuse_blocking(coroutine: Coroutine[Any, Any, Any]) -> "Future[Any]":
    """In the place of `shared_loop.submit`."""
    coroutine.close()
    raise RegulusError("the blocking clients run in a thread, where the simulated time does not pass: use the asyncio "
                       "clients here, or the fixture regulus_server")
