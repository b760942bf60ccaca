"""Measures what pops cost a broker: Regulus and RocketMQ have equal backlogs, which are popped and acknowledged.

    PYTHONPATH=build/compiled python bench/pop.py [DIRECTORY] [--messages 200000] [--rounds 3] [--lanes 8]

A lane is a connection that pops up to 32 messages from any queue, acknowledges them and pops again. `each` sends an
ACK_MESSAGE for each message, all of one pop in one write; `batch` sends one BATCH_ACK_MESSAGE for each pop. Frames are
built from text and answers to acks are counted by their length words, so that the load costs little.

Each round has a group of its own, which pops all messages of the topic. The time is from the first pop to the last
answer to an ack, and `CPU` is the broker's CPU seconds for a million messages popped and acknowledged. The brokers take
turns, the first round of each does not count, and each figure is the median. What a broker does with the records of
pops after the invisible time is not measured.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from java_broker import Broker, make_brokers
from load_generator import cpu_seconds, frame, scan

from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.model.message import Message
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.topics import TopicConfig
from regulus.transport import event_loop
from regulus.transport.connector import split_address
from regulus.wire.bodies.pop_bodies import BatchAck, BatchAckMessageRequestBody
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.frame_reader import decode_frame
from regulus.wire.headers import AckMessageRequest, PopMessageRequest, PopMessageResponse
from regulus.wire.remoting_command import RemotingCommand

_TOPIC = "Popped"
_QUEUES = 8
_SEND_BATCH = 200                   # messages of one batch while the topic is filled
_POP_BATCH = 32
_BODY_SIZE = 1024
_INVISIBLE_MS = 600_000         # longer than a round, so that no message comes twice
_POLL_MS = 1_000
_WAIT_MAX_S = 120.0             # limit of one round
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_FULL)
_ACKS = ("each", "batch")


class _Popped(NamedTuple):
    """The messages that one pop returned from one queue."""

    receipt: ReceiptHandle      # of the first message
    offsets: list[int]


class _Tally:
    """Counts the messages that all lanes of a round acknowledge; `done` when there are no more, or a lane fails."""

    def __init__(self, count: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = count
        self.empty = 0

    def acknowledged(self, count: int) -> None:
        self.left -= count
        if self.left <= 0 and not self.done.done():
            self.done.set_result(None)

    def failed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(SystemExit(reason))


class _Lane(asyncio.Protocol):
    """Pops, acknowledges and pops again. All acks of a pop are under way at the same time, and no other request is."""

    def __init__(self, group: str, acks: str, tally: _Tally) -> None:
        self._group, self._acks, self._tally = group, acks, tally
        self._rest = b""
        self._acks_due = self._popped = 0       # missing answers to acks, and the messages of the pop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._pop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.failed(f"the broker closed a connection: {exc}")

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        count, end = scan(data)
        self._rest = data[end:]
        if count and self._acks_due:
            self._take_ack_answers(data[:end], count)
        elif count:
            self._take_pop_answer(decode_frame(data, 4, end, True))

    def _pop(self) -> None:
        header = PopMessageRequest(
            consumer_group=self._group, topic=_TOPIC, queue_id=-1, max_msg_nums=_POP_BATCH,
            invisible_time=_INVISIBLE_MS, poll_time=_POLL_MS, born_time=time.time_ns() // 1_000_000, init_mode=0,
            exp_type="TAG", exp="*")
        self._write(frame(RequestCode.POP_MESSAGE, 1, header.ext()))

    def _take_pop_answer(self, answer: RemotingCommand) -> None:
        if answer.code in _NOTHING:
            self._tally.empty += 1
            self._pop()
        elif answer.code != ResponseCode.SUCCESS:
            self._tally.failed(f"a pop was answered {answer.code}: {answer.remark}")
        else:
            popped = list(_popped(PopMessageResponse.decode(answer)))
            self._popped = sum(len(each.offsets) for each in popped)
            frames = self._batch_ack(popped) if self._acks == "batch" else self._single_acks(popped)
            self._acks_due = len(frames)
            self._write(b"".join(frames))

    def _take_ack_answers(self, data: bytes, count: int) -> None:
        if data.count(b'"code":0') != count:
            self._tally.failed(f"an ack was refused: {data[:500]!r}")
            return
        self._acks_due -= count
        if not self._acks_due:
            self._tally.acknowledged(self._popped)
            self._pop()

    def _single_acks(self, popped: Sequence[_Popped]) -> list[bytes]:
        return [frame(RequestCode.ACK_MESSAGE, 2, AckMessageRequest(
                    consumer_group=self._group, topic=_TOPIC, queue_id=receipt.queue_id, offset=offset,
                    extra_info=encode(receipt._replace(queue_offset=offset))).ext())
                for receipt, offsets in popped for offset in offsets]

    def _batch_ack(self, popped: Sequence[_Popped]) -> list[bytes]:
        acks = [BatchAck(consumer_group=self._group, topic=_TOPIC, retry=receipt.retry,
                         start_offset=receipt.start_offset, queue_id=receipt.queue_id,
                         revive_queue_id=receipt.revive_queue_id, pop_time=receipt.pop_time,
                         invisible_time=receipt.invisible_time, bit_set=_bits(receipt.start_offset, offsets))
                for receipt, offsets in popped]
        body = BatchAckMessageRequestBody(broker_name=_BROKER_NAME, acks=acks)
        return [frame(RequestCode.BATCH_ACK_MESSAGE, 2, {}, body.encode())]

    def _write(self, data: bytes) -> None:
        if not self._tally.done.done():
            self._transport.write(data)     # type: ignore[attr-defined]


_BROKER_NAME = "broker-a"


def _popped(answer: PopMessageResponse) -> Iterator[_Popped]:
    starts = dict(entry.rsplit(" ", 1) for entry in (answer.start_offset_info or "").split(";"))
    for entry in (answer.msg_offset_info or "").split(";"):
        place, offsets = entry.rsplit(" ", 1)
        retry, queue_id = place.split(" ")
        start = int(starts[place])
        yield _Popped(ReceiptHandle(start, answer.pop_time, answer.invisible_time, answer.revive_qid, retry,
                                    _BROKER_NAME, int(queue_id), start), [int(each) for each in offsets.split(",")])


def _bits(start: int, offsets: Sequence[int]) -> str:
    bits = sum(1 << (offset - start) for offset in offsets)
    return b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


async def _fill(broker: Broker, count: int) -> None:
    async with Admin(broker.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name=_TOPIC, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES))
    async with Producer(broker.name_server_address, "filling") as producer:
        for first in range(0, count, _SEND_BATCH * 4):
            await asyncio.gather(*[
                producer.send_batch([Message(_TOPIC, bytes(_BODY_SIZE))] * min(_SEND_BATCH, count - begin))
                for begin in range(first, min(first + _SEND_BATCH * 4, count), _SEND_BATCH)])


class _Round(NamedTuple):
    rate: float                 # messages popped and acknowledged a second
    cpu_s: float                # CPU seconds of the broker, for a million
    empty: int                  # pops that found no message


async def _round(broker: Broker, group: str, acks: str, arguments: argparse.Namespace) -> _Round:
    loop, tally = asyncio.get_running_loop(), _Tally(arguments.messages)
    before, begun = cpu_seconds(broker.broker_pid), time.perf_counter()
    lanes = [await loop.create_connection(lambda: _Lane(group, acks, tally), *split_address(broker.broker_address))
             for _ in range(arguments.lanes)]
    try:
        await asyncio.wait_for(tally.done, _WAIT_MAX_S)
    except TimeoutError:
        raise SystemExit(f"{broker.name}: {tally.left} messages did not come in {_WAIT_MAX_S} s") from None
    seconds, cpu = time.perf_counter() - begun, cpu_seconds(broker.broker_pid) - before
    for transport, _ in lanes:
        transport.close()
    return _Round(arguments.messages / seconds, cpu / arguments.messages * 1e6, tally.empty)


def _measure(brokers: Sequence[Broker], arguments: argparse.Namespace) -> dict[tuple[str, str], list[_Round]]:
    for broker in brokers:
        broker.start()
        event_loop.run(_fill(broker, arguments.messages))
    found: dict[tuple[str, str], list[_Round]] = {}
    for number in range(arguments.rounds + 1):
        for acks in _ACKS:
            for broker in brokers:
                measured = event_loop.run(_round(broker, f"{acks}-{number}", acks, arguments))
                if number:
                    found.setdefault((acks, broker.name), []).append(measured)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--ours-alone", action="store_true", help="run Regulus only, for a profile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        # RocketMQ 4.9.8, the third one, has no pops.
        brokers = make_brokers(Path(folder), "async")[:1 if arguments.ours_alone else 2]
        try:
            found = _measure(brokers, arguments)
        finally:
            for broker in brokers:
                broker.kill()
    print(f"{arguments.messages:,} messages of {_BODY_SIZE} bytes, {arguments.lanes} lanes, "
          f"load {os.getloadavg()[0]:.1f}\n")
    print("| acks | broker | messages/s | CPU s/million | empty pops |\n| --- | --- | --- | --- | --- |")
    for (acks, name), rounds in found.items():
        print(f"| {acks} | {name} | {statistics.median(each.rate for each in rounds):,.0f} | "
              f"{statistics.median(each.cpu_s for each in rounds):.2f} | "
              f"{statistics.median(each.empty for each in rounds):.0f} |")


if __name__ == "__main__":
    main()
