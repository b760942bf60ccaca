"""Drives the unmodified PyPI package `rocketmq` (librocketmq) from the command line; one line of JSON an event.

The first argument names the deed (produce, consume); pairs of --name value follow. consume goes on until standard
input ends. It knows no setting for the number of retries: that comes from the subscription group on the broker.
"""

import argparse
import json
import os
import sys
import threading
import time

import rocketmq.client as native
from rocketmq.exceptions import ProducerSendSyncFailed, ffi_check
from rocketmq.ffi import MSG_CALLBACK_FUNC, dll

CONSUME_SUCCESS, RECONSUME_LATER = 0, 1
PATIENCE_S = 10

_output = threading.Lock()


def emit(event, **fields):
    with _output:
        print(json.dumps({"event": event, **fields}), flush=True)


def message(options, index):
    result = native.Message(options.topic)
    tags = options.tags.split(",")
    result.set_tags(tags[index % len(tags)])
    result.set_body(f"{options.prefix}-{index}")
    result.set_property("index", str(index))
    if options.keys:
        result.set_keys(f"{options.keys}-{index}")
    return result


def emit_sent(result):
    emit("sent", status="SEND_OK" if result.status == native.SendStatus.OK else str(result.status),
         msgId=result.msg_id, queueOffset=str(result.offset))


def produce_async(producer, options):
    answered = threading.Semaphore(0)

    def succeeded(result):
        emit_sent(result)
        answered.release()

    def failed(problem):
        emit("error", message=str(problem))
        answered.release()

    for index in range(options.count):
        producer.send_async(message(options, index), succeeded, failed)
    for _ in range(options.count):
        answered.acquire()


def connect(producer, options):
    """The library connects in a thread of its own, which holds a lock that a send tries for a millisecond only. What a
    producer sends in that time fails before it is sent, as if there were no route, and if nobody waits for its answer
    is lost without a word: one sends something that does not count, until it is answered.
    """
    uncounted = native.Message(f"{options.topic}-connect")
    uncounted.set_body("connected?")
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            producer.send_sync(uncounted)
            return
        except ProducerSendSyncFailed as problem:
            if "No route info" not in str(problem) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def produce(options):
    producer = native.Producer(options.group)
    producer.set_namesrv_addr(options.namesrv)
    producer.set_timeout(10_000)
    producer.start()
    connect(producer, options)
    if options.mode == "async":
        produce_async(producer, options)
    elif options.mode == "oneway":
        for index in range(options.count):
            producer.send_oneway(message(options, index))
        emit("oneway", count=str(options.count))
    else:
        for index in range(options.count):
            emit_sent(producer.send_sync(message(options, index)))
    producer.shutdown()


def consume(options):
    # `PushConsumer.subscribe` raises out of the native callback, which the library takes for success; so that a
    # refusal reaches the library, the callback is registered with its own functions.
    def received(_, handle):
        arrived = native.RecvMessage(handle)
        body = arrived.body.decode()
        emit("message", body=body, topic=arrived.topic, tags=(arrived.tags or b"").decode(),
             keys=(arrived.keys or b"").decode(), msgId=arrived.id, queueId=str(arrived.queue_id),
             queueOffset=str(arrived.queue_offset), reconsumeTimes=str(arrived.reconsume_times))
        failed = options.fail_prefix and body.startswith(options.fail_prefix)
        return RECONSUME_LATER if failed else CONSUME_SUCCESS

    consumer = native.PushConsumer(options.group)
    consumer.set_namesrv_addr(options.namesrv)
    consumer.set_instance_name(f"{options.group}-{os.getpid()}")
    consumer.set_thread_count(1)
    consumer.set_message_batch_max_size(1)
    callback = MSG_CALLBACK_FUNC(received)
    ffi_check(dll.Subscribe(consumer._handle, options.topic.encode(), (options.tags or "*").encode()))
    ffi_check(dll.RegisterMessageCallback(consumer._handle, callback))
    consumer.start()
    emit("started")
    sys.stdin.read()
    consumer.shutdown()
    emit("stopped")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("deed", choices=["produce", "consume"])
    for name in ("namesrv", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--mode", default="sync")
    parser.add_argument("--tags", default="")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--keys", default="")
    parser.add_argument("--fail-prefix", default="")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--max-reconsume")
    options = parser.parse_args()
    {"produce": produce, "consume": consume}[options.deed](options)


main()
