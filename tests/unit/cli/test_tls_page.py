"""The example of docs/tls.md runs as it stands there: openssl, `regulus up`, our client, and a command."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regulus.testing.running_server import ServerProcess

PAGE = (Path(__file__).parents[3] / "docs" / "tls.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                           make_broker_process: Callable[..., ServerProcess]) -> None:
    monkeypatch.chdir(tmp_path)
    certificates, server = blocks("sh")
    *writing, starting = server.strip().splitlines()
    assert starting == "regulus up -c broker.conf"
    for script in (certificates, "\n".join(writing)):
        subprocess.run(["sh", "-e"], input=script, text=True, check=True, capture_output=True)
    running = make_broker_process("-c", "broker.conf")
    (client,) = blocks("python")
    names: dict[str, Any] = {"__name__": "the page"}
    exec(client, names)
    asyncio.run(names["main"](running.name_server_address, "ca.pem"))
    assert capsys.readouterr().out == "SEND_OK\n"
    (tmp_path / "tls.properties").write_text("tls.client.trustCertPath=ca.pem\n")
    command = [sys.executable, "-m", "regulus.cli.main", "topic", "list", "-n", running.name_server_address]
    listed = subprocess.run([*command, "--tls-config", "tls.properties"], capture_output=True, text=True)
    assert "orders" in listed.stdout, listed.stderr
    assert subprocess.run(command, capture_output=True, text=True).returncode == 4
