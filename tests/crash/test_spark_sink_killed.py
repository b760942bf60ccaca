"""Streams and a job, whose driver, executors, workers and broker are killed at random: the log holds every row once.

One driver runs all of them: a stream of files and one of a topic, both exactly once, a transactional stream, and a job
with a shuffle under AQE. A kill meets them all, one of them in the middle of a batch. What came of it is read from the
files of the log, not asked of the broker.
"""

import mmap
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from tests.crash.sink_stream import BATCH_ROWS, GIVEN, SINKS
from tests.crash.spark_processes import Driver

from regulus.client.sync import Admin, Producer
from regulus.errors import ClientError
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TRANS_HALF_TOPIC, TopicConfig
from regulus.record import message_record
from regulus.testing.running_server import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.once]

# `make sink-kills` runs many.
SEEDS = [int(seed) for seed in os.environ.get("REGULUS_SINK_SEEDS", "1").split()]
FILES = 12
LINES = 150
ROWS = FILES * LINES
ACCOUNTS = 7
GIVEN_QUEUES = 2
SCRIPT = Path(__file__).with_name("sink_stream.py")
POLL_S = 0.02
RUN_MAX_S = 400
SABOTAGE = """
from regulus.spark.sink import task

# Of the one: the rows say no longer which they are, so the broker takes each for a new one.
task._Task._marks = lambda self, lane: {}


# Of the other: a task reports before its half messages are stored, so the commit does not know them all.
class Hasty(task._Blocking):
    def __init__(self, options, config):
        super().__init__(options, config)
        self._is_hasty = options.is_transactional

    def flush(self):
        if not self._is_hasty:
            super().flush()


task._Blocking = Hasty
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "sabotage").mkdir()
    for number in range(FILES):
        path = tmp_path / "in" / f"{number:02}.txt"
        path.write_text("".join(f"row-{number * LINES + line:04}\n" for line in range(LINES)))
        os.utime(path, (number, number))
    return tmp_path


@pytest.fixture
def server(make_broker_process: Callable[..., ServerProcess]) -> ServerProcess:
    """With a topic that holds the rows as well, those of an account in one queue and in order."""
    server = make_broker_process()
    with Admin(server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name=GIVEN, read_queue_nums=GIVEN_QUEUES, write_queue_nums=GIVEN_QUEUES))
    with Producer(server.name_server_address, "giver") as producer:
        for queue_id in range(GIVEN_QUEUES):
            producer.send_batch([
                Message(GIVEN, f"row-{number:04}".encode(), keys=f"row-{number:04}",
                        properties={"account": str(number % ACCOUNTS)})
                for number in range(ROWS) if number % ACCOUNTS % GIVEN_QUEUES == queue_id],
                queue=MessageQueue(GIVEN, "broker-a", queue_id))
    return server


@pytest.fixture
def make_driver(server: ServerProcess, directory: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(*sinks: str) -> Driver:
        made.append(Driver(SCRIPT, [server.name_server_address, str(directory), *sinks], directory / "driver.log",
                           directory / "sabotage"))
        return made[-1]

    yield make
    for driver in made:
        driver.kill()


def stored(server: ServerProcess, topic: str) -> int:
    """Messages in the topic, or 0 while nobody answers."""
    try:
        with Admin(server.name_server_address) as admin:
            return sum(offset.max_offset for offset in admin.topic_stats(topic).values())
    except ClientError:
        return 0


def run_until(driver: Driver, reached: Callable[[], bool]) -> bool:
    """Let the driver run; False when it ended before. Starts it again when it gave up."""
    until = time.monotonic() + RUN_MAX_S
    while not reached():
        assert time.monotonic() < until, driver.log()
        if driver.exit_code is not None:
            if driver.exit_code == 0:
                return False
            driver.start()
        time.sleep(POLL_S)
    return True


def in_batch(server: ServerProcess, sink: str, batch: int, part: float) -> Callable[[], bool]:
    """Whether the sink has come to this part of a batch. What a half message is stored in counts as well."""
    topic = TRANS_HALF_TOPIC if sink == "halves" else sink
    wanted = part * ROWS if sink == "job" else (batch + part) * BATCH_ROWS
    return lambda: stored(server, topic) >= wanted


def torment(server: ServerProcess, driver: Driver, blows: Sequence[tuple[str, str]], chance: random.Random) -> int:
    """Kill one (victim, sink) after another, each in the middle of a batch of the sink; how many were."""
    killed = 0
    driver.start()
    for number, (victim, sink) in enumerate(blows):
        if not run_until(driver, in_batch(server, sink, number, chance.uniform(0.1, 0.8))):
            break
        killed += 1
        if victim == "broker":
            server.kill()
            server.start()
        elif victim == "driver":
            driver.kill()
            driver.start()
        else:
            # After a new start the first may not be there yet.
            kill = driver.kill_workers if victim == "workers" else partial(driver.kill_executor, chance.randrange(8))
            assert run_until(driver, kill)
    run_until(driver, lambda: False)
    return killed


# --- what is in the log ----------------------------------------------------------------------------------------------


def messages_in_log(server: ServerProcess) -> dict[str, list[MessageExt]]:
    """All records of the log in their order, by topic. The broker is stopped for it."""
    server.stop()
    found: defaultdict[str, list[MessageExt]] = defaultdict(list)
    for path in sorted((server.store_path / "commitlog").iterdir()):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = 0
            while size := int.from_bytes(data[position:position + 4]):
                message = message_record.decode(data[position:position + size])
                found[message.topic].append(message)
                position += size
    return found


def check_each_row_once(messages: list[MessageExt]) -> None:
    found = Counter(message.body.decode() for message in messages)
    wanted = {f"row-{number:04}" for number in range(ROWS)}
    assert sorted(wanted - set(found)) == [], "lost"
    assert sorted(row for row, count in found.items() if count > 1) == [], "twice"
    assert set(found) == wanted
    assert [message.body.decode() for message in messages if message.keys != message.body.decode()] == [], "key"


def check_order(sink: str, messages: list[MessageExt]) -> None:
    """Places without a gap in each queue; and the rows of a task in their order, those of an account in all batches."""
    next_offset: Counter[int] = Counter()
    rows: defaultdict[object, list[bytes]] = defaultdict(list)
    for message in messages:
        assert message.queue_offset == next_offset[message.queue_id]
        next_offset[message.queue_id] += 1
        lane, (batch, _, row) = message.properties["SINK"], message.properties["SEQ"].partition("/")
        rows[lane, batch].append(b"%06d" % int(row))
        body = message.body
        if sink == "log":
            rows[message.properties["__SHARDINGKEY"], message.queue_id].append(body)
        elif sink == "job":
            rows[lane].append(body)
        else:
            rows[lane, batch, int(body[-4:]) // LINES].append(body)
    assert [(group, one, other) for group, each in rows.items() for one, other in pairwise(each) if one >= other] == []
    if sink == "log":
        assert len({group for group in rows if group[0] in map(str, range(ACCOUNTS))}) == ACCOUNTS


@pytest.mark.parametrize("seed", SEEDS)
def test_the_log_holds_every_row_once_whoever_is_killed(
        server: ServerProcess, make_driver: Callable[..., Driver], seed: int) -> None:
    chance = random.Random(seed)
    victims = ["driver", "executor", "broker", chance.choice(("workers", "executor", "broker"))]
    chance.shuffle(victims)
    sinks = [*SINKS]
    chance.shuffle(sinks)
    # All of the job is one batch.
    sinks.sort(key=lambda sink: sink != "job")
    assert torment(server, make_driver(*SINKS), list(zip(victims, sinks, strict=True)), chance) == len(victims)
    log = messages_in_log(server)
    for sink in SINKS:
        check_each_row_once(log[sink])
        if sink != "halves":
            check_order(sink, log[sink])


def test_the_check_finds_sinks_that_keep_no_promise(
        server: ServerProcess, make_driver: Callable[..., Driver], directory: Path) -> None:
    (directory / "sabotage" / "sitecustomize.py").write_text(SABOTAGE)
    assert torment(server, make_driver("files", "halves"), [("workers", "files")], random.Random(1)) == 1
    log = messages_in_log(server)
    with pytest.raises(AssertionError, match="twice"):
        check_each_row_once(log["files"])
    with pytest.raises(AssertionError, match="lost"):
        check_each_row_once(log["halves"])
