"""Writes docs/settings.md, the tables of all settings, from the dataclasses that have them.

    python -m tests.settings_page           after a change to a setting

The source says all that the page says: the string behind a field describes it, `[ms]` at its beginning is the unit, and
a comment on a line of its own above a field begins a group.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from regulus.broker.config import BrokerConfig
from regulus.broker.handlers.broker_config import UPDATABLE_KEYS as BROKER_KEYS
from regulus.cli import proxy
from regulus.client.config import (
    ClientConfig,
    KeptSendsConfig,
    ProducerConfig,
    PushConsumerConfig,
    SimpleConsumerConfig,
)
from regulus.client.sending.transaction_producer import TransactionProducerConfig
from regulus.model.metrics_config import MetricsConfig
from regulus.model.retention_rules import RetentionRules
from regulus.model.store_rules import StoreRules
from regulus.nameserver.config import UPDATABLE_KEYS as NAME_SERVER_KEYS
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.reliability.alarm_loop import AlarmConfig
from regulus.reliability.relay import RelayConfig
from regulus.reliability.retry_policy import ResendPolicy
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.tls import TlsConfig
from regulus.wire.config_text import config_key

TARGET = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_UNIT = re.compile(r"\[([^\]]+)\] ")
_NO_KEYS: Collection[str] = frozenset()
_KIB = 1024

HEAD = """\
# Settings

Written by `python -m tests.settings_page` from the source: change the fields there.

