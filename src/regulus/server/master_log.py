"""Reads the log of a running master, a piece at a time, by the protocol with which its slaves copy it.

Only a slave's first report is ever sent: it requests a position, and a master that waits for its slaves does not count
it as a confirmation before another report arrives.
"""

import asyncio
from contextlib import suppress
from typing import Self

from regulus.errors import BrokerRefused, ConnectFailed, FrameError, HeaderError, StoreDamaged
from regulus.store.log_parting import RestingLog, find_parting
from regulus.transport.config import TransportConfig
from regulus.transport.connector import CONNECT_TIMEOUT_MS, connect, split_address
from regulus.transport.tls import client_context
from regulus.wire import ha_frame
from regulus.wire.bodies.topic_list import KVTable
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

SILENCE_MAX_S = 20.0
_READ_SIZE = 1 << 18


class MasterLog:
    """A master's log. `address` is the one for clients, `ha_address` the one for slaves. Used as an async context."""

    def __init__(self, address: str, ha_address: str, transport_config: TransportConfig) -> None:
        self._transport_config = transport_config
        self._address = address
        self._ha_address = ha_address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pieces = ha_frame.PieceReader()
        self._data = bytearray()
        self._position = -1
        self._has_sent = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._disconnect()

    async def bounds(self) -> tuple[int, int]:
        """Physical offsets of the first byte and after the last. Raises ClientError, StoreDamaged."""
        connection = await connect(*split_address(self._address), config=self._transport_config)
        try:
            answer = await connection.request(RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO), 5_000)
        finally:
            connection.close()
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark)
        try:
            facts = KVTable.decode(answer.body).table
            return int(facts["commitLogMinOffset"]), int(facts["commitLogMaxOffset"])
        except (HeaderError, KeyError, ValueError) as error:
            raise StoreDamaged(f"{self._address} does not say where its log begins and ends: name the master by the "
                               "address at which clients reach it") from error

    async def read(self, offset: int, size: int) -> bytes:
        """Read bytes of the log. Raises ConnectFailed, StoreDamaged."""
        if offset != self._position:
            self._disconnect()
        while len(self._data) < size:
            if self._reader is None:
                await self._begin_at(offset + len(self._data))
            data = await self._receive()
            if not data:
                self._end_of_link(offset)
            try:
                pieces = self._pieces.feed(data)
            except FrameError as error:
                raise StoreDamaged(f"{self._ha_address} is not a master's port for slaves: {error}") from error
            for place, piece in pieces:
                if place != offset + len(self._data):
                    raise StoreDamaged(f"{self._ha_address} was asked for {offset + len(self._data)} of the log and "
                                       f"sent {place}")
                self._data += piece
                self._has_sent = self._has_sent or bool(piece)
        found = bytes(self._data[:size])
        del self._data[:size]
        self._position = offset + size
        return found

    async def _receive(self) -> bytes:
        """The next bytes; empty at the end of the link."""
        assert self._reader is not None
        try:
            async with asyncio.timeout(SILENCE_MAX_S):
                return await self._reader.read(_READ_SIZE)
        except TimeoutError:
            raise ConnectFailed(f"the master at {self._ha_address} sent nothing for {SILENCE_MAX_S:g} s") from None
        except OSError:
            return b""

    def _end_of_link(self, offset: int) -> None:
        """Called when the link ended. A master closes a slave that reports nothing for long. Raises ConnectFailed when
        this one did so at once."""
        if not self._has_sent:
            raise ConnectFailed(f"the master at {self._ha_address} closed the connection when it was asked for "
                                f"{offset + len(self._data)} of its log: its own log says why")
        rest = self._data
        self._disconnect()
        self._data = rest

    async def _begin_at(self, offset: int) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                self._reader, self._writer = await asyncio.open_connection(
                    *split_address(self._ha_address),
                    ssl=client_context(self._transport_config) if self._transport_config.tls_ha_enable else None)
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"no connection to the master's port for slaves at {self._ha_address}: "
                                f"{error or 'it does not answer'}") from error
        self._has_sent = False
        self._writer.write(ha_frame.encode_report(offset))

    def _disconnect(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.transport.abort()
        self._reader = self._writer = None
        self._pieces = ha_frame.PieceReader()
        self._data = bytearray()


async def find_parting_from(master: MasterLog, log: RestingLog) -> int | None:
    """See `find_parting`. Raises ClientError, StoreDamaged."""
    finding = find_parting(log, *await master.bounds())
    try:
        look = next(finding)
        while True:
            look = finding.send(await master.read(*look))
    except StopIteration as end:
        found = end.value
        assert found is None or isinstance(found, int)
        return found
