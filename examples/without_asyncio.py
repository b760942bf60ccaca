"""Uses the blocking clients, for programs without an event loop. They call the listener in threads."""

import sys
import threading

from regulus import ConsumeContext, ConsumeFromWhere, ConsumeStatus, Message, MessageExt, PushConsumerConfig
from regulus.client.sync import Admin, Producer, PushConsumer


def main(name_server: str = "127.0.0.1:9876") -> None:
    done = threading.Event()

    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        print(f"{threading.current_thread().name} consumed {messages[0].body.decode()}")
        if messages[0].body == b"bye":
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    with Producer(name_server, "greeters") as producer:
        waiting = [producer.send_async(Message("Greetings", b"hello %d" % number)) for number in range(5)]
        for future in waiting:
            print(f"sent {future.result().message_id}")
        producer.send(Message("Greetings", b"bye"))

    consumer = PushConsumer(name_server, "listeners", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe("Greetings")
    with consumer:
        done.wait()
    with Admin(name_server) as admin:
        print(f"{admin.progress('listeners').lag} messages left")


if __name__ == "__main__":
    main(*sys.argv[1:])
