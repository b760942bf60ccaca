"""Spark's sink against the real brokers: transactions work there, and what does not is refused."""

import asyncio
import time
from typing import Any

import pyarrow as pa
import pytest
from conftest import Server

from regulus.client import shared_loop
from regulus.client.administration.admin import Admin
from regulus.errors import ClientError, SinkRefused
from regulus.model.message import MessageExt
from regulus.spark.sink import commits, transactions
from regulus.spark.sink.options import SinkOptions, parse_sink_options
from regulus.spark.sink.task import TaskPlace, TaskReport, abort, commit, run_task
from regulus.spark.sink.transactions import Transactions

ROWS = 300
ASKED_TIMEOUT_S = 90


def options(server: Server, topic: str, guarantee: str = "transactional") -> SinkOptions:
    return parse_sink_options({
        "nameServer": server.name_server_address, "topic": topic, "producerGroup": f"{topic}-sink",
        "deliveryGuarantee": guarantee, "sinkId": topic, "sendTimeoutMs": "10000"}, is_stream=False)


def write(choices: SinkOptions, batch: int, partition: int = 0) -> TaskReport:
    first = 10_000 * batch + 1000 * partition
    numbers = range(first, first + ROWS)
    rows = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in numbers],
                                       "keys": [f"k{number}" for number in numbers]})
    return run_task([rows], choices, TaskPlace(sink_id=choices.sink_id or "", batch=batch, partition=partition), {})


async def visible(server: Server, topic: str, wait_for: int = 0) -> list[int]:
    """What consumers can see, sorted; once so many are there, or the time is up."""
    found: dict[Any, list[MessageExt]] = {}
    async with Admin(server.name_server_address) as admin:
        queues = await admin.queues(topic)
        until = time.monotonic() + ASKED_TIMEOUT_S
        while True:
            for queue in queues:
                taken = found.setdefault(queue, [])
                offset = taken[-1].queue_offset + 1 if taken else 0
                while messages := (await admin.pull(queue, offset)).messages:
                    taken += messages
                    offset = messages[-1].queue_offset + 1
            if sum(map(len, found.values())) >= wait_for or time.monotonic() > until:
                break
            await asyncio.sleep(0.2)
    return sorted(int(message.body) for messages in found.values() for message in messages)


def numbers(batch: int, *partitions: int) -> list[int]:
    return [10_000 * batch + 1000 * partition + row for partition in partitions for row in range(ROWS)]


def test_a_batch_becomes_visible_by_its_commit_and_only_once(server: Server) -> None:
    choices = options(server, "sunk")
    reports = [write(choices, 0, partition) for partition in range(2)]
    assert shared_loop.run(visible(server, "sunk")) == []
    for _ in range(2):
        commit(reports, choices, "sunk", 0, {})
    commit([write(choices, 0, partition) for partition in range(2)], choices, "sunk", 0, {})
    assert shared_loop.run(visible(server, "sunk", 2 * ROWS)) == numbers(0, 0, 1)
    abort([write(choices, 1), None], choices, "sunk", {})
    commit([write(choices, 1)], choices, "sunk", 1, {})
    assert shared_loop.run(visible(server, "sunk", 3 * ROWS)) == numbers(0, 0, 1) + numbers(1, 0)


def test_a_commit_that_died_in_the_middle_is_completed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = options(server, "halfway")
    end, ended = Transactions._end, 0

    async def dies(self: Transactions, half: Any, state: Any) -> None:
        nonlocal ended
        ended += 1
        if ended > ROWS // 3:
            raise ClientError("the driver is gone")
        await end(self, half, state)

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_end", dies)
        patch.setattr(transactions, "ENDS_AT_ONCE", 1)
        with pytest.raises(ClientError, match="the driver is gone"):
            commit([write(choices, 0)], choices, "halfway", 0, {})
    assert len(shared_loop.run(visible(server, "halfway", ROWS // 3))) == ROWS // 3
    commit([write(choices, 0)], choices, "halfway", 0, {})
    assert shared_loop.run(visible(server, "halfway", ROWS)) == numbers(0, 0)


def test_a_broker_that_asks_is_answered_from_the_commit_topic(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = options(server, "asked")
    write(choices, 0, 0)

    async def dies(self: Transactions, half: Any, state: Any) -> None:
        raise ClientError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_end", dies)
        with pytest.raises(ClientError, match="the driver is gone"):
            commit([write(choices, 0, 1)], choices, "asked", 0, {})
    assert shared_loop.run(visible(server, "asked")) == []
    monkeypatch.setattr(commits, "STUCK_MS", 0)
    assert set(shared_loop.run(visible(server, "asked", ROWS))) == set(numbers(0, 1))


def test_exactly_once_is_refused_where_brokers_keep_no_marks(server: Server) -> None:
    choices = options(server, "marked", "exactlyOnce")
    if server.name == "regulus":
        for _ in range(2):
            write(choices, 0)
        assert shared_loop.run(visible(server, "marked", ROWS)) == numbers(0, 0)
    else:
        with pytest.raises(SinkRefused, match="use transactional, or atLeastOnce"):
            write(choices, 0)
