"""Streams, whose driver, workers and broker are killed at random: every row is in the topic once.

One driver runs a stream of each guarantee, so that a kill meets both, one of them in the middle of a batch.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from regulus.client.sync import Admin
from regulus.errors import ClientError
from regulus.testing.running_server import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.once]

# More seeds take longer: REGULUS_SINK_SEEDS="1 2 3".
SEEDS = [int(seed) for seed in os.environ.get("REGULUS_SINK_SEEDS", "1").split()]
FILES = 12
LINES = 150
BATCH_ROWS = 2 * LINES
SCRIPT = Path(__file__).with_name("sink_stream.py")
POLL_S = 0.02
RUN_MAX_S = 300
TOPICS = {"exactlyOnce": "sunk", "transactional": "sunk-halves"}
# Where messages of a batch that is not over can be counted.
BEGUN = {"exactlyOnce": "sunk", "transactional": "RMQ_SYS_TRANS_HALF_TOPIC"}
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


class Streams:
    """The streams' driver with its JVM and workers, in a process group of their own."""

    def __init__(self, server: ServerProcess, directory: Path) -> None:
        self._arguments = [server.name_server_address, str(directory), *(
            f"{guarantee}={topic}" for guarantee, topic in TOPICS.items())]
        self._log = directory / "stream.log"
        self._environment = {**os.environ,
                             "PYTHONPATH": os.pathsep.join([str(directory / "sabotage"), *sys.path])}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, str(SCRIPT), *self._arguments], stdout=subprocess.DEVNULL,
                                            stderr=log, env=self._environment, start_new_session=True)

    def kill(self) -> None:
        """All at once: driver, JVM and workers."""
        if self.process is not None:
            for pid in (*descendants(self.process.pid), self.process.pid):
                kill(pid)
            self.process.wait()

    def kill_workers(self) -> bool:
        """The forked processes that run tasks; whether there was one."""
        assert self.process is not None
        module = " pyspark.worker"     # of a worker and of the daemon that forked it, whichever daemon that is
        workers = [pid for pid in descendants(self.process.pid)
                   if module in command_line(pid) and module in command_line(parent(pid))]
        return sum(map(kill, workers)) > 0

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(root: int) -> list[int]:
    """The deepest first."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = [root]
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found[:0:-1]


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "sabotage").mkdir()
    for number in range(FILES):
        path = tmp_path / "in" / f"{number:02}.txt"
        path.write_text("".join(f"row-{number * LINES + line}\n" for line in range(LINES)))
        os.utime(path, (number, number))
    return tmp_path


@pytest.fixture
def server(make_broker_process: Callable[..., ServerProcess]) -> ServerProcess:
    return make_broker_process()


@pytest.fixture
def streams(server: ServerProcess, directory: Path) -> Iterator[Streams]:
    streams = Streams(server, directory)
    yield streams
    streams.kill()


def stored(server: ServerProcess, topic: str) -> int:
    """Messages in the topic, or 0 while nobody answers."""
    try:
        with Admin(server.name_server_address) as admin:
            return sum(offset.max_offset for offset in admin.topic_stats(topic).values())
    except ClientError:
        return 0


def run_until(streams: Streams, reached: Callable[[], bool]) -> bool:
    """Let the streams run; False when they ended before. Starts them again when they gave up."""
    until = time.monotonic() + RUN_MAX_S
    while not reached():
        assert time.monotonic() < until, streams.log()
        if streams.ended():
            assert streams.process is not None
            if streams.process.returncode == 0:
                return False
            streams.start()
        time.sleep(POLL_S)
    return True


def rows_in(server: ServerProcess, topic: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with Admin(server.name_server_address) as admin:
        for queue in admin.queues(topic):
            offset = 0
            while messages := admin.pull(queue, offset, 1024).messages:
                found.update(message.body.decode() for message in messages)
                offset = messages[-1].queue_offset + 1
    return found


def check_each_row_once(server: ServerProcess, topic: str) -> None:
    found = rows_in(server, topic)
    wanted = {f"row-{number}" for number in range(FILES * LINES)}
    assert sorted(wanted - set(found)) == [], "lost"
    assert sorted(row for row, count in found.items() if count > 1) == [], "twice"
    assert set(found) == wanted


def mid_batch(server: ServerProcess, topic: str, batch: int) -> Callable[[], bool]:
    """Whether a part of that batch, or of a later one, is stored. What a half message is stored in counts as well."""
    def reached() -> bool:
        count = stored(server, topic)
        return count > batch * BATCH_ROWS and BATCH_ROWS // 6 < count % BATCH_ROWS < 5 * BATCH_ROWS // 6
    return reached


def torment(server: ServerProcess, streams: Streams, blows: Sequence[tuple[str, str]], chance: random.Random) -> int:
    """Kill one (victim, guarantee) after another, each in the middle of some batch of the guarantee's stream; how many
    were."""
    killed = 0
    streams.start()
    for number, (victim, guarantee) in enumerate(blows):
        if not run_until(streams, mid_batch(server, BEGUN[guarantee], number)):
            break
        time.sleep(chance.uniform(0, 0.1))
        killed += 1
        if victim == "broker":
            server.kill()
            server.start()
        elif victim == "workers":
            # After a new start the first may not be there yet.
            assert run_until(streams, streams.kill_workers)
        else:
            streams.kill()
            streams.start()
    run_until(streams, lambda: False)
    return killed


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_stored_once_whoever_is_killed(server: ServerProcess, streams: Streams, seed: int) -> None:
    chance = random.Random(seed)
    victims = ["driver", "workers", "broker", chance.choice(("workers", "broker"))]    # a driver takes long to start
    chance.shuffle(victims)
    guarantees = [*BEGUN, *BEGUN]
    chance.shuffle(guarantees)
    assert torment(server, streams, list(zip(victims, guarantees, strict=True)), chance) == len(victims)
    for topic in TOPICS.values():
        check_each_row_once(server, topic)


def test_the_check_finds_sinks_that_keep_no_promise(server: ServerProcess, streams: Streams, directory: Path) -> None:
    (directory / "sabotage" / "sitecustomize.py").write_text(SABOTAGE)
    assert torment(server, streams, [("workers", "exactlyOnce")], random.Random(1)) == 1
    with pytest.raises(AssertionError, match="twice"):
        check_each_row_once(server, TOPICS["exactlyOnce"])
    with pytest.raises(AssertionError, match="lost"):
        check_each_row_once(server, TOPICS["transactional"])
