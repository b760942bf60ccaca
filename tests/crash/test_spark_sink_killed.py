"""One stream, whose driver, workers and broker are killed at random: every row is in the topic once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regulus.client.sync import Admin
from regulus.errors import ClientError
from regulus.testing.running_server import ServerProcess

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

# More seeds take longer: REGULUS_SINK_SEEDS="1 2 3".
SEEDS = [int(seed) for seed in os.environ.get("REGULUS_SINK_SEEDS", "1").split()]
FILES = 10
LINES = 150
BATCH_ROWS = 2 * LINES
SCRIPT = Path(__file__).with_name("sink_stream.py")
POLL_S = 0.02
RUN_MAX_S = 300
SABOTAGE = {
    # The rows say no longer which they are, so the broker takes each for a new one.
    "ignores the mark": "from regulus.spark.sink.task import _Task\n_Task._marks = lambda self, lane: {}\n",
    # A task reports before its half messages are stored, so the commit does not know them all.
    "commits before the halves": "from regulus.spark.sink.task import _Blocking\n_Blocking.flush = lambda self: None\n",
}


class Stream:
    """The stream's driver with its JVM and workers, in a process group of their own."""

    def __init__(self, server: ServerProcess, directory: Path, guarantee: str) -> None:
        self._arguments = [server.name_server_address, str(directory / "in"), str(directory / "checkpoint"), guarantee]
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

    def kill_worker(self) -> bool:
        """One of the forked workers that run tasks; whether there was one."""
        assert self.process is not None
        workers = [pid for pid in descendants(self.process.pid)
                   if "pyspark.daemon" in command_line(pid) and "pyspark.daemon" in command_line(parent(pid))]
        return bool(workers) and kill(workers[-1])

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
def make_stream(directory: Path) -> Iterator[Callable[..., Stream]]:
    made: list[Stream] = []

    def make(server: ServerProcess, guarantee: str) -> Stream:
        made.append(Stream(server, directory, guarantee))
        return made[-1]

    yield make
    for stream in made:
        stream.kill()


def stored(server: ServerProcess, topic: str = "sunk") -> int:
    """Messages in the topic, or 0 while nobody answers."""
    try:
        with Admin(server.name_server_address) as admin:
            return sum(offset.max_offset for offset in admin.topic_stats(topic).values())
    except ClientError:
        return 0


def run_until(stream: Stream, reached: Callable[[], bool]) -> bool:
    """Let the stream run; False when it ended before. Starts it again when it gave up."""
    until = time.monotonic() + RUN_MAX_S
    while not reached():
        assert time.monotonic() < until, stream.log()
        if stream.ended():
            assert stream.process is not None
            if stream.process.returncode == 0:
                return False
            stream.start()
        time.sleep(POLL_S)
    return True


def rows_in(server: ServerProcess) -> Counter[str]:
    found: Counter[str] = Counter()
    with Admin(server.name_server_address) as admin:
        for queue in admin.queues("sunk"):
            offset = 0
            while messages := admin.pull(queue, offset, 1024).messages:
                found.update(message.body.decode() for message in messages)
                offset = messages[-1].queue_offset + 1
    return found


def check_each_row_once(server: ServerProcess) -> None:
    found = rows_in(server)
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


def torment(server: ServerProcess, stream: Stream, topic: str, victims: list[str], chance: random.Random) -> int:
    """Kill one after another, each in the middle of some batch; how many were."""
    killed = 0
    stream.start()
    for number, victim in enumerate(victims):
        if not run_until(stream, mid_batch(server, topic, number)):
            break
        time.sleep(chance.uniform(0, 0.1))
        killed += 1
        if victim == "broker":
            server.kill()
            server.start()
        elif victim == "worker":
            stream.kill_worker()
        else:
            stream.kill()
            stream.start()
    run_until(stream, lambda: False)
    return killed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("guarantee", "topic"), [
    ("exactlyOnce", "sunk"), ("transactional", "RMQ_SYS_TRANS_HALF_TOPIC")])
def test_every_row_is_stored_once_whoever_is_killed(make_broker_process: Callable[..., ServerProcess],
                                                    make_stream: Callable[..., Stream], guarantee: str, topic: str,
                                                    seed: int) -> None:
    chance = random.Random(seed)
    victims = ["driver", "worker", "broker", chance.choice(("driver", "worker", "broker"))]
    chance.shuffle(victims)
    server = make_broker_process()
    stream = make_stream(server, guarantee)
    assert torment(server, stream, topic, victims, chance) == len(victims)
    check_each_row_once(server)


@pytest.mark.parametrize(("guarantee", "topic", "sabotage", "finding"), [
    ("exactlyOnce", "sunk", "ignores the mark", "twice"),
    ("transactional", "RMQ_SYS_TRANS_HALF_TOPIC", "commits before the halves", "lost")])
def test_the_check_finds_a_sink_that(make_broker_process: Callable[..., ServerProcess],
                                     make_stream: Callable[..., Stream], directory: Path, guarantee: str, topic: str,
                                     sabotage: str, finding: str) -> None:
    (directory / "sabotage" / "sitecustomize.py").write_text(SABOTAGE[sabotage])
    server = make_broker_process()
    stream = make_stream(server, guarantee)
    assert torment(server, stream, topic, ["driver"], random.Random(1)) == 1
    with pytest.raises(AssertionError, match=finding):
        check_each_row_once(server)
