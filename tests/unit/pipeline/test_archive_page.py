"""The examples of docs/pipeline/archive.md run, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.main import regulus
from regulus.client.sync import Admin, Producer
from regulus.model.message import Message
from regulus.spark.archive import manifest as archive_manifest

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
PAGE = (Path(__file__).parents[3] / "docs" / "pipeline" / "archive.md").read_text(encoding="utf-8")


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(shell|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(spark, make_broker_process, tmp_path, capfd):
    server = make_broker_process(store=tmp_path / "store")
    with Admin(server.name_server_address) as admin, Producer(server.name_server_address, "page") as producer:
        for number in range(20):
            producer.send(Message("orders", b"%d" % number, tags=f"Tag{number % 2}"))
        [name] = admin.cluster_info().broker_addr_table
        while (state := admin.log_state(server.address)).flushed_physical_offset < state.max_physical_offset:
            pass
    places = {"/var/lib/regulus/store": str(tmp_path / "store"), "/var/lib/": f"{tmp_path}/",
              "127.0.0.1:9876": server.name_server_address}

    def at_place(text: str) -> str:
        for place, ours in places.items():
            text = text.replace(place, ours)
        return text

    def run(command: str) -> None:
        words = shlex.split(at_place(command.replace("\\\n", " ")))[1:]
        if "run" in words or "compact" in words or "rebuild" in words:
            words += ["--cores", "0"]
        if "run" in words:
            words += ["--broker-name", name]
        result = CliRunner().invoke(regulus, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output

    (tmp_path / "warehouse").mkdir()
    commands = [line for kind, text in blocks() if kind == "shell" for line in text.splitlines()]
    gated = next(line for line in commands if "--namesrv" in line)
    run(gated)
    server.stop()
    names = {"spark": spark}
    for kind, text in blocks():
        if kind == "python":
            exec(at_place(text), names)
            continue
        for command in text.replace("\\\n", " ").splitlines():
            if command != gated:
                run(command)
    assert names["orders"].count() == 20
    assert names["files"].where("topic = 'orders'").count() == 20
    assert (tmp_path / "rebuilt" / "consumequeue" / "orders").is_dir()
    assert archive_manifest.load(tmp_path / "archive")[0].range.broker_name == name
