"""What is read of a master is what it has, however the link behaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from regulus.errors import ConnectFailed, StoreDamaged
from regulus.server import master_log
from regulus.server.master_log import MasterLog
from regulus.transport.config import TransportConfig
from regulus.wire import ha_frame

LOG = bytes(range(256)) * 40


class Master:
    """Sends its log from where it is asked for, and closes a link after so many bytes."""

    def __init__(self, closes_after: int = len(LOG), piece_size: int = 100, more: int = 0) -> None:
        self.asked: list[int] = []
        self._closes_after = closes_after
        self._piece_size = piece_size
        self._more = more

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        offset = int.from_bytes(await reader.readexactly(8), "big")
        self.asked.append(offset)
        writer.write(ha_frame.encode_head(offset, 0))
        for at in range(offset, min(offset + self._closes_after, len(LOG)), self._piece_size):
            piece = LOG[at:at + self._piece_size]
            writer.write(ha_frame.encode_head(at + self._more, len(piece)) + piece)
        if self._closes_after < len(LOG):
            writer.close()


@asynccontextmanager
async def reading(master: Master) -> AsyncIterator[MasterLog]:
    server = await asyncio.start_server(master.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with MasterLog("127.0.0.1:1", f"127.0.0.1:{port}", TransportConfig()) as log:
        yield log
    server.close()


async def test_reads_that_follow_one_another_are_one_link() -> None:
    master = Master()
    async with reading(master) as log:
        assert [await log.read(500, 250), await log.read(750, 1), await log.read(751, 3000)] == \
            [LOG[500:750], LOG[750:751], LOG[751:3751]]
        assert await log.read(100, 300) == LOG[100:400]
        assert master.asked == [500, 100]


@pytest.mark.parametrize("closes_after", [100, 1000])
async def test_a_link_that_ends_is_gone_on_with(closes_after: int) -> None:
    async with reading(Master(closes_after)) as log:
        assert await log.read(300, 5000) == LOG[300:5300]


async def test_a_master_that_sends_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with reading(Master(0)) as log:
        with pytest.raises(ConnectFailed, match="closed the connection when it was asked for 300 of its log"):
            await log.read(300, 10)
    monkeypatch.setattr(master_log, "SILENCE_MAX_S", 0.05)
    async with reading(Master()) as log:
        with pytest.raises(ConnectFailed, match=r"sent nothing for 0\.05 s"):
            await log.read(len(LOG), 10)


async def test_another_place_than_the_one_that_was_asked_for_is_told() -> None:
    async with reading(Master(more=8)) as log:
        with pytest.raises(StoreDamaged, match="was asked for 300 of the log and sent 308"):
            await log.read(300, 10)


async def test_a_port_at_which_nobody_listens_is_told() -> None:
    async with MasterLog("127.0.0.1:1", "127.0.0.1:1", TransportConfig()) as log:
        with pytest.raises(ConnectFailed, match="no connection to the master's port for slaves at 127"):
            await log.read(300, 10)
        with pytest.raises(ConnectFailed, match="no connection to 127"):
            await log.bounds()
