"""Foreign clients as child processes that speak one small command line and answer in lines of JSON.

Every driver knows `produce` and `consume` with the same options; the Java driver knows more (see RocketMQDriver.java).
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toolchain
from real_rocketmq import java_command

Event = dict[str, Any]

WAIT_S = 120.0
"""For what a client should see: two tests run at a time, and a Java client that missed it looks again after 30 s."""

_CLIENT_HEAP = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ClientFailed(Exception):
    """A driver reported an error, ended by itself or did not see what it should in time."""


@dataclass(frozen=True)
class Client:
    """One foreign client: how to start its driver, and what it can do."""

    name: str
    command: Callable[[Path, Sequence[str]], list[str]]
    send_modes: tuple[str, ...]
    max_reconsume_from_group: bool = False      # it has no setting of its own; the broker's subscription group rules
    names_origin_topic: bool = True             # in a send-back; without it the real 5.3.3 fails at the last one
    needs_topics: bool = False                  # it does not fall back to the route of TBW102 for a new topic

    def produce(self, home: Path, **options: object) -> list[Event]:
        """Run one producer to its end; raises ClientFailed when a send failed."""
        return self.run(home, "produce", **options)

    def consume(self, home: Path, **options: object) -> "RunningClient":
        return RunningClient(self, home, "consume", options)

    def pour(self, home: Path, **options: object) -> "RunningClient":
        """One send after the other until it is told to finish; only the Java drivers and ours know it."""
        return RunningClient(self, home, "pour", options)

    def run(self, home: Path, deed: str, **options: object) -> list[Event]:
        with RunningClient(self, home, deed, options) as running:
            running.wait_for_end()
            return running.events

    def command_line(self, home: Path, deed: str, options: dict[str, object]) -> list[str]:
        arguments = [deed]
        for name, value in options.items():
            arguments += ["--" + name.replace("_", "-"), str(value)]
        return self.command(home, arguments)


class RunningClient:
    """A started driver. Its events are collected by a thread; `finish` closes its input and waits for a clean end."""

    def __init__(self, client: Client, home: Path, deed: str, options: dict[str, object],
                 environment: Mapping[str, str] | None = None) -> None:
        """`environment`: variables that it has besides those of this process."""
        self.client = client
        self.events: list[Event] = []
        self._home = home
        home.mkdir(parents=True, exist_ok=True)
        self._stderr = home / f"{client.name}-{deed}.err"
        with self._stderr.open("ab") as errors:
            self._process = subprocess.Popen(
                client.command_line(home, deed, options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, env={**toolchain.our_environment(), "HOME": str(home), **(environment or {})}, cwd=home,
                text=True)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def messages(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "message"]

    def bodies(self) -> list[str]:
        return [event["body"] for event in self.messages()]

    def wait_until(self, seen: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Take events until `seen()`; raises ClientFailed with what came instead."""
        end = time.monotonic() + timeout_s
        while not seen():
            if not self._take(0.2) and (self._process.poll() is not None or time.monotonic() > end):
                raise ClientFailed(f"{self.client.name} did not see {what} within {timeout_s:.0f} s: {self._story()}")

    def take_available(self) -> None:
        """Take the events that are there, without waiting."""
        while self._take(0.0):
            continue

    def wait_for_start(self) -> None:
        self.wait_until(lambda: any(event["event"] == "started" for event in self.events), "its own start")

    def wait_for_bodies(self, expected: Sequence[str], timeout_s: float = WAIT_S) -> None:
        """Until every expected body has come at least once."""
        self.wait_until(lambda: set(expected) <= set(self.bodies()), f"all of {list(expected)}", timeout_s)

    def wait_for_end(self, timeout_s: float = 120.0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        end = time.monotonic() + timeout_s
        while self._take(end - time.monotonic()):
            continue
        try:
            status = self._process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ClientFailed(f"{self.client.name} did not end within {timeout_s:.0f} s: {self._story()}") from None
        if status != 0:
            raise ClientFailed(f"{self.client.name} ended with {self._process.returncode}: {self._story()}")
        if any(event["event"] == "error" for event in self.events):
            raise ClientFailed(f"{self.client.name}: {self._story()}")

    def wait_for_failure(self, timeout_s: float = 60.0) -> str:
        """Until it ended with an error; all that it said and wrote into its home: events, standard error, logs."""
        self.wait_until(lambda: any(event["event"] == "error" for event in self.events), "an error", timeout_s)
        self._process.wait(timeout_s)
        written = [path.read_text(errors="replace") for path in sorted(self._home.rglob("*")) if path.is_file()]
        return "\n".join([json.dumps(self.events), *written])

    def finish(self) -> None:
        """Let it end cleanly, so that it commits its offsets and leaves its group.

        A message counts as consumed only once its listener returned, which is a moment after its line reached us.
        """
        time.sleep(0.5)
        self.wait_for_end()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)

    def __enter__(self) -> "RunningClient":
        return self

    def __exit__(self, *problem: object) -> None:
        self.kill()

    def _take(self, timeout_s: float) -> bool:
        """One more line of output, if it comes in time. False at the end of the output or of the time."""
        try:
            line = self._lines.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return False
        if line is None:
            self._lines.put(None)
            return False
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": "text", "text": line.rstrip()}
        self.events.append(event)
        return True

    def _story(self) -> str:
        errors = self._stderr.read_text(errors="replace")[-2000:]
        return f"events {self.events[-12:]}, standard error {errors}"


def _java(version: str) -> Client:
    def command(home: Path, arguments: Sequence[str]) -> list[str]:
        return java_command(version, home, "RocketMQDriver", arguments, _CLIENT_HEAP)

    return Client(f"java-{version}", command, ("sync", "async", "oneway", "batch"))


JAVA = {version: _java(version) for version in toolchain.JAVA_VERSIONS}
NEWEST_JAVA = _java(toolchain.NEWEST_JAVA)
GO = Client("go", lambda home, arguments: [str(toolchain.go_program()), *arguments],
            ("sync", "async", "oneway", "batch"))
NODE = Client("node", lambda home, arguments: [toolchain.tool("node"), str(toolchain.node_program()), *arguments],
              ("sync", "async"), needs_topics=True)
NATIVE_PYTHON = Client(
    "python-native",
    lambda home, arguments: [str(toolchain.native_python()), str(toolchain.HERE / "python" / "driver.py"), *arguments],
    ("sync", "async", "oneway"), max_reconsume_from_group=True, names_origin_topic=False)

OURS = Client("regulus", lambda home, arguments: [sys.executable, str(toolchain.HERE / "python" / "regulus_driver.py"),
                                                  *arguments], ("sync", "async", "oneway", "batch"))

_ALL = (*JAVA.values(), GO, NODE, NATIVE_PYTHON, OURS)
_CHOSEN = os.environ.get("REGULUS_INTEROP_CLIENTS", "").split()

# REGULUS_INTEROP_CLIENTS="go node" looks at these alone.
CLIENTS = tuple(client for client in _ALL if not _CHOSEN or client.name in _CHOSEN)
FOREIGN_CLIENTS = tuple(client for client in CLIENTS if client is not OURS)
