"""Drives PyPI's rocketmq-python-client, the official RocketMQ 5 client; each event is one line of JSON.

The first argument names the deed (produce, receive, push), pairs of `--name value` follow. What receives, pushes or has
transactions goes on until standard input ends. It runs in an environment of its own, where nothing of Regulus is.
"""

import json
import sys
import threading
import time
from typing import Any

from rocketmq.grpc_protocol import FilterType, TransactionResolution
from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import ConsumeResult, MessageListener, PushConsumer, SimpleConsumer
from rocketmq.v5.exception import InternalErrorException
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer, TransactionChecker

OPTIONS = {name.removeprefix("--"): value for name, value in zip(sys.argv[2::2], sys.argv[3::2], strict=True)}
TLS = OPTIONS.get("tls") == "1"
_output = threading.Lock()
ended = threading.Event()


def say(event: str, **values: Any) -> None:
    with _output:
        print(json.dumps({"event": event, "at": int(time.time() * 1000), **values}), flush=True)


def say_message(message: Message) -> None:
    say("message", body=message.body.decode(), id=message.message_id, tag=message.tag,
        group=message.message_group, attempt=message.delivery_attempt)


def await_end_of_input() -> None:
    sys.stdin.read()
    ended.set()


def configuration() -> ClientConfiguration:
    credentials = Credentials(OPTIONS.get("access-key", ""), OPTIONS.get("secret-key", ""))
    return ClientConfiguration(OPTIONS["endpoint"], credentials, request_timeout=10)


def subscription() -> dict[str, FilterExpression]:
    if "sql" in OPTIONS:
        return {OPTIONS["topic"]: FilterExpression(OPTIONS["sql"], FilterType.SQL)}
    return {OPTIONS["topic"]: FilterExpression(OPTIONS.get("tag", "*"))}


class _Checker(TransactionChecker):
    def check(self, message: Message) -> Any:
        say("checked", body=message.body.decode())
        return TransactionResolution.COMMIT


def message(index: int) -> Message:
    made = Message()
    made.topic, made.body = OPTIONS["topic"], f"{OPTIONS['prefix']}-{index}".encode()
    made.add_property("index", str(index))
    if "tags" in OPTIONS:
        tags = OPTIONS["tags"].split(",")
        made.tag = tags[index % len(tags)]
    if OPTIONS["kind"] == "fifo":
        groups = OPTIONS["message-groups"].split(",")
        made.message_group = groups[index % len(groups)]
    if OPTIONS["kind"] == "delay":
        made.delivery_timestamp = int(time.time()) + int(OPTIONS["delay-ms"]) // 1000     # it takes whole seconds
    return made


def due_ms(made: Message) -> int:
    """When the client asks for it to be delivered."""
    return made.delivery_timestamp * 1000 if made.delivery_timestamp else 0


def produce() -> None:
    producer = Producer(configuration(), (OPTIONS["topic"],), _Checker(), TLS)
    producer.startup()
    say("started")
    ends = OPTIONS.get("ends", "").split(",")
    for index in range(int(OPTIONS["count"])):
        made = message(index)
        transaction = producer.begin_transaction() if OPTIONS["kind"] == "transaction" else None
        receipt = producer.send(made, transaction)
        say("sent", body=made.body.decode(), id=receipt.message_id, due=due_ms(made))
        if OPTIONS.get("recall") == "1":
            producer.recall_message(OPTIONS["topic"], receipt.recall_handle)
            say("recalled", body=made.body.decode())
        if transaction and ends[index] != "none":
            getattr(transaction, ends[index])()
    if OPTIONS["kind"] == "transaction":
        ended.wait()
    producer.shutdown()


def received(consumer: SimpleConsumer, *, first: bool) -> list[Message]:
    """What there is. This client does not wait for its settings to arrive: RocketMQ's proxy may know none at first."""
    try:
        got: list[Message] = consumer.receive(16, int(OPTIONS.get("invisible-ms", "30000")) // 1000)
    except InternalErrorException as problem:
        if not first or '"settings" is null' not in str(problem):
            raise
        say("too-early", message=str(problem))
        time.sleep(1)
        return []
    return got


def receive() -> None:
    consumer = SimpleConsumer(configuration(), OPTIONS["group"], subscription(), await_duration=5, tls_enable=TLS)
    consumer.startup()
    say("started")
    first = True
    while not ended.is_set():
        messages, first = received(consumer, first=first), False
        for got in messages:
            say_message(got)
            if "change-ms" in OPTIONS and got.delivery_attempt == 1:
                consumer.change_invisible_duration(got, int(OPTIONS["change-ms"]) // 1000)
                say("changed", body=got.body.decode())
            else:
                consumer.ack(got)
                say("acked", body=got.body.decode())
    consumer.shutdown()


class _Failing(MessageListener):
    """Fails the first `--fail` attempts of a message; -1 fails them all."""

    def consume(self, got: Message) -> ConsumeResult:
        say_message(got)
        fail = int(OPTIONS.get("fail", "0"))
        return ConsumeResult.FAILURE if fail < 0 or got.delivery_attempt <= fail else ConsumeResult.SUCCESS


def push() -> None:
    consumer = PushConsumer(configuration(), OPTIONS["group"], _Failing(), subscription(), tls_enable=TLS)
    consumer.startup()
    say("started")
    ended.wait()
    consumer.shutdown()


if __name__ == "__main__":
    threading.Thread(target=await_end_of_input, daemon=True).start()
    try:
        {"produce": produce, "receive": receive, "push": push}[sys.argv[1]]()
    except Exception as problem:
        say("error", message=f"{type(problem).__name__}: {problem}")
        raise
