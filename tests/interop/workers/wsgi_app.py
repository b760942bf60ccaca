"""A WSGI application with one blocking producer in each worker, made when that sends for the first time."""

import os
from functools import cache

from regulus import Message
from regulus.client.sync import Producer


@cache
def producer():
    made = Producer(os.environ["NAMESRV_ADDR"], "web")
    made.start()
    return made


def application(environ, start_response):
    """Stores one message, begins ten sends that nobody asks for, and answers with the process."""
    producer().send(Message("Web", b"asked for"))
    for _ in range(10):
        producer().send_async(Message("Web", b"not asked for"))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
