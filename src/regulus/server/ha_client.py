"""Copies the master's log into this broker's store, for as long as the broker runs.

The slave requests the log from a position that includes its own last record. Once that record was found to be equal to
the master's, the slave reports each time that its log has grown: with SYNC_FLUSH when that is on disk, so that a master
that waits for the slave waits for its disk.

Source: HAService.HAClient, DefaultHAClient.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from regulus.access.credentials import parse_credentials
from regulus.broker.config import BrokerConfig
from regulus.errors import ClientError, FrameError, LogsDiffer, RegulusError, StoreError, StoreNotWritable
from regulus.server.byte_rate import ByteRate
from regulus.server.clock import Clock, wall_clock_ms
from regulus.server.kept_task import KeptTask
from regulus.server.master_settings import check, settings_of
from regulus.transport.config import TransportConfig
from regulus.transport.connector import CONNECT_TIMEOUT_MS, split_address
from regulus.transport.tls import client_context
from regulus.wire import ha_frame
from regulus.wire.bodies import HAClientRuntimeInfo

_log = logging.getLogger(__name__)

_DEFAULT_TRANSPORT = TransportConfig()
RETRY_S = 5.0
HA_PORT_OFFSET = 1
"""The distance between the port for clients and the default port for slaves."""
CLOCKS_APART_MS = 5_000


class LogTaker(Protocol):
    """Appends pieces of the master's log, as `store.log_copy` does."""

    @property
    def asked(self) -> int | None: ...

    @property
    def newest_ms(self) -> int: ...

    @property
    def fault(self) -> str: ...

    def ask_from(self) -> int: ...

    def hear_nothing(self, offset: int) -> None: ...

    def take(self, offset: int, piece: bytes) -> None: ...

    def interrupt(self) -> None: ...


