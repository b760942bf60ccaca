"""Drives our own client with the command line of the foreign drivers; each event is one line of JSON.

The first argument names the deed (produce, pour, consume, transact); pairs of --name value follow. All but produce go
on until standard input ends.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from regulus import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    SendResult,
    TransactionProducer,
    TransactionProducerConfig,
    TransactionState,
)
from regulus.errors import ClientError, MessageIllegal

_output = threading.Lock()


def emit(event: str, **fields: object) -> None:
    with _output:
        print(json.dumps({"event": event, **{name: str(value) for name, value in fields.items()}}), flush=True)


def message(options: argparse.Namespace, index: int) -> Message:
    tags = options.tags.split(",")
    return Message(options.topic, f"{options.prefix}-{index}".encode(), tags=tags[index % len(tags)],
                   keys=f"{options.keys}-{index}" if options.keys else "", properties={"index": str(index)},
                   **timer(options, index))


def timer(options: argparse.Namespace, index: int) -> dict[str, Any]:
    """By the name of the Java client's method, as that driver does it."""
    wait = timedelta(milliseconds=options.timer_value + index * options.timer_step)
    return {"": {}, "setDelayTimeMs": {"delay": wait}, "setDelayTimeSec": {"delay": wait * 1000},
            "setDeliverTimeMs": {"deliver_at": datetime.now(UTC) + wait}}[options.timer]


async def recall(options: argparse.Namespace) -> None:
    async with Producer(options.namesrv, options.group) as producer:
        for handle in options.handles.split(","):
            try:
                emit("recalled", msgId=await producer.recall(options.topic, handle))
            except (ClientError, MessageIllegal) as problem:
                emit("refused", message=problem)


def emit_sent(result: SendResult) -> None:
    emit("sent", status=result.send_status, msgId=result.message_id, offsetMsgId=result.offset_message_id,
         queueId=result.message_queue.queue_id, queueOffset=result.queue_offset, recallHandle=result.recall_handle)


async def produce(options: argparse.Namespace) -> None:
    config = ProducerConfig(send_msg_timeout=10_000, access_key=options.access_key,
                            secret_key=options.secret_key)
    messages = [message(options, index) for index in range(options.count)]
    async with Producer(options.namesrv, options.group, config) as producer:
        if options.mode == "async":
            for result in await asyncio.gather(*[producer.send(each) for each in messages]):
                emit_sent(result)
        elif options.mode == "oneway":
            for each in messages:
                await producer.send_oneway(each)
            emit("oneway", count=options.count)
        elif options.mode == "batch":
            emit_sent(await producer.send_batch(messages))
        else:
            for each in messages:
                emit_sent(await producer.send(each))


async def pour(options: argparse.Namespace) -> None:
    """As the Java driver does it."""
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    async with Producer(options.namesrv, options.group) as producer:
        emit("started")
        index = 0
        while not ended.done():
            begun, broker = time.monotonic(), ""
            try:
                broker = (await producer.send(message(options, index))).message_queue.broker_name
            except ClientError as problem:
                emit("failure", message=problem)
            emit("poured", broker=broker, index=index, at=int(time.time() * 1000),
                 took=int((time.monotonic() - begun) * 1000))
            index += 1
            await asyncio.sleep(0.005)


async def consume(options: argparse.Namespace) -> None:
    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        status = ConsumeStatus.CONSUME_SUCCESS
        for received in messages:
            body = received.body.decode()
            emit("message", body=body, topic=received.topic, tags=received.tags, keys=received.keys,
                 msgId=received.message_id, queueId=received.queue_id, queueOffset=received.queue_offset,
                 reconsumeTimes=received.reconsume_times)
            if options.fail_prefix and body.startswith(options.fail_prefix):
                status = ConsumeStatus.RECONSUME_LATER
        return status

    config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                                max_reconsume_times=options.max_reconsume, access_key=options.access_key,
                                secret_key=options.secret_key)
    consumer = PushConsumer(options.namesrv, options.group, listen, config)
    consumer.subscribe(options.topic, options.tags or "*")
    async with consumer:
        emit("started")
        await asyncio.to_thread(sys.stdin.read)
    emit("stopped")


STATES = {"COMMIT_MESSAGE": TransactionState.COMMIT, "ROLLBACK_MESSAGE": TransactionState.ROLLBACK,
          "UNKNOW": TransactionState.UNKNOWN}


async def transact(options: argparse.Namespace) -> None:
    """As the Java driver does it."""
    def state(names: str, sent: Message) -> TransactionState:
        all_names = names.split(",")
        return STATES[all_names[int(sent.properties["index"]) % len(all_names)]]

    def check(asked: MessageExt) -> TransactionState:
        emit("check", body=asked.body.decode(), topic=asked.topic, msgId=asked.message_id, queueId=asked.queue_id)
        return state(options.checks, asked)

    config = TransactionProducerConfig(send_msg_timeout=10_000, end_transaction_timeout=10_000)
    async with TransactionProducer(options.namesrv, options.group, check, config) as producer:
        await producer.send(Message(options.topic, b"greeting"))
        for index in range(options.count):
            result = await producer.send_in_transaction(message(options, index),
                                                        lambda sent: state(options.says, sent))
            emit_sent(result.send_result)
        emit("started")
        await asyncio.to_thread(sys.stdin.read)
    emit("stopped")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("deed", choices=["produce", "pour", "consume", "transact", "recall"])
    for name in ("namesrv", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--access-key", default="")
    parser.add_argument("--secret-key", default="")
    parser.add_argument("--mode", default="sync")
    parser.add_argument("--tags", default="")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--keys", default="")
    parser.add_argument("--fail-prefix", default="")
    parser.add_argument("--says", default="UNKNOW")
    parser.add_argument("--checks", default="UNKNOW")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--handles", default="")
    parser.add_argument("--timer", default="")
    parser.add_argument("--timer-value", type=int, default=0)
    parser.add_argument("--timer-step", type=int, default=0)
    parser.add_argument("--max-reconsume", type=int, default=-1)
    options = parser.parse_args()
    asyncio.run({"produce": produce, "pour": pour, "consume": consume, "transact": transact,
                 "recall": recall}[options.deed](options))


main()
