"""All blocking clients in a process whose threads gevent has made greenlets, beside a greenlet that must go on."""

from gevent import monkey

monkey.patch_all()

import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402

from regulus import ConsumeStatus, KeptSends, Message, TransactionState  # noqa: E402
from regulus.client.config import ConsumeFromWhere, ProducerConfig, PushConsumerConfig  # noqa: E402
from regulus.client.sync import Producer, PushConsumer, SimpleConsumer, TransactionProducer  # noqa: E402

address, away, folder = os.environ["NAMESRV_ADDR"], sys.argv[1], sys.argv[2]
turns = 0


def turn():
    global turns
    while True:
        gevent.sleep(0.001)
        turns += 1


got, has_all = set(), threading.Event()


def listen(messages, context):
    got.update(message.body for message in messages)
    if len(got) == 101:
        has_all.set()
    return ConsumeStatus.CONSUME_SUCCESS


def book(message):
    gevent.sleep(0.01)
    return TransactionState.COMMIT


gevent.spawn(turn)
consumer = PushConsumer(address, "Green", listen, PushConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
consumer.subscribe("Green")
with consumer, TransactionProducer(address, "greens") as producer:
    sends = [gevent.spawn(producer.send, Message("Green", b"%d" % number)) for number in range(100)]
    gevent.joinall(sends, raise_error=True)
    result = producer.send_in_transaction(Message("Green", b"x" * 300_000), book)      # packed in a thread
    assert (result.state, result.is_ended) == (TransactionState.COMMIT, True)
    assert has_all.wait(60), len(got)
simple = SimpleConsumer(address, "GreenToo")
simple.subscribe("NothingComes")
with simple:
    begun = turns
    simple.receive(await_duration_ms=500)
    assert turns > begun + 10, "the other greenlets stood still"
kept = KeptSends(Path(folder) / "kept")
with Producer(away, "greens", ProducerConfig(send_msg_timeout=200, await_termination_millis_when_shutdown=1000),
              on_send_failed=kept) as producer:
    future = producer.send_async(Message("Green", b"kept"))
    assert type(future.exception(60)).__name__ == "SendKept"
print("done")
