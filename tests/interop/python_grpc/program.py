"""Drives the official RocketMQ 5 client for Python: program.py ENDPOINT COMMAND ...; one JSON value a line comes out.

It runs in an environment of its own, where nothing of Regulus is.
"""

import json
import sys
import time
from typing import Any

from rocketmq.grpc_protocol import TransactionResolution
from rocketmq.v5.client import ClientConfiguration, Credentials
from rocketmq.v5.consumer import SimpleConsumer
from rocketmq.v5.model import FilterExpression, Message
from rocketmq.v5.producer import Producer, TransactionChecker


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def message(topic: str, body: str, **fields: Any) -> Message:
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def simple_consumer(configuration: ClientConfiguration, group: str, topic: str, expression: str) -> SimpleConsumer:
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression(expression)}, await_duration=5)
    consumer.startup()
    return consumer


def round_trip(configuration: ClientConfiguration, topic: str, group: str, count: str) -> None:
    """Receive what is sent: half of it is acknowledged at once, the rest is left and comes again."""
    consumer = simple_consumer(configuration, group, topic, "A || B")
    consumer.receive(1, 15)     # a new group begins at the end
    producer = Producer(configuration, (topic,))
    producer.startup()
    for number in range(int(count)):
        made = message(topic, f"body {number}", tag="A" if number % 3 else "C", keys=f"key-{number}")
        made.add_property("number", str(number))
        say(sent=producer.send(made).message_id, number=number)
    first = True
    until = time.monotonic() + 90
    left = {f"body {number}" for number in range(int(count)) if number % 3}
    while left and time.monotonic() < until:
        for got in consumer.receive(16, 10):
            body = got.body.decode()
            say(received=body, id=got.message_id, tag=got.tag, keys=sorted(got.keys), properties=got.properties,
                attempt=got.delivery_attempt)
            if got.delivery_attempt == 1 and first:
                first = False       # left alone: it comes again
                continue
            consumer.ack(got)
            left.discard(body)
    say(left=sorted(left))
    producer.shutdown()
    consumer.shutdown()


def ordered(configuration: ClientConfiguration, topic: str, group: str) -> None:
    consumer = simple_consumer(configuration, group, topic, "*")
    consumer.receive(1, 15)
    producer = Producer(configuration, (topic,))
    producer.startup()
    for number in range(12):
        producer.send(message(topic, f"{number}", message_group=f"group-{number % 2}"))
    until, got = time.monotonic() + 60, 0
    while got < 12 and time.monotonic() < until:
        for each in consumer.receive(16, 15):
            say(received=int(each.body), group=each.message_group)
            consumer.ack(each)
            got += 1
    producer.shutdown()
    consumer.shutdown()


class _Committing(TransactionChecker):
    def check(self, asked: Message) -> Any:
        say(asked=asked.body.decode())
        return TransactionResolution.COMMIT


def transactions(configuration: ClientConfiguration, topic: str, group: str) -> None:
    consumer = simple_consumer(configuration, group, topic, "*")
    consumer.receive(1, 15)
    producer = Producer(configuration, (topic,), _Committing())
    producer.startup()
    for body, end in (("commit", "commit"), ("rollback", "rollback"), ("orphan", "")):
        transaction = producer.begin_transaction()
        producer.send(message(topic, body), transaction)
        if end:
            getattr(transaction, end)()
    until, got = time.monotonic() + 60, set()
    while "orphan" not in got and time.monotonic() < until:
        for each in consumer.receive(16, 15):
            say(received=each.body.decode())
            got.add(each.body.decode())
            consumer.ack(each)
    producer.shutdown()
    consumer.shutdown()


def refused(configuration: ClientConfiguration, topic: str) -> None:
    """What the server says of handles that are not its own."""
    consumer = simple_consumer(configuration, "refused", topic, "*")
    producer = Producer(configuration, (topic,))
    producer.startup()
    consumer.receive(1, 15)
    producer.send(message(topic, "one"))
    got = []
    while not got:
        got = consumer.receive(1, 10)
    consumer.change_invisible_duration(got[0], 20)
    consumer.ack(got[0])
    say(done=True)
    producer.shutdown()
    consumer.shutdown()


if __name__ == "__main__":
    endpoint, command, *arguments = sys.argv[1:]
    globals()[command](ClientConfiguration(endpoint, Credentials(), ""), *arguments)
