"""Lets slaves copy the log: each reports up to where it has the log, and gets the bytes after that as they are
appended.

A piece is a range of bytes in one file of the log; it need not begin at a record. A slave with an empty log begins with
the last file. With SYNC_FLUSH it gets what is on disk here and not, as from RocketMQ's master, what is in memory:
otherwise, after a power cut, it would have messages that its master never had.

The reports of slaves meet a condition of `durability`, if answers wait for it: enough slaves have the log.

Source: HAService, HAConnection, DefaultHAService.
"""

import asyncio
import logging
from collections import deque
from socket import socket
from typing import Protocol, cast

from regulus.access.white_addresses import WhiteAddresses
from regulus.broker.config import BrokerConfig
from regulus.broker.sync_replicas import replicated_to
from regulus.errors import FrameError
from regulus.model.java_numbers import LONG_MAX
from regulus.server.byte_rate import ByteRate
from regulus.server.durability import Durability
from regulus.transport.config import TransportConfig
from regulus.transport.tls import ServerTls, TlsDoor
from regulus.wire import ha_frame
from regulus.wire.bodies import HAConnectionRuntimeInfo
from regulus.wire.codes import ResponseCode

_log = logging.getLogger(__name__)

_DEFAULT_TRANSPORT = TransportConfig()
LINKS_MAX = 64
"""Slaves at once; further ones are disconnected."""
AWAY_S_MAX = 60.0
"""How long old files are kept for a slave whose link has ended: it connects again every few seconds."""
_TURN_SIZE = 1 << 20            # bytes to one slave before others have a turn of the loop
_UNSENT_MAX = 4 << 20           # bytes not taken by the system; sending continues below half of it


