"""How the blocking clients end with their process: what was accepted is stored or told, and no call waits for ever."""

import inspect
import subprocess
import sys
import textwrap

import pytest

from regulus.client import sync
from regulus.client.sending.kept_file import KeptFile
from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from tests.unit.client.scripted_servers import closed_address

HEAD = """
import sys
from regulus import KeptSends, Message
from regulus.client.config import ProducerConfig
from regulus.client.sync import Admin, Producer, PushConsumer, SimpleConsumer, TransactionProducer

address = sys.argv[1]
"""
COUNT = 2000

ENDS = {
    "with": """
        with Producer(address, "PG") as producer:
            for number in range(2000):
                producer.send_async(Message("T", b"%d" % number))
    """,
    "no shutdown": """
        producer = Producer(address, "PG")
        producer.start()
        for number in range(2000):
            producer.send_async(Message("T", b"%d" % number))
    """,
    "a daemon thread": """
        import threading

        given = threading.Event()

        def work():
            producer = Producer(address, "PG")
            producer.start()
            for number in range(2000):
                producer.send_async(Message("T", b"%d" % number))
            given.set()

        threading.Thread(target=work, daemon=True).start()
        given.wait()
    """,
    "a thread that outlives the main one": """
        import threading, time

        def work():
            threading.main_thread().join()
            producer = Producer(address, "PG")
            producer.start()
            for number in range(2000):
                producer.send_async(Message("T", b"%d" % number + b"x" * 8 * 1024 * (number == 7)))

        threading.Thread(target=work).start()
    """,
    "sys.exit": """
        producer = Producer(address, "PG")
        producer.start()
        for number in range(2000):
            producer.send_async(Message("T", b"%d" % number))
        sys.exit(0)
    """,
    "an exit function": """
        import atexit

        producer = Producer(address, "PG")
        producer.start()

        @atexit.register
        def work():
            for number in range(2000):
                producer.send_async(Message("T", b"%d" % number))
    """,
}

FORKED = """
import multiprocessing

def work():
    producer = Producer(address, "PG")
    producer.start()
    for number in range(2000):
        producer.send_async(Message("T", b"%d" % number))

if __name__ == "__main__":
    process = multiprocessing.get_context("METHOD").Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def run(program, *arguments, head=HEAD, path=None):
    text = head + textwrap.dedent(program)
    command = ["-c", text] if path is None else [str(path)]
    if path is not None:
        path.write_text(text)
    return subprocess.run([sys.executable, *command, *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture
def stored(regulus_server):
    """The address, and how many messages the topic has."""
    with Admin(regulus_server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="T"))
        yield regulus_server.name_server_address, lambda: sum(
            offsets.max_offset for offsets in admin.topic_stats("T").values())


@pytest.mark.parametrize("end", ENDS)
def test_what_a_process_gave_to_be_sent_is_stored_however_it_ends(stored, end):
    address, count = stored
    done = run(ENDS[end], address)
    assert (done.returncode, done.stderr, count()) == (0, "", COUNT)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_so_it_is_with_a_child_of_multiprocessing(stored, method, tmp_path):
    address, count = stored
    done = run(FORKED.replace("METHOD", method), address, path=tmp_path / "program.py")
    assert (done.returncode, done.stderr, count()) == (0, "", COUNT)


@pytest.mark.parametrize("end", ["", "producer.shutdown()"], ids=["no shutdown", "shutdown"])
def test_what_no_broker_takes_in_time_is_told_and_kept(end, tmp_path):
    done = run(f"""
        producer = Producer(address, "PG", ProducerConfig(await_termination_millis_when_shutdown=200,
                                                          send_msg_timeout=60_000, back_pressure_for_async_send_num=10),
                            on_send_failed=KeptSends(sys.argv[2]))
        producer.start()
        futures = [producer.send_async(Message("T", b"%d" % number)) for number in range(100)]
        {end}
        if {bool(end)}:
            print({{type(future.exception()).__name__ for future in futures}})
    """, closed_address(), str(tmp_path / "kept"))
    assert done.returncode == 0
    assert "100 of its sends have not ended within 200 ms" in done.stderr
    assert done.stdout == ("{'SendKept'}\n" if end else "")
    file = KeptFile(tmp_path / "kept")
    try:
        assert file.status().waiting == 100
    finally:
        file.close()


DOORS = {
    "Producer": 'Producer(address, "PG")',
    "TransactionProducer": 'TransactionProducer(address, "PG")',
    "PushConsumer": 'PushConsumer(address, "CG", print)',
    "SimpleConsumer": 'SimpleConsumer(address, "CG")',
    "Admin": "Admin(address)",
}

AT_THE_END = """
import inspect, sys

class AtTheEnd:
    def __init__(self, client, report):
        self.client, self.report = client, report

    def __del__(self, inspect=inspect, sys=sys):
        assert sys.is_finalizing()
        kind = type(self.client)
        for name in dir(kind):
            door = inspect.getattr_static(kind, name)
            if name in ("__enter__", "__exit__") or not name.startswith("_"):
                self.report(name, try_door(self.client, name, door, inspect))

def try_door(client, name, door, inspect):
    try:
        if isinstance(door, property):
            getattr(client, name)
        else:
            method = getattr(client, name)
            needed = [part for part in inspect.signature(method).parameters.values()
                      if part.default is part.empty and part.kind is not part.KEYWORD_ONLY]
            method(*[None] * len(needed))
        return "returned"
    except BaseException as error:
        return type(error).__name__

def report(name, what, write=__import__("os").write):
    write(1, f"{name} {what}\\n".encode())
"""


@pytest.mark.parametrize("kind", DOORS)
def test_no_call_waits_for_ever_while_the_interpreter_takes_itself_apart(kind, regulus_server):
    client = getattr(sync, kind)
    public = {name for name, value in inspect.getmembers(client) if not name.startswith("_")} | {
        "__enter__", "__exit__"}
    done = run(f"""
        client = {DOORS[kind]}
        if hasattr(client, "subscribe"):
            client.subscribe("T")
        client.start()
        kept = AtTheEnd(client, report)
    """, regulus_server.name_server_address, head=HEAD + AT_THE_END.replace("\\\\", "\\"))
    outcomes = dict(line.split() for line in done.stdout.splitlines())
    assert set(outcomes) == public
    assert set(outcomes.values()) == {"ClientError"}, outcomes
    assert done.returncode == 0


def test_a_generator_that_ends_with_the_interpreter_waits_for_nothing(regulus_server):
    done = run("""
        def sending():
            with Producer(address, "PG") as producer:
                while True:
                    yield producer.send(Message("T", b"x"))

        generator = sending()
        next(generator)
    """, regulus_server.name_server_address)
    assert done.returncode == 0
    assert "ClientError: a blocking client was called while the interpreter takes itself apart" in done.stderr


def test_a_client_that_is_made_when_no_thread_can_be_started_says_so(regulus_server):
    done = run("""
        class Late:
            def __del__(self, make=Producer, address=address):
                make(address, "PG")

        late = Late()
    """, regulus_server.name_server_address)
    assert done.returncode == 0
    assert "ClientError: a blocking client was called while" in done.stderr