**Servers.** Write the key into the file that `-c` names, RocketMQ's `.conf` (`key=value`) or TOML, where the name with
underscores is accepted as well. Write whole numbers in the unit of the table, without the unit: 4 MiB is `4194304`.
RocketMQ's keys mean the same as in RocketMQ. One file may serve `regulus up`, `broker`, `nameserver` and `proxy`; each
command reports the keys that only another one obeys. [Operations](operations.md#which-file-and-which-keys) says what
happens to other keys.

*Live*: whether `mqadmin updateBrokerConfig` or `updateNamesrvConfig` can change the key while the server runs, until it
stops. In tables without this column no key can be changed.

**Clients and the outbox.** Pass the name to the class: `ProducerConfig(send_msg_timeout=5_000)`. Its settings are fixed
when it is created, and an impossible value raises `ConfigError`. Where RocketMQ's client for Java has the setting, its
name is the same.
"""


@dataclass(frozen=True)
class Section:
    config: type
    title: str
    intro: str
    is_for_files: bool = True
    live_keys: Collection[str] = _NO_KEYS


@dataclass(frozen=True)
class Setting:
    name: str
    group: str
    unit: str
    text: str


def _idle_keys() -> str:
    return ", ".join(f"`{config_key(field.name)}`" for field in dataclasses.fields(TransportConfig)
                     if field.name in proxy.IDLE)


SECTIONS = (
    Section(BrokerConfig, "Broker", "More about [replicas](replication.md), [access](access.md), [pops](pop.md) and "
            "[filters](filters.md).", live_keys=BROKER_KEYS),
    Section(StoreRules, "Broker and store", "More about [timers](timers.md).", live_keys=BROKER_KEYS),
    Section(RetentionRules, "How long messages stay", "More about [retention and the archive "
            "gate](operations.md#how-long-messages-stay).", live_keys=BROKER_KEYS),
    Section(MessageStoreConfig, "Store", "More about [files](operations.md#files) and [crashes]"
            "(operations.md#after-a-crash)."),
    Section(NamesrvConfig, "Name server", "`regulus up` uses none of these: its name server has the access settings of "
            "its broker and keeps `kvConfig.json` in the store. If one file serves broker and name server on one "
            "machine, give the name server its own port with `--port`.", live_keys=NAME_SERVER_KEYS),
    Section(TransportConfig, "Connections", f"Settings of every port. `regulus proxy` does not use {_idle_keys()}."),
    Section(TlsConfig, "TLS", "More about [TLS](tls.md). `tls.config.file` names a separate file with these keys, "
            "which those of the file that names it override. Files are PEM; an empty path means none. `regulus up` "
            "makes up a certificate for its gRPC port on the loopback, if `cryptography` is installed."),
    Section(MetricsConfig, "Metrics", "The page of `regulus up`, `broker`, `nameserver` and `proxy`. More about "
            "[metrics and probes](metrics.md). If one file serves several commands on one machine, only the first "
            "gets the port: give each a file with its own `metricsPromExporterPort`."),
    Section(ProxyConfig, "Proxy", "The gRPC port of `regulus up` and `regulus proxy`. More about [its "
            "clients](grpc.md) and [limits](grpc.md#limits). `regulus up` does not use `namesrvAddr`, `accessKey` and "
            "`secretKey` here."),
    Section(ClientConfig, "All clients", "More about [clients](client.md). The producers and consumers below have "
            "these settings as well.", is_for_files=False),
    Section(ProducerConfig, "Producer", "", is_for_files=False),
    Section(TransactionProducerConfig, "Transaction producer", "It has the settings of a producer as well.",
            is_for_files=False),
    Section(KeptSendsConfig, "Kept sends", "For the file of sends that failed for good.", is_for_files=False),
    Section(PushConsumerConfig, "Push consumer", "", is_for_files=False),
    Section(SimpleConsumerConfig, "Simple consumer", "", is_for_files=False),
    Section(RelayConfig, "Relay", "More about [the outbox](reliability.md).", is_for_files=False),
    Section(ResendPolicy, "Resend policy", "The `policy` of a relay.", is_for_files=False),
    Section(AlarmConfig, "Alarms", "", is_for_files=False),
)


def settings_of(config: type) -> list[Setting]:
    """The fields that the class itself has and that can be set. Raises ValueError for one that says nothing."""
    source, first = inspect.getsourcelines(config)
    lines = ["", *source]
    node = ast.parse("".join(source)).body[0]
    assert isinstance(node, ast.ClassDef)
    settable = {each.name for each in dataclasses.fields(config) if each.init}
    found = []
    group = ""
    for here, behind in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(here, ast.AnnAssign) or not isinstance(here.target, ast.Name):
            continue
        above = lines[here.lineno - 1].strip()
        group = above.removeprefix("# ") if above.startswith("# ") else group
        if here.target.id not in settable:
            continue
        if not isinstance(behind, ast.Expr) or not isinstance(behind.value, ast.Constant):
            raise ValueError(f"{config.__name__}.{here.target.id}, line {first + here.lineno - 1}: write a string "
                             "behind it that says what it does")
        text = " ".join(str(behind.value.value).split())
        unit = _UNIT.match(text)
        found.append(Setting(here.target.id, group, unit[1] if unit else "", text[unit.end():] if unit else text))
    return found


def page() -> str:
    return "\n".join([HEAD, *(line for section in SECTIONS for line in _section(section))]).rstrip("\n") + "\n"


def _section(section: Section) -> Iterator[str]:
    name = section.config.__name__
    yield f"## {section.title}"
    yield ""
    intro = section.intro if section.is_for_files else f"`{name}`. {section.intro}".rstrip()
    if intro:
        yield intro
        yield ""
    settings = settings_of(section.config)
    groups = list(dict.fromkeys(each.group for each in settings))
    for group in groups:
        if len(groups) > 1:
            yield f"### {section.title}: {group[0].lower()}{group[1:]}"
            yield ""
        columns = ["name", *(["key"] if section.is_for_files else []), "type", "default", "unit",
                   *(["live"] if section.live_keys else []), "what it does"]
        yield f"| {' | '.join(columns)} |"
        yield "|" + "---|" * len(columns)
        for each in settings:
            if each.group == group:
                yield f"| {' | '.join(_cells(section, each))} |"
        yield ""


def _cells(section: Section, setting: Setting) -> Iterator[str]:
    if "|" in setting.text:
        raise ValueError(f"{setting.name}: `|` ends a cell of the table")
    key = config_key(setting.name)
    yield f"`{setting.name}`"
    if section.is_for_files:
        yield "–" if dataclasses.is_dataclass(get_type_hints(section.config)[setting.name]) else f"`{key}`"
    yield _type(section.config, setting.name)
    yield _default(section, setting)
    yield setting.unit
    if section.live_keys:
        yield "yes" if key in section.live_keys else "no"
    yield setting.text


def _type(config: type, name: str) -> str:
    kind = get_type_hints(config)[name]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{each.value}`" for each in kind if each.value)
    return kind.__name__ if isinstance(kind, type) else str(kind).replace(" | None", " or None")


def _default(section: Section, setting: Setting) -> str:
    field = next(each for each in dataclasses.fields(section.config) if each.name == setting.name)
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return _shown(value, setting.unit, section.is_for_files)


def _shown(value: Any, unit: str, is_for_files: bool) -> str:
    match value:
        case bool():
            return str(value).lower() if is_for_files else str(value)
        case Enum():
            return f"`{value.value}`" if value.value else "empty"
        case int():
            return _size(value) if unit == "bytes" else str(value) if unit == "port" else f"{value:,}"
        case str():
            return f"`{value}`" if value else "empty"
        case _ if dataclasses.is_dataclass(value):
            return f"`{type(value).__name__}()`"
        case _:
            return str(value)


def _size(value: int) -> str:
    """In the largest unit that leaves a whole number."""
    names = ["", " KiB", " MiB", " GiB"]
    while value and value % _KIB == 0 and len(names) > 1:
        value //= _KIB
        names.pop(0)
    return f"{value:,}{names[0]}"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