class CopiedStore(Protocol):
    """What the server needs from the store."""

    def commit_log_min_offset(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int: ...

    def log_bytes(self, offset: int, size_max: int) -> memoryview | None: ...


class _Link(asyncio.Protocol):
    """The link to one slave."""

    def __init__(self, server: "HaServer", loop: asyncio.AbstractEventLoop) -> None:
        self.name = self.host = "?"
        self.reported = -1
        """Up to where the slave reports to have the log; -1 before its first report."""
        self.copied = -1
        """Like `reported`, but only from reports after the first piece: the first report is a request, and that log may
        be another one."""
        self.needed = 0
        """From where on the slave needs the log, after its first report."""
        self._server = server
        self._loop = loop
        self._reader = ha_frame.ReportReader()
        self._transport: asyncio.Transport | None = None
        self._position = 0
        self._is_paused = False
        self._next: asyncio.Handle | None = None
        self.heard_at = self.wrote_at = loop.time()
        self._rate = ByteRate(loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)       # uvloop's does not have this type
        self.name = "{}:{}".format(*transport.get_extra_info("peername"))
        self.host = str(transport.get_extra_info("peername")[0])
        self._transport.set_write_buffer_limits(_UNSENT_MAX)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
        self._transport = None
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.go_on()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        try:
            reported = self._reader.feed(data)
        except FrameError as error:
            self.close(str(error))
            return
        if reported is None:
            return
        is_first = self.reported < 0
        if is_first and not self._begin(reported):
            return
        if reported > self._position:
            self.close(f"it reports the log up to {reported}, and was sent it up to {self._position}")
            return
        # Only now: a link that is refused is among the others until a later turn of the loop.
        self.reported = reported
        self.needed = self._position if is_first else reported
        self.copied = -1 if is_first else reported
        if is_first:
            self.go_on()
        self._server.heard()

    def _begin(self, reported: int) -> bool:
        """Continue after what the slave has; returns whether the log has that position."""
        first, end = self._server.store.commit_log_min_offset(), self._server.store.commit_log_max_offset()
        self._position = reported if reported else end - end % self._server.file_size
        if not first <= self._position <= end:
            what = f"begins only at {first}" if self._position < first else f"ends at {end}"
            if self._position > end:
                self._say_the_end(end)
            self.close(f"it has the log up to {reported}, and here it {what}: stop it and give it a copy of this "
                       "broker's store, or an empty folder")
            return False
        _log.info("slave %s has the log up to %d and copies it from %d on", self.name, reported, self._position)
        self._send(b"", self._position)
        return True

    def _say_the_end(self, end: int) -> None:
        """Send an empty piece twice for one position, from which a slave knows that the log ends there."""
        for _ in range(2):
            self._send(b"", end)

    def go_on(self) -> None:
        """Send more of the log, as much as one turn allows."""
        if self.reported < 0 or self._next is not None:
            return
        sent = 0
        while not self._is_paused and self._transport is not None and not self._transport.is_closing():
            room = min(self._server.piece_size, self._server.end - self._position)
            piece = self._server.store.log_bytes(self._position, room) if room > 0 else None
            if piece is None:
                if room > 0:
                    self.close(f"the log has nothing at {self._position}, where it goes on: its file was deleted "
                               f"meanwhile or is missing, and the log begins at "
                               f"{self._server.store.commit_log_min_offset()}")
                return
            self._send(piece, self._position)
            self._position += len(piece)
            sent += len(piece)
            if sent >= _TURN_SIZE:
                self._next = self._loop.call_soon(self._continue)
                return

    def _continue(self) -> None:
        self._next = None
        self.go_on()

    def _send(self, piece: bytes | memoryview, offset: int) -> None:
        assert self._transport is not None
        self.wrote_at = self._loop.time()
        self._rate.add(len(piece), self.wrote_at)
        self._transport.writelines((ha_frame.encode_head(offset, len(piece)), piece))

    def keep_alive(self) -> None:
        if self.reported >= 0 and not self._is_paused and self._transport is not None:
            self._send(b"", self._position)

    def status(self, log_end: int, behind_max: int) -> HAConnectionRuntimeInfo:
        """The state of the link, for operators."""
        behind = log_end - max(self.reported, 0)
        return HAConnectionRuntimeInfo(
            addr=self.name, slave_ack_offset=self.reported, diff=behind,
            in_sync=self.reported >= 0 and behind <= behind_max,
            transferred_byte_in_second=self._rate.bytes_in_second(self._loop.time()),
            transfer_from_where=self._position)

    def close(self, reason: str) -> None:
        """Close the link. `reason` is logged; it is empty when the server stops."""
        if reason:
            _log.warning("slave %s is not served: %s", self.name, reason)
        if self._transport is not None:
            self._transport.abort()


class _Closed(asyncio.Protocol):
    """The protocol of a connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class HaServer:
    """Serves slaves. `bound`: the socket. `file_size`: of the log's files."""

    def __init__(self, bound: socket, store: CopiedStore, config: BrokerConfig, file_size: int,
                 durability: Durability | None, transport_config: TransportConfig = _DEFAULT_TRANSPORT) -> None:
        """`durability` is given when answers wait for a slave. Raises ConfigError when a certificate cannot be used."""
        self._tls = ServerTls(transport_config) if transport_config.tls_ha_enable else None
        self._doors: set[TlsDoor] = set()
        self.store = store
        self._config = config
        self.file_size = file_size
        self.piece_size = config.ha_transfer_batch_size
        self.port: int = bound.getsockname()[1]
        self._bound = bound
        self._links: dict[_Link, None] = {}
        self._away: deque[tuple[float, int]] = deque(maxlen=LINKS_MAX)
        """For slaves whose links have ended: until when old files are kept for them, and from where on they need the
        log."""
        self._heartbeat = config.ha_send_heartbeat_interval / 1000
        self._silence_max = config.ha_housekeeping_interval / 1000
        self._behind_max = config.ha_slave_fallbehind_max
        self._keep_max = config.ha_slave_keep_max
        self._allowed = WhiteAddresses(config.ha_slave_white_addresses.split(";"))
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._replicated = durability.require(ResponseCode.FLUSH_SLAVE_TIMEOUT, self._judge) \
            if durability is not None else None
        self._judge()

    async def start(self) -> None:
        self._server = await self._loop.create_server(self._make_link, sock=self._bound)
        if self._tls is not None:
            self._tls.start()
        self._look_after_links()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        else:
            self._bound.close()
        for door in tuple(self._doors):
            door.abort()
        for link in tuple(self._links):
            link.close("")
        if self._tls is not None:
            self._tls.stop()

    def _make_link(self) -> asyncio.Protocol:
        link = _Link(self, self._loop)
        if self._tls is None or self._tls.context is None:
            return link
        door = TlsDoor(self._tls, link, self._may_copy, self._doors.discard)
        if len(self._doors) < LINKS_MAX:
            self._doors.add(door)
            return door
        self._tls.refused("one of a slave", f"there are {LINKS_MAX} TLS handshakes under way")
        return _Closed()

    @property
    def end(self) -> int:
        """Up to where slaves get the log."""
        return self.store.flushed_offset if self._config.sync_flush else self.store.commit_log_max_offset()

    def appended(self) -> None:
        """Note that the log has grown."""
        for link in self._links:
            link.go_on()

    def status(self) -> list[HAConnectionRuntimeInfo]:
        """The state of each link, for operators."""
        end = self.store.commit_log_max_offset()
        return [link.status(end, self._behind_max) for link in self._links]

    def copied_offset(self) -> int:
        """Up to where all slaves have the log, except those that are too far behind for old files to be kept."""
        first, now = self.store.commit_log_max_offset() - self._keep_max, self._loop.time()
        while self._away and self._away[0][0] < now:
            self._away.popleft()
        needed = [link.needed for link in self._links if link.reported >= 0]
        return min([each for each in (*needed, *[away for _, away in self._away]) if each >= first], default=LONG_MAX)

    # --- what links tell ---------------------------------------------------------------------------------------------

    def opened(self, link: _Link) -> None:
        if not self._may_copy(link.host):
            link.close("its address is none of haSlaveWhiteAddresses")
            return
        if len(self._links) >= LINKS_MAX:
            link.close(f"there are {LINKS_MAX} already")
            return
        self._links[link] = None

    def _may_copy(self, host: str) -> bool:
        return not self._allowed or self._allowed.matches(host)

    def closed(self, link: _Link) -> None:
        if self._links.pop(link, link) is None:
            if link.reported >= 0:
                self._away.append((self._loop.time() + AWAY_S_MAX, link.needed))
            _log.info("slave %s is gone, which had the log up to %d", link.name, link.reported)
            self._judge()

    def heard(self) -> None:
        self._judge()

    def _judge(self) -> None:
        """Update how far enough slaves have the log. Slaves that are too far behind are not waited for. A link without
        a report does not count: its slave may be connected by another link."""
        if self._replicated is None:
            return
        end, heard_from = self.store.commit_log_max_offset(), self._loop.time() - self._silence_max / 2
        slaves = [max(link.copied, 0) for link in self._links
                  if link.reported >= 0 and end - link.reported <= self._behind_max and link.heard_at >= heard_from]
        copied = replicated_to(slaves, end, self._config)
        if copied is None:
            self._replicated.give_up(ResponseCode.SLAVE_NOT_AVAILABLE)
        elif self._replicated.absent is not None or copied > self._replicated.end:
            self._replicated.reached(copied)

    def _look_after_links(self) -> None:
        now = self._loop.time()
        for link in tuple(self._links):
            if now - link.heard_at > self._silence_max:
                link.close(f"it was silent for {self._silence_max:g} s")
            elif now - link.wrote_at >= self._heartbeat:
                link.keep_alive()
        self._timer = self._loop.call_later(self._heartbeat / 4, self._look_after_links)
