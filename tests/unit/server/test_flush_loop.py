"""Group commit, deadlines and a failing disk, over a store whose flush ends when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import pytest

from regulus.errors import StoreNotWritable
from regulus.server.durability import Durability
from regulus.server.flush_loop import FlushLoop
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import listen
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand


class SlowDisk:
    """A flush takes what was appended when it began, and ends when `permit` is given."""

    def __init__(self) -> None:
        self.end = 0
        self.flushed_offset = 0
        self.flushes = 0
        self.permits = Semaphore(0)
        self.begins = Semaphore(0)
        self.ends = Semaphore(0)
        self.is_broken = False
        self.stopped = ""

    def permit(self) -> None:
        self.permits.release()

    def flush_commit_log(self) -> int:
        end = self.end
        self.begins.release()
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

    def __init__(self, disk: SlowDisk, durability: Durability, client: Connection, released: list[int]) -> None:
        self.disk = disk
        self.durability = durability
        self.client = client
        self.released = released
        """How far the log was on disk each time that answers had left."""
        self.answers: asyncio.Queue[RemotingCommand] = asyncio.Queue()

    async def send(self, kind: int = JSON) -> RemotingCommand:
        return await self.client.request(RemotingCommand.request(310, serialize_type=kind), 60_000)

    async def flush_begins(self) -> None:
        assert await asyncio.to_thread(self.disk.begins.acquire, timeout=60)


async def make_bench(**settings: int) -> AsyncIterator[Bench]:
    disk = SlowDisk()
    with ThreadPoolExecutor(max_workers=1) as worker:
        released: list[int] = []
        config = MessageStoreConfig(**settings)
        durability = Durability(config.sync_flush_timeout / 1000, lambda: released.append(disk.flushed_offset))
        flush = FlushLoop(disk, config, worker, durability)

        def on_requests(connection: Connection, requests: list[RemotingCommand]) -> None:
            frames = b""
            for request in requests:
                disk.end += 100
                frames += request.response(0, ext={"end": str(disk.end)}).encode()
            durability.answer_when_durable(disk.end, connection, frames)

        listener = await listen("127.0.0.1", 0, on_requests, lambda _: None, lambda _: None, TransportConfig())
        client = await connect("127.0.0.1", listener.port)
        flush.start()
        yield Bench(disk, durability, client, released)
        for _ in range(20):
            disk.permit()
        disk.is_broken = False
        client.close()
        await flush.stop()
        durability.stop()
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
    assert bench.released == []


async def test_a_broken_disk_is_not_asked_again_and_again() -> None:
    async for bench in make_bench(flush_interval_commit_log=1):
        bench.disk.is_broken = True
        for _ in range(20):
            bench.disk.permit()
        assert (await bench.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await bench.flush_begins()
        assert not await asyncio.to_thread(bench.disk.begins.acquire, timeout=0.02)


async def test_what_comes_while_the_disk_works_waits_for_the_next_flush() -> None:
    """Which begins at once: the interval is longer than the test."""
    async for bench in make_bench(flush_interval_commit_log=600_000):
        first = asyncio.create_task(bench.send())
        await bench.flush_begins()
        assert bench.durability.is_awaited
        second = asyncio.create_task(bench.send())
        while bench.disk.end < 200:
            await asyncio.sleep(0)
        bench.disk.permit()
        assert (await first).ext["end"] == "100"
        await bench.flush_begins()
        assert not second.done()
        assert bench.released == [100]
        bench.disk.permit()
        assert (await second).ext["end"] == "200"
        assert bench.released == [100, 200]
        assert not bench.durability.is_awaited


async def test_answers_that_wait_too_long_say_so_and_where_their_messages_are() -> None:
    async for bench in make_bench(sync_flush_timeout=20):
        answers = await asyncio.gather(*[bench.send(kind) for kind in (JSON, ROCKETMQ, JSON)])
        assert [answer.code for answer in answers] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 3
        assert [answer.ext["end"] for answer in answers] == ["100", "200", "300"]
        assert [answer.serialize_type for answer in answers] == [JSON, ROCKETMQ, JSON]
        assert not bench.durability.is_awaited


async def test_what_nobody_waits_for_is_flushed_at_the_interval() -> None:
    async for bench in make_bench(flush_interval_commit_log=5):
        bench.disk.end = 700
        bench.disk.permit()
        assert await asyncio.to_thread(bench.disk.ends.acquire, timeout=60)
        assert bench.disk.flushed_offset == 700


async def test_flushing_goes_on_after_an_interval_that_failed() -> None:
    """Whatever the failure: with ASYNC_FLUSH nobody waits who would notice."""
    disk, failed = SlowDisk(), asyncio.Event()
    disk.end = 100
    disk.permit()

    class Refusing(ThreadPoolExecutor):
        def submit(self, *arguments, **named):
            if not failed.is_set():
                failed.set()
                raise RuntimeError("can't start new thread")
            return super().submit(*arguments, **named)

    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    with Refusing(1) as worker:
        flushes = FlushLoop(disk, MessageStoreConfig(flush_interval_commit_log=10), worker,
                            Durability(60, lambda: None), is_awaited=False)
        flushes.start()
        await asyncio.to_thread(disk.ends.acquire, timeout=60)
        assert disk.flushed_offset == 100
        assert [str(error) for error in told] == ["can't start new thread"]
        disk.permit()
        await flushes.stop()
