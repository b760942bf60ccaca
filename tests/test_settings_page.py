"""docs/settings.md is what `python -m tests.settings_page` makes of the source, and leaves out no setting."""

import dataclasses
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.sending.bulk_sender import BulkConfig
from regulus.client.sending.transaction_producer import TransactionProducerConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.wire.config_text import config_key
from tests.settings_page import SECTIONS, TARGET, page, settings_of

SOURCES = Path(__file__).resolve().parent.parent / "src"
_CLASS = re.compile(r"^class (\w+Config)\b", re.MULTILINE)

ELSEWHERE = {
    "TopicConfig": "a topic's own, which operators set for each topic",
    "SubscriptionGroupConfig": "a group's own, which operators set for each group",
    "KvConfig": "a table of the name server",
    "BulkConfig": "of a part that only the Spark sink uses, which has options of its own",
    "ArchiveConfig": "options of `regulus archive`",
    "CompactConfig": "options of `regulus archive compact`",
    "RebuildConfig": "options of `regulus index rebuild`",
}
"""Classes named `...Config` that are not on the page, and why."""


def config_classes() -> Iterator[tuple[str, str]]:
    """Module and name of each class of ours that is named as settings are."""
    for path in sorted((SOURCES / "regulus").rglob("*.py")):
        for name in _CLASS.findall(path.read_text(encoding="utf-8")):
            yield ".".join(path.relative_to(SOURCES).with_suffix("").parts), name


def test_the_page_is_what_the_program_makes_of_the_source_as_it_is_now() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run: python -m tests.settings_page"


def test_each_class_of_settings_is_on_the_page_or_said_not_to_be() -> None:
    names = {name for _, name in config_classes()}
    assert names - {section.config.__name__ for section in SECTIONS} == set(ELSEWHERE)


@pytest.mark.parametrize("config", [BrokerConfig, MessageStoreConfig, NamesrvConfig, TransportConfig, ProxyConfig])
def test_each_key_of_a_server_is_on_the_page(config: type) -> None:
    """Also those that it inherits."""
    text = page()
    keys = [config_key(field.name) for field in dataclasses.fields(config)
            if field.init and not dataclasses.is_dataclass(field.type)]
    assert [key for key in keys if f" | `{key}` | " not in text] == []


def test_each_field_of_a_client_is_on_the_page() -> None:
    text = page()
    names = [field.name for field in dataclasses.fields(TransactionProducerConfig)]
    assert [name for name in names if f"\n| `{name}` | " not in text] == []


SAYING = [(module, name) for module, name in config_classes()
          if name not in ("TopicConfig", "SubscriptionGroupConfig", "KvConfig")]


@pytest.mark.parametrize(("module", "name"), [*SAYING, ("regulus.model.store_rules", "StoreRules"),
                                              ("regulus.model.retention_rules", "RetentionRules"),
                                              ("regulus.reliability.retry_policy", "ResendPolicy")])
def test_each_setting_says_what_it_does_and_each_number_its_unit(module: str, name: str) -> None:
    config = getattr(import_module(module), name)
    settings = settings_of(config)
    kinds = {field.name: str(field.type) for field in dataclasses.fields(config)}
    assert {each.name for each in settings} == {
        each for each in config.__annotations__ if each in kinds and each != "delay_ladder_ms"}
    for each in settings:
        assert each.text.endswith((".", "`")), each
        is_number = any(word in kinds[each.name] for word in ("int", "float")) and "frozenset" not in kinds[each.name]
        assert bool(each.unit) == (is_number or each.name == "delete_when"), each


def test_a_row_has_all_facts_of_its_setting() -> None:
    rows = page().splitlines()
    assert any(row.startswith("| `broker_permission` | `brokerPermission` | int | 6 | bits | yes | 6: reads")
               for row in rows)
    assert any(row.startswith("| `max_message_size` | `maxMessageSize` | int | 4 MiB | bytes | yes | ") for row in rows)
    assert any(row.startswith("| `broker_name` | `brokerName` | str | `broker-a` |  | no | ") for row in rows)
    assert any(row.startswith("| `tls_ha_enable` | `tls.ha.enable` | bool | false |  | ") for row in rows)
    assert any(row.startswith("| `scan_not_active_broker_interval` | `scanNotActiveBrokerInterval` | int | 5,000 | ms "
                              "| yes | ") for row in rows)
    assert any(row.startswith("| `compress_type` | `ZLIB`, `LZ4`, `ZSTD` | `ZLIB` |  | ") for row in rows)


@dataclasses.dataclass
class _Silent:
    said: int = 1
    """[ms] It says so."""
    silent: int = 2


def test_a_setting_without_a_word_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"_Silent\.silent, line \d+: write a string behind it"):
        settings_of(_Silent)


def test_a_unit_stands_before_the_words() -> None:
    [setting] = [each for each in settings_of(BulkConfig) if each.name == "send_timeout_ms"]
    assert (setting.unit, setting.text) == ("ms", "Time for one attempt.")
