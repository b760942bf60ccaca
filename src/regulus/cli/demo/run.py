"""Commits all flights, kills relay, broker and consumer meanwhile, and waits until each flight is settled."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from regulus.cli.demo.airports import TOPIC, Airports
from regulus.cli.demo.board_process import CONSUMER_GROUP
from regulus.cli.demo.databases import airports, departure_board
from regulus.cli.demo.flights import read_flights
from regulus.cli.demo.processes import DemoProcess
from regulus.client.sync import Admin
from regulus.errors import RegulusError
from regulus.model.topics import TopicConfig, dlq_topic

# Levels 3 and 4, where retries begin, wait half a second and one second here instead of 10 and 30 seconds.
DELAY_LADDER = "100ms 200ms 500ms 1s 2s 5s 10s 30s 1m 2m 3m 4m 5m 10m 20m 30m 1h 2h"
FLIGHTS_AT_ONCE = 500
"""Flights of one commit."""
AHEAD_MAX = 6_000
"""The most flights that are committed and not settled, so that all processes have work when one is killed."""
KILL_FROM, KILL_TO = 0.1, 0.9
DOWN_S = 1.0
LOOK_INTERVAL_S = 0.1
QUIET_TIMEOUT_S = 60

Progress = Callable[[int, int], None]
"""Called with (committed, settled) about ten times a second."""


@dataclass(slots=True)
class Kill:
    """The kill of a process, when `settled` flights are settled. Times are in seconds since 1970."""

    process: DemoProcess
    settled: int
    killed_at: float = 0.0
    back_at: float = 0.0


@dataclass(slots=True)
class DemoRun:
    """The course of a run; `seconds` is its duration since the first commit."""

    kills: list[Kill]
    started_at: float = field(default_factory=time.time)
    seconds: float = 0.0


class Demo:
    def __init__(self, directory: Path, port: int, name_server_port: int, flights_in_all: int, seed: int,
                 progress: Progress) -> None:
        self._directory = directory
        self._name_server_port = name_server_port
        self._name_server = f"127.0.0.1:{name_server_port}"
        self._flights_in_all = flights_in_all
        self._progress = progress
        self._airports = Airports(airports(directory))
        departure_board(directory).dispose()
        configuration = directory / "broker.conf"
        configuration.write_text(f"brokerName=broker-a\nlistenPort={port}\n"
                                 f"storePathRootDir={directory / 'store'}\nmessageDelayLevel={DELAY_LADDER}\n")
        both = (str(directory), self._name_server)
        self._broker = DemoProcess("broker", directory, "regulus.cli.main",
                                   ("up", "-c", str(configuration), "--namesrv-port", str(name_server_port)))
        self._relay = DemoProcess("relay", directory, "regulus.cli.demo.relay_process", both)
        self._board = DemoProcess("consumer", directory, "regulus.cli.demo.board_process", both)
        self._processes = (self._broker, self._relay, self._board)
        self._kills = self._drawn(random.Random(seed))
        self._settled = 0

    def run(self) -> DemoRun:
        """Run the demo. Raises RegulusError when a process ends by itself, or the flights are not settled in time."""
        with ExitStack() as stack:
            for process in self._processes:
                stack.callback(process.stop)
                self._start(process)
                if process is self._broker:
                    self._make_topics()
            run = DemoRun(self._kills)
            self._play()
            run.seconds = time.time() - run.started_at
        return run

    def _drawn(self, chance: random.Random) -> list[Kill]:
        """The kills: each process once, in random order."""
        points = sorted(int(chance.uniform(KILL_FROM, KILL_TO) * self._flights_in_all) for _ in self._processes)
        return [Kill(process, point) for process, point in
                zip(chance.sample(self._processes, len(self._processes)), points, strict=True)]

    def _make_topics(self) -> None:
        with Admin(self._name_server) as admin:
            admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=8))
            admin.create_topic(TopicConfig(topic_name=dlq_topic(CONSUMER_GROUP), read_queue_nums=1,
                                           write_queue_nums=1))

    def _play(self) -> None:
        flights = islice(read_flights(), self._flights_in_all)
        moved_at = looked_at = time.monotonic()
        while self._settled < self._flights_in_all or any(not kill.back_at for kill in self._kills):
            some = list(islice(flights, FLIGHTS_AT_ONCE)) if self._has_room() else []
            if some:
                self._airports.commit(some)
            else:
                time.sleep(LOOK_INTERVAL_S / 5)
            if time.monotonic() - looked_at < LOOK_INTERVAL_S:
                continue
            looked_at = time.monotonic()
            if self._look():
                moved_at = looked_at
            elif looked_at - moved_at > QUIET_TIMEOUT_S:
                raise RegulusError(f"nothing moved for {QUIET_TIMEOUT_S} s: {self._settled} of "
                                   f"{self._airports.committed} committed flights are settled; "
                                   f"{self._directory}/*.log may say why")

    def _has_room(self) -> bool:
        return self._airports.committed - self._settled < AHEAD_MAX

    def _look(self) -> bool:
        """Kill and start processes that are due; whether any flight was settled since the last call."""
        before, self._settled = self._settled, self._airports.settled()
        self._progress(self._airports.committed, self._settled)
        for kill in self._kills:
            self._kill_or_start(kill)
        for process in self._processes:
            process.check()
        return self._settled > before

    def _kill_or_start(self, kill: Kill) -> None:
        """Kill or start one process. Only one may be down at a time, because the others cannot start without the
        broker."""
        now = time.time()
        is_another_down = any(each.killed_at and not each.back_at for each in self._kills if each is not kill)
        if not kill.killed_at and self._settled >= kill.settled and not is_another_down:
            kill.process.kill()
            kill.killed_at = now
        elif kill.killed_at and not kill.back_at and now - kill.killed_at >= DOWN_S:
            self._start(kill.process)
            kill.back_at = time.time()

    def _start(self, process: DemoProcess) -> None:
        process.start()
        if process is self._broker:
            process.await_port(self._name_server_port)      # opened after the broker's own port


def run_demo(directory: Path, port: int, name_server_port: int, flights_in_all: int, seed: int,
             progress: Progress) -> DemoRun:
    """Run the demo; store and databases stay in `directory`."""
    return Demo(directory, port, name_server_port, flights_in_all, seed, progress).run()
