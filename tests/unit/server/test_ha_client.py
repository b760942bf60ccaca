"""What a slave reports is what it has: with SYNC_FLUSH, what its disk has."""

import asyncio
import socket

import pytest

from regulus.broker.config import BrokerConfig
from regulus.errors import StoreNotWritable
from regulus.model.store_rules import FlushDiskType
from regulus.server.clock import wall_clock_ms
from regulus.server.ha_client import HaClient, _Link
from regulus.wire import ha_frame


class Copy:
    """A store that takes any piece; its disk has 0 bytes until it is told otherwise."""

    def __init__(self) -> None:
        self.end = self.flushed_offset = 0
        self.asked: int | None = None
        self.fault = ""
        self.interruptions = 0
        self.newest_ms = wall_clock_ms()

    @property
    def copy(self) -> "Copy":
        return self

    def commit_log_max_offset(self) -> int:
        return self.end

    def take(self, offset: int, piece: bytes) -> None:
        self.end = offset + len(piece)

    def ask_from(self) -> int:
        return self.end if self.asked is None else self.asked

    def hear_nothing(self, offset: int) -> None:
        pass

    def interrupt(self) -> None:
        self.interruptions += 1


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:   # type: ignore[override]
        self.written.append(data)


def no_words(text: str) -> None:
    raise AssertionError(f"the logs do not differ, and it was said: {text}")


@pytest.mark.parametrize(("flush", "before_the_flush", "in_all"), [
    (FlushDiskType.ASYNC_FLUSH, [300], [300]), (FlushDiskType.SYNC_FLUSH, [], [300])])
async def test_a_slave_with_sync_flush_reports_what_is_on_disk(flush: FlushDiskType, before_the_flush: list[int],
                                                               in_all: list[int]) -> None:
    client = HaClient(Copy(), BrokerConfig(flush_disk_type=flush), 4096, lambda: None, lambda: None, no_words)
    wire = Wire()
    client._link = _Link(client, asyncio.get_running_loop())
    client._link.connection_made(wire)
    client._link.data_received(ha_frame.encode_head(0, 300) + b"." * 300)
    assert wire.written == [ha_frame.encode_report(end) for end in before_the_flush]
    client.flushed(300)
    assert wire.written == [ha_frame.encode_report(end) for end in in_all]


async def test_it_is_told_once_that_the_log_is_the_master_s() -> None:
    store, heard = Copy(), []
    store.asked = 200
    client = HaClient(store, BrokerConfig(), 4096, lambda: None, lambda: heard.append(client.is_sure), no_words)
    assert not client.is_sure
    client._link = _Link(client, asyncio.get_running_loop())
    client._link.data_received(ha_frame.encode_head(200, 50) + b"." * 50)
    assert (client.is_sure, heard) == (False, [])
    store.take = lambda offset, piece: setattr(store, "asked", None)  # type: ignore[method-assign]
    for offset in (250, 300):
        client._link.data_received(ha_frame.encode_head(offset, 50) + b"." * 50)
    assert heard == [True]


async def test_a_slave_reports_nothing_of_its_own_before_it_is_found_to_be_the_master_s() -> None:
    store = Copy()
    store.end, store.flushed_offset, store.asked = 300, 300, 200
    client = HaClient(store, BrokerConfig(flush_disk_type=FlushDiskType.SYNC_FLUSH), 4096, lambda: None, lambda: None,
                      no_words)
    wire = Wire()
    client._link = _Link(client, asyncio.get_running_loop())
    client._link.connection_made(wire)
    client.flushed(300)
    assert (wire.written, client._sure()) == ([], 200)
    store.take = lambda offset, piece: setattr(store, "asked", None)  # type: ignore[method-assign]
    client._link.data_received(ha_frame.encode_head(200, 100) + b"." * 100)
    assert wire.written == [ha_frame.encode_report(300)]


@pytest.mark.parametrize(("apart_ms", "is_idle", "words"), [
    (-5_001, False, "5.0 s behind"), (-5_000, True, ""), (5_001, True, "5.0 s ahead of"), (5_000, True, ""),
    (3_600_000, False, "")])
async def test_clocks_that_are_apart_are_told_once(apart_ms: int, is_idle: bool, words: str,
                                                   caplog: pytest.LogCaptureFixture) -> None:
    """Old records may be an hour old; what comes when there was nothing more is new. That a link begins says nothing of
    it."""
    store = Copy()
    client = HaClient(store, BrokerConfig(), 4096, lambda: None, lambda: None, no_words,
                      lambda: store.newest_ms + apart_ms)
    client.take([(0, b"")])
    client.take([(0, b".")])
    assert not [text for text in caplog.messages if "ahead of" in text]
    caplog.clear()
    client._are_clocks_told = False
    if is_idle:
        client.take([(1, b"")])
    for offset in (1, 2):
        client.take([(offset, b".")])
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == bool(words)
    assert all(f"the clock here is {words} the master's" in text for text in told)


async def test_a_slave_that_may_not_write_makes_no_link() -> None:
    """Linked, it would have its master wait for what it then throws away."""
    store = Copy()
    store.fault = "the disk of the store is 95 % full"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = HaClient(store, BrokerConfig(ha_master_address=address), 4096, lambda: None, lambda: None, no_words)
        with pytest.raises(StoreNotWritable, match="95 % full"):
            await client._copy(address)


async def test_what_a_link_that_ended_brought_in_part_is_forgotten() -> None:
    """The next one brings it once more, from its beginning."""
    store = Copy()
    master = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{master.sockets[0].getsockname()[1]}"
    client = HaClient(store, BrokerConfig(ha_master_address=address), 4096, lambda: None, lambda: None, no_words)
    with pytest.raises(ConnectionError):
        await client._copy(address)
    assert store.interruptions == 1
    master.close()