class CopyingStore(Protocol):
    """What the client needs from the store."""

    @property
    def flushed_offset(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    @property
    def copy(self) -> LogTaker: ...


class _Link(asyncio.Protocol):
    """The link to the master. `ended` is done when the link has ended, and has the reason."""

    def __init__(self, client: "HaClient", loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[Exception] = loop.create_future()
        self._client = client
        self._loop = loop
        self._reader = ha_frame.PieceReader()
        self._transport: asyncio.Transport | None = None
        self.heard_at = self.reported_at = loop.time()
        self.rate = ByteRate(loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)       # uvloop's does not have this type

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.end(exc or ConnectionError("the master closed the connection"))

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self.rate.add(len(data), self.heard_at)
        try:
            self._client.take(self._reader.feed(data))
        except (FrameError, StoreError) as error:
            self.end(error)
            self.abort()

    def report(self, offset: int) -> None:
        if self._transport is not None:
            self.reported_at = self._loop.time()
            self._transport.write(ha_frame.encode_report(offset))

    def end(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class HaClient:
    """Copies the log. `file_size` is the size of the log's files.

    `on_copied` is called each time that the log has grown, `on_sure` once in each link when the log here is found to be
    the master's, `on_parted` each time that it is found to differ, with the reason.
    """

    def __init__(self, store: CopyingStore, config: BrokerConfig, file_size: int, on_copied: Callable[[], None],
                 on_sure: Callable[[], None], on_parted: Callable[[str], None], clock: Clock = wall_clock_ms,
                 transport_config: TransportConfig = _DEFAULT_TRANSPORT) -> None:
        self._store = store
        self._config = config
        self._file_size = file_size
        self._on_copied = on_copied
        self._on_sure = on_sure
        self._on_parted = on_parted
        self._clock = clock
        self._transport_config = transport_config
        self._waits_for_disk = config.sync_flush
        self._heartbeat = config.ha_send_heartbeat_interval / 1000
        self._silence_max = config.ha_housekeeping_interval / 1000
        self._loop = asyncio.get_running_loop()
        self._task = KeptTask("copying the master's log", self._keep_copying, RETRY_S)
        self._address = config.ha_master_address
        self._is_found = asyncio.Event()
        if self._address:
            self._is_found.set()
        self._is_fixed = bool(self._address)
        self._client_address = ""
        self._has_all = False
        self._has_begun = False
        self._link: _Link | None = None
        self._told = ""
        self._told_of_master: list[str] = []
        self._are_clocks_told = False

    @property
    def is_linked(self) -> bool:
        return self._link is not None

    @property
    def is_sure(self) -> bool:
        """Whether the log here was found to be that of the master to which there is a link."""
        return self._link is not None and self._store.copy.asked is None

    def status(self, now_ms: int) -> HAClientRuntimeInfo:
        """The state of the link to the master, for operators."""
        link, now, end = self._link, self._loop.time(), self._store.commit_log_max_offset()
        if link is None:
            return HAClientRuntimeInfo(master_addr=self._address, max_offset=end)
        return HAClientRuntimeInfo(
            master_addr=self._address, max_offset=end, transferred_byte_in_second=link.rate.bytes_in_second(now),
            last_read_timestamp=now_ms - int((now - link.heard_at) * 1000),
            last_write_timestamp=now_ms - int((now - link.reported_at) * 1000))

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()

    def master_at(self, address: str, ha_address: str) -> None:
        """Set the addresses of the master, and of its port for slaves, from a name server; a configured address has
        precedence."""
        if not self._is_fixed and ha_address:
            self._address, self._client_address = ha_address, address
            self._is_found.set()

    def flushed(self, offset: int) -> None:
        """Note that the disk has the log up to `offset`."""
        if self._waits_for_disk and self._link is not None and self._store.copy.asked is None:
            self._link.report(offset)

    def take(self, pieces: list[tuple[int, bytes]]) -> None:
        """Append pieces. Raises StoreError."""
        copy, before = self._store.copy, self._store.commit_log_max_offset()
        was_asking, was_idle = copy.asked is not None, self._has_all
        try:
            for offset, piece in pieces:
                if piece:
                    copy.take(offset, piece)
                else:
                    copy.hear_nothing(offset)
                    # A link begins with an empty piece that only states where the log continues.
                    was_idle = self._has_all = copy.asked is None and self._has_begun
                    self._has_begun = True
        finally:
            has_grown = self._store.commit_log_max_offset() > before
            if has_grown:
                self._look_at_clocks(was_idle)
                self._on_copied()
            is_proven = was_asking and copy.asked is None
            if self._link is not None and (is_proven or (has_grown and not self._waits_for_disk)):
                self._link.report(self._sure())
            if is_proven:
                self._be_sure()

    def _be_sure(self) -> None:
        self._told = ""
        self._on_sure()

    def _look_at_clocks(self, was_idle: bool) -> None:
        """Compare the clocks by the time of the newest record. If the master had nothing more before it, the record was
        stored just now."""
        self._has_all = False
        apart = self._clock() - self._store.copy.newest_ms
        if not self._are_clocks_told and (apart < -CLOCKS_APART_MS or (was_idle and apart > CLOCKS_APART_MS)):
            self._are_clocks_told = True
            _log.warning("the clock here is %.1f s %s the master's: delays, retention and offsets by time go by the "
                         "clock of the current master; set both clocks, by NTP for instance", abs(apart) / 1000,
                         "behind" if apart < 0 else "ahead of")

    def _sure(self) -> int:
        """Up to where the master may consider the log as copied."""
        asked = self._store.copy.asked
        if asked is not None:
            return asked
        return self._store.flushed_offset if self._waits_for_disk else self._store.commit_log_max_offset()

    async def _keep_copying(self) -> None:
        """Copy until cancelled. A fault is logged once, and so is its end."""
        while True:
            await self._is_found.wait()
            address = self._address
            try:
                await self._copy(address)
            except (OSError, ValueError, RegulusError) as error:
                text = f"the log of the master at {address} is not copied: {error or type(error).__name__}"
                _log.log(logging.DEBUG if text == self._told else logging.WARNING, "%s; trying on", text)
                self._told = text
                if isinstance(error, LogsDiffer):
                    self._on_parted(str(error))
            await asyncio.sleep(RETRY_S)

    async def _copy(self, address: str) -> None:
        """Copy while the link lasts. Raises OSError, FrameError, StoreError, ValueError for what is not an address.

        A disk that has become too full ends the link with the next piece, and then there is none until it has room."""
        host, port = split_address(address)
        if self._store.copy.fault:
            # The master must not wait for a slave that will not accept more.
            raise StoreNotWritable(self._store.copy.fault)
        await self._check_master(self._client_address or f"{address.rpartition(':')[0]}:{port - HA_PORT_OFFSET}")
        # The first report says both where to continue and what is certain.
        while self._waits_for_disk and self._store.flushed_offset < self._store.commit_log_max_offset():
            await asyncio.sleep(self._heartbeat / 100)
        link = _Link(self, self._loop)
        context = client_context(self._transport_config) if self._transport_config.tls_ha_enable else None
        self._has_all = self._has_begun = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                await self._loop.create_connection(lambda: link, host, port, ssl=context)
        except TimeoutError:
            raise ConnectionError(f"no connection within {CONNECT_TIMEOUT_MS} ms") from None
        try:
            self._link = link
            link.report(self._store.copy.ask_from())
            _log.info("copying the log of the master at %s from %d on", address, self._store.commit_log_max_offset())
            if self.is_sure:
                self._be_sure()
            await self._watch(link)
        finally:
            self._link = None
            link.abort()
            self._store.copy.interrupt()

    async def _check_master(self, address: str) -> None:
        """Raises ConfigError when it is the master of another broker, or its log cannot be copied here."""
        try:
            settings = await settings_of(
                address, self._transport_config,
                parse_credentials(self._config.inner_client_authentication_credentials))
        except (ClientError, ValueError) as error:
            _log.debug("the master at %s does not say its settings: %s", address, error)
            return
        differences = check(settings, address, self._config, self._file_size)
        if differences != self._told_of_master:
            for text in differences:
                _log.warning("%s", text)
        self._told_of_master = differences

    async def _watch(self, link: _Link) -> None:
        """Keep the link alive until it ends."""
        while True:
            await asyncio.wait([link.ended], timeout=self._heartbeat / 4)
            if link.ended.done():
                raise link.ended.result()
            now = self._loop.time()
            if now - link.heard_at > self._silence_max:
                raise ConnectionError(f"the master was silent for {self._silence_max:g} s")
            if now - link.reported_at >= self._heartbeat:
                link.report(self._sure())
