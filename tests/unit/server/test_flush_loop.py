"""Group commit, deadlines and a failing disk, over a store whose flush ends when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import pytest

from regulus.errors import StoreNotWritable
from regulus.server.flush_loop import FlushLoop
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import listen
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


class SlowDisk:
    """A flush takes what was appended when it began, and ends when `permit` is given."""

    def __init__(self) -> None:
        self.end = 0
        self.flushed_offset = 0
        self.flushes = 0
        self.permits = Semaphore(0)
        self.ends = Semaphore(0)
        self.is_broken = False
        self.stopped = ""

    def permit(self) -> None:
        self.permits.release()

    def flush_commit_log(self) -> int:
        end = self.end
        self.permits.acquire()
        if self.is_broken:
            raise StoreNotWritable("the disk is broken")
        self.flushes += 1
        self.flushed_offset = end
        self.ends.release()
        return end

    def commit_log_max_offset(self) -> int:
        return self.end

    def stop_writes(self, reason: str) -> None:
        self.stopped = reason


class Bench:
    """A flush loop, and a client whose requests wait for durability: request `opaque` appends up to 100 * opaque."""

    def __init__(self, disk: SlowDisk, flush: FlushLoop, client: Connection) -> None:
        self.disk = disk
        self.flush = flush
        self.client = client
        self.answers: asyncio.Queue[RemotingCommand] = asyncio.Queue()

    async def send(self) -> RemotingCommand:
        return await self.client.request(RemotingCommand.request(310), 5000)


async def make_bench(**settings: int) -> AsyncIterator[Bench]:
    disk = SlowDisk()
    with ThreadPoolExecutor(max_workers=1) as worker:
        flush = FlushLoop(disk, MessageStoreConfig(**settings), worker)

        def on_requests(connection: Connection, requests: list[RemotingCommand]) -> None:
            for request in requests:
                disk.end += 100
                flush.answer_when_durable(disk.end, connection, request.response(0, ext={"end": str(disk.end)}))

        listener = await listen("127.0.0.1", 0, on_requests, lambda _: None, lambda _: None, TransportConfig())
        client = await connect("127.0.0.1", listener.port)
        flush.start()
        yield Bench(disk, flush, client)
        for _ in range(20):
            disk.permit()
        disk.is_broken = False
        client.close()
        await flush.stop()
        await listener.close()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async for made in make_bench():
        yield made


async def test_answers_wait_for_the_disk_and_share_a_flush(bench: Bench) -> None:
    sends = [asyncio.create_task(bench.send()) for _ in range(50)]
    bench.disk.permit()
    bench.disk.permit()
    answers = await asyncio.gather(*sends)
    assert {answer.code for answer in answers} == {0}
    assert [answer.ext["end"] for answer in answers] == [str(100 * (n + 1)) for n in range(50)]
    assert bench.disk.flushes <= 2
    assert bench.disk.flushed_offset == 5000


async def test_a_broken_disk_refuses_what_waits_and_stops_the_store(
        bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.disk.is_broken = True
    bench.disk.permit()
    answer = await bench.send()
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bench.disk.stopped == "the disk is broken"
    assert "no more messages are taken" in caplog.text


async def test_an_answer_that_waits_too_long_says_so() -> None:
    async for bench in make_bench(sync_flush_timeout=20):
        answer = await bench.send()
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT


async def test_what_nobody_waits_for_is_flushed_at_the_interval() -> None:
    async for bench in make_bench(flush_interval_commit_log=5):
        bench.disk.end = 700
        bench.disk.permit()
        assert await asyncio.to_thread(bench.disk.ends.acquire, timeout=5)
        assert bench.disk.flushed_offset == 700
