"""A setting that is accepted is obeyed: whatever a file may say is read by what it is for."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.cli import proxy, up
from regulus.cli.config_file import apply
from regulus.cli.serve import load_configs
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.wire.config_text import field_name

SOURCES = Path(__file__).resolve().parents[3] / "src" / "regulus"
CHECKS = "__post_init__"
"""Where settings are looked at for whether they are possible, which obeys none."""
ROOMS = {BrokerConfig: ("broker", "server", "store", "model"), NamesrvConfig: ("nameserver", "server"),
         MessageStoreConfig: ("store", "server", "model"), TransportConfig: ("transport", "server"),
         ProxyConfig: ("proxy",)}
"""Who may obey them. Another's setting of the same name is none of theirs."""

SHOWN_ALONE = {BrokerConfig: ["enable_pop_buffer_merge"]}
"""Taken and shown as RocketMQ's tools set it; what it chooses there is the same here with either value."""


def read_names(node: ast.AST) -> Iterator[str]:
    """Attributes that code reads, but for its checks."""
    if isinstance(node, ast.FunctionDef) and node.name == CHECKS:
        return
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield node.attr
    for child in ast.iter_child_nodes(node):
        yield from read_names(child)


def unread(config: type, rooms: tuple[str, ...]) -> list[str]:
    files = [path for room in rooms for path in ((SOURCES / room).rglob("*.py") if (SOURCES / room).is_dir()
                                                 else [SOURCES / room])]
    read = {name for path in files for name in read_names(ast.parse(path.read_text(encoding="utf-8")))}
    return [each.name for each in fields(config) if each.init and each.name not in read]


@pytest.mark.parametrize("config", ROOMS, ids=lambda config: config.__name__)
def test_each_setting_is_read_where_it_is_to_be_obeyed(config: type) -> None:
    assert unread(config, ROOMS[config]) == SHOWN_ALONE.get(config, [])


def test_a_front_alone_says_of_which_settings_of_ports_it_obeys_none() -> None:
    assert unread(TransportConfig, ("transport/http2", "transport/tls.py", "client/connecting/connections.py", "proxy")) == [
        name for name in (each.name for each in fields(TransportConfig)) if name in proxy.IDLE]


@pytest.mark.parametrize(("key", "value", "defaults", "idle"), [
    ("frameTimeMaxMs", "5", (ProxyConfig(), TransportConfig()), proxy.IDLE),
    ("namesrvAddr", "a:1", (BrokerConfig(), ProxyConfig()), up.IDLE)])
def test_a_setting_that_a_command_does_not_obey_is_named(
        tmp_path: Path, key: str, value: str, defaults: tuple[Any, ...], idle: dict[str, str]) -> None:
    path = tmp_path / "server.conf"
    path.write_text(f"{key}={value}\nconnectionsMax=7\n")
    command = idle[field_name(key)]
    assert load_configs(path, {}, *defaults, idle=idle).warning == (
        f"these keys are for {command} and have no effect on this command: {key}")
    path.write_text("connectionsMax=7\n")
    assert load_configs(path, {}, *defaults, idle=idle).warning is None


def test_what_only_a_proxy_relays_is_said_to_have_no_effect() -> None:
    warning = apply({"grpcProxyRelayRequestTimeoutInSeconds": "5"}, ProxyConfig()).warning
    assert warning == "these keys of RocketMQ have no effect here: grpcProxyRelayRequestTimeoutInSeconds"


def test_a_check_is_no_reader() -> None:
    code = "class C:\n def __post_init__(self):\n  self.checked\n def use(self):\n  self.used.deep\n  self.set = 1\n"
    assert sorted(read_names(ast.parse(code))) == ["deep", "used"]
