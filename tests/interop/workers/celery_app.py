"""A Celery application with one blocking producer in each process of its pool."""

import os

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

from regulus import Message
from regulus.client.sync import Producer

folder = os.environ["CELERY_FOLDER"]
app = Celery("web", broker="filesystem://", backend=f"file://{folder}")
app.conf.update(broker_transport_options={"data_folder_in": folder, "data_folder_out": folder,
                                          "control_folder": folder})
producers = []


@worker_process_init.connect
def begin(**_):
    producers.append(Producer(os.environ["NAMESRV_ADDR"], "web"))
    producers[0].start()


@worker_process_shutdown.connect
def end(**_):
    producers[0].shutdown()     # the processes of a pool end without what `atexit` has


@app.task
def work():
    producers[0].send(Message("Web", b"asked for"))
    for _ in range(10):
        producers[0].send_async(Message("Web", b"not asked for"))
    return os.getpid()
