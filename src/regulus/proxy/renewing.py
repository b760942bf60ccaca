"""Carries out what `renewals` says is due, and lets clients decide on what is renewed for them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused
from regulus.proxy import popping, receipt_handle, settings
from regulus.proxy.brokers import Brokers
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receipt_handle import ReceiptHandle
from regulus.proxy.renewals import Key, Renewals, Renewed
from regulus.wire.grpc.codes import Code

_log = logging.getLogger(__name__)

AT_ONCE_MAX = 64
"""Renewals under way."""


class Renewing:
    def __init__(self, brokers: Brokers, config: ProxyConfig, now_ms: Callable[[], int]) -> None:
        self._brokers = brokers
        self._config = config
        self._now_ms = now_ms
        self._renewals = Renewals(config)
        self._under_way: dict[Key, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE_MAX)
        self._tasks = TaskGroup()

    def __len__(self) -> int:
        return len(self._renewals)

    def add(self, renewed: Renewed) -> None:
        if not self._renewals.add(renewed):
            _log.warning("%d messages are renewed already, and no more can be (renewalsMax): what is received now "
                         "becomes visible to others in its time", len(self._renewals))

    @asynccontextmanager
    async def decided(self, key: Key, *, live: bool = True) -> AsyncIterator[ReceiptHandle]:
        """The handle that counts for one that a client gives, whose message is not renewed any more, unless what is
        done with it fails and may be tried again. Without a renewal it is the handle itself, which must be `live`.
        Raises CallRefused."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            await asyncio.wait([under_way])
        renewed = self._renewals.take(key)
        if renewed is None:
            yield receipt_handle.live(key[2], self._now_ms()) if live else receipt_handle.parse(key[2])
            return
        try:
            yield renewed.handle
        except CallRefused as error:
            if error.code != Code.INVALID_RECEIPT_HANDLE:
                self._renewals.add(renewed)
            raise

    def begin_due(self) -> None:
        """Costs what is due."""
        for renewed in self._renewals.due(self._now_ms()):
            task = self._tasks.spawn(self._renew(renewed), f"renewal for {renewed.client_id}")
            self._under_way[renewed.key] = task
            task.add_done_callback(partial(self._done, renewed.key))

    def _done(self, key: Key, task: asyncio.Task[None]) -> None:
        self._under_way.pop(key, None)

    async def release_all(self, client_id: str) -> None:
        """What a client has in hand that is gone becomes visible to others soon."""
        for taken in self._renewals.take_client(client_id):
            await popping.release(self._brokers, taken.group, taken.topic, [taken.handle],
                                  self._config.invisible_time_millis_when_clear)

    async def stop(self) -> None:
        await self._tasks.cancel()

    async def _renew(self, renewed: Renewed) -> None:
        async with self._room:
            is_over = self._renewals.is_over(renewed, self._now_ms())
            wanted_ms = settings.retry_delay_ms(renewed.attempts) if is_over else self._renewals.extension_ms(renewed)
            if is_over:
                self._renewals.take(renewed.key)
            try:
                handle = await popping.change_invisible(self._brokers, renewed.group, renewed.topic, renewed.handle,
                                                        wanted_ms)
            except CallRefused as error:
                if not is_over:
                    self._renewals.failed(renewed, is_final=error.code == Code.INVALID_RECEIPT_HANDLE,
                                          now_ms=self._now_ms())
                _log.info("message %s of group %s was not renewed: %s", renewed.message_id, renewed.group, error)
                return
            if not is_over and not self._renewals.renewed(renewed, handle):
                # Its client has gone meanwhile: nobody will acknowledge it by the handle that was just made.
                await popping.release(self._brokers, renewed.group, renewed.topic, [handle],
                                      self._config.invisible_time_millis_when_clear)
