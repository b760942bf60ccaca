"""The official RocketMQ 5 client for Python at our front, before the real broker 5.3.3 and in our own."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import NewRun
from ports import free_ports
from real_rocketmq import RealRocketMQ
from regulus_server import RegulusServer, start_our
from remoting_probe import await_port
from toolchain import HERE, PROJECT, grpc_python

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig

PROGRAM_WITHIN_S = 150
TOPICS = {"normal": "NORMAL", "fifo": "FIFO", "orders": "NORMAL", "trans": "TRANSACTION"}


class Drive:
    """Runs the official client against a front at a port of this machine."""

    def __init__(self, port: int) -> None:
        self._endpoint = f"127.0.0.1:{port}"

    def __call__(self, command: str, *words: str) -> list[dict[str, Any]]:
        """What the program says of a command."""
        output = self._run(HERE / "python_grpc" / "program.py", self._endpoint, command, *words)
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    def example(self, path: Path) -> str:
        return self._run(path, self._endpoint)

    def _run(self, program: Path, *words: str) -> str:
        result = subprocess.run([str(grpc_python()), str(program), *words], capture_output=True, text=True,
                                timeout=PROGRAM_WITHIN_S, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        return result.stdout


SETTINGS = {"transactionTimeOut": "5000", "transactionCheckInterval": "6000", "transactionOpBatchInterval": "500"}


def before_the_real_broker(stack: ExitStack, home: Path, port: int) -> str:
    real = RealRocketMQ("5.3.3", home, **SETTINGS)
    stack.callback(real.kill)
    real.start()
    process = start_our(stack, home, ["proxy", "--namesrv", real.name_server_address, "--port", str(port),
                                      "--listen", "127.0.0.1"])
    await_port(f"127.0.0.1:{port}", process.check_alive)
    return real.name_server_address


def in_our_broker(stack: ExitStack, home: Path, port: int) -> str:
    ours = RegulusServer(home, grpc_port=port, **SETTINGS)
    stack.callback(ours.kill)
    ours.start()
    return ours.name_server_address


@pytest.fixture(scope="module", params=[before_the_real_broker, in_our_broker], ids=lambda begin: begin.__name__)
def drive(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Drive]:
    """Our front before the real broker 5.3.3, and in our own broker."""
    with ExitStack() as stack:
        (port,) = free_ports(1)
        name_server = request.param(stack, new_run("grpc-front"), port)
        with Admin(name_server) as admin:
            for name, kind in TOPICS.items():
                admin.create_topic(TopicConfig(topic_name=name, attributes={"message.type": kind}))
        yield Drive(port)


def test_what_is_sent_is_received_and_what_is_not_acknowledged_comes_again(drive: Drive) -> None:
    said = drive("round_trip", "normal", "round-trip", "30")
    sent = {each["number"]: each["sent"] for each in said if "sent" in each}
    assert len(set(sent.values())) == 30
    received = [each for each in said if "received" in each]
    wanted = {f"body {number}" for number in range(30) if number % 3}
    assert {each["received"] for each in received} == wanted      # the tag C was not asked for
    assert said[-1] == {"left": []}
    for each in received:
        number = int(each["received"].removeprefix("body "))
        assert (each["id"], each["tag"], each["keys"], each["properties"]) == (
            sent[number], "A", [f"key-{number}"], {"number": str(number)})
    again = [each for each in received if each["attempt"] > 1]
    assert [each["attempt"] for each in again] == [2]
    assert len(received) == len(wanted) + 1


def test_messages_of_a_group_lie_in_one_queue_in_the_order_of_their_sends(drive: Drive) -> None:
    received = [each for each in drive("ordered", "fifo", "ordered") if "received" in each]
    for group in ("group-0", "group-1"):
        numbers = [each["received"] for each in received if each["group"] == group]
        assert numbers == sorted(numbers)
        assert len(numbers) == 6


def test_transactions_are_ended_once_and_an_orphan_is_asked_for(drive: Drive) -> None:
    begun = time.monotonic()
    said = drive("transactions", "trans", "transactions")
    assert [each["asked"] for each in said if "asked" in each] == ["orphan"]
    assert sorted(each["received"] for each in said if "received" in each) == ["commit", "orphan"]
    assert time.monotonic() - begun < PROGRAM_WITHIN_S


def test_the_example_of_the_page_runs(drive: Drive, tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "grpc.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    result = drive.example(tmp_path / "example.py")
    assert result.splitlines()[-1] == "received one tea"


def test_a_handle_that_was_changed_is_the_one_that_counts(drive: Drive) -> None:
    assert {"done": True} in drive("refused", "normal")
