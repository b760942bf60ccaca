"""Carries out renewals and releases at brokers, and finds the valid handle when a client decides on a message."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from regulus.errors import CallRefused
from regulus.proxy import popping, receipt_handle, settings
from regulus.proxy.brokers import Brokers
from regulus.proxy.caller import ClientKey
from regulus.proxy.config import ProxyConfig
from regulus.proxy.lanes import Lanes
from regulus.proxy.receipt_handle import PlacedReceipt
from regulus.proxy.renewals import DUE_MAX, Key, Renewals, Renewed
from regulus.wire.grpc.codes import Code

_log = logging.getLogger(__name__)
_Told = TypeVar("_Told")

CHANGE_S_MAX = 5.0
"""How long one change of an invisible time may take, including the search for its broker."""


class Renewing:
    """Renews messages that clients work on. `is_known` returns whether a client lives: messages of others are not
    renewed."""

    def __init__(self, brokers: Brokers, config: ProxyConfig, now_ms: Callable[[], int],
                 is_known: Callable[[ClientKey], bool]) -> None:
        self._brokers = brokers
        self._config = config
        self._now_ms = now_ms
        self._is_known = is_known
        self._renewals = Renewals(config)
        self._under_way: dict[Key, asyncio.Future[None]] = {}
        self._lanes = Lanes()

    def __len__(self) -> int:
        return len(self._renewals)

    def add(self, renewed: Renewed) -> None:
        """Renew a message from now on, unless its client is gone. At the limit it is not renewed, and a warning says
        so."""
        if not self._is_known(renewed.client):
            return
        if not self._renewals.add(renewed):
            _log.warning("%d messages are renewed already, which is the limit (renewalsMax): a message that is "
                         "received now becomes visible to others when its time ends", len(self._renewals))

    def drop(self, key: Key) -> None:
        """Stop renewing a message that never reached its client."""
        self._renewals.take(key)

    @asynccontextmanager
    async def decided(self, key: Key, *, live: bool = True) -> AsyncIterator[PlacedReceipt]:
        """Give the valid handle for the one that the client sent, and stop renewing its message.

        The client may try again if the body of the `async with` fails, except with INVALID_RECEIPT_HANDLE, or is
        cancelled. The message is then renewed as before, or released if its client is gone. If the message was not
        renewed, the valid handle is the client's own, which must not have expired if `live`. Raises CallRefused."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            await asyncio.wait([under_way])
        renewed = self._renewals.take(key)
        if renewed is None:
            yield receipt_handle.live(key[2], self._now_ms()) if live else receipt_handle.parse(key[2])
            return
        is_decided = False
        try:
            yield renewed.handle
            is_decided = True
        except CallRefused as error:
            is_decided = error.code == Code.INVALID_RECEIPT_HANDLE
            raise
        finally:
            if not is_decided:      # also when the call is cancelled
                self._undecided(renewed)

    def _undecided(self, renewed: Renewed) -> None:
        if self._is_known(renewed.client):
            self.add(renewed)
        else:
            self.release(renewed.group, renewed.topic, [renewed.handle])

    def begin_due(self) -> bool:
        """Begin at most DUE_MAX renewals and DUE_MAX releases for clients that left. True if more may be due now."""
        due = self._renewals.due(self._now_ms())
        for renewed in due:
            if not self._lanes.put(renewed.handle.broker, partial(self._renew, renewed)):
                self._renewals.begin(renewed)
                self._renewals.failed(renewed, is_final=False, now_ms=self._now_ms())
        return self._begin_left() or len(due) == DUE_MAX

    def _begin_left(self) -> bool:
        left = self._renewals.take_left()
        for taken in left:
            self.release(taken.group, taken.topic, [taken.handle])
        return bool(left)

    def release_client(self, client: ClientKey, group: str | None = None) -> None:
        """Make the messages that a client holds, or those of one group, visible to others soon.

        It begins with DUE_MAX messages, and `begin_due` continues. If the client comes back and decides on a message
        before that, its decision counts."""
        self._renewals.leave(client, group)
        self._begin_left()

    def release(self, group: str, topic: str, handles: Iterable[PlacedReceipt]) -> None:
        """Make messages visible soon that no client will acknowledge. If that fails, they become visible when their
        time ends."""
        for handle in handles:
            self._lanes.put(handle.broker, partial(self._release, group, topic, handle))

    def give_back(self, group: str, topic: str, handles: Iterable[PlacedReceipt]) -> None:
        """Make messages that reached no client visible at once, without counting a delivery."""
        for handle in handles:
            self._lanes.put(handle.broker, partial(self._give_back, group, topic, handle))

    def give_up(self) -> None:
        """Release all messages that were renewed, because the server stops.

        Only this proxy knows their valid handles. The other messages are left alone: their clients can acknowledge them
        at another proxy."""
        self._renewals.leave_renewed()

    async def finish(self) -> None:
        """Begin all releases, and wait at most FINISH_MS for all requests to brokers."""
        while self._begin_left():
            await asyncio.sleep(0)
        await self._lanes.finish()

    async def _release(self, group: str, topic: str, handle: PlacedReceipt) -> None:
        try:
            await self._change(group, topic, handle, self._config.invisible_time_millis_when_clear)
        except CallRefused as error:
            _log.debug("a message of group %s becomes visible when its time ends: %s", group, error)

    async def _give_back(self, group: str, topic: str, handle: PlacedReceipt) -> None:
        try:
            await _within(popping.give_back(self._brokers, group, topic, handle), handle.broker)
        except CallRefused as error:
            _log.debug("a message of group %s that reached no client becomes visible when its time ends: %s", group,
                       error)

    async def _renew(self, renewed: Renewed) -> None:
        if not self._renewals.begin(renewed):
            return
        if not self._is_known(renewed.client):       # it was known only by another group, which it has left
            self._renewals.take(renewed.key)
            self.release(renewed.group, renewed.topic, [renewed.handle])
            return
        self._under_way[renewed.key] = done = asyncio.get_running_loop().create_future()
        try:
            await self._renew_one(renewed)
        finally:
            del self._under_way[renewed.key]
            done.set_result(None)

    async def _renew_one(self, renewed: Renewed) -> None:
        now_ms = self._now_ms()
        is_over = self._renewals.is_over(renewed, now_ms)
        wanted_ms = (settings.retry_delay_ms(renewed.attempts) if is_over
                     else self._renewals.extension_ms(renewed, now_ms))
        if is_over:
            self._renewals.take(renewed.key)
        try:
            handle = await self._change(renewed.group, renewed.topic, renewed.handle, wanted_ms)
        except CallRefused as error:
            if not is_over:
                self._renewals.failed(renewed, is_final=error.code == Code.INVALID_RECEIPT_HANDLE,
                                      now_ms=self._now_ms())
            _log.info("message %s of group %s was not renewed: %s", renewed.message_id, renewed.group, error)
            return
        if not is_over and not self._renewals.renewed(renewed, handle):
            # Its client decided or left meanwhile: no client will acknowledge the handle that was just made.
            self.release(renewed.group, renewed.topic, [handle])

    async def _change(self, group: str, topic: str, handle: PlacedReceipt, invisible_ms: int) -> PlacedReceipt:
        """Change the invisible time of a message, within CHANGE_S_MAX. Raises CallRefused."""
        return await _within(popping.change_invisible(self._brokers, group, topic, handle, invisible_ms), handle.broker)


async def _within(asking: Awaitable[_Told], broker: str) -> _Told:
    """Await a request to a broker. Raises CallRefused, PROXY_TIMEOUT after CHANGE_S_MAX."""
    try:
        async with asyncio.timeout(CHANGE_S_MAX):
            return await asking
    except TimeoutError as error:
        raise CallRefused(Code.PROXY_TIMEOUT, f"broker {broker} does not answer within {CHANGE_S_MAX} s") from error
