"""What broker and store share: defaults of RocketMQ, and what makes no sense."""

from typing import Any

import pytest

from regulus.errors import ConfigError
from regulus.model.store_rules import FlushDiskType, StoreRules


def test_the_defaults_are_those_of_rocketmq() -> None:
    rules = StoreRules()
    assert rules.delay_ladder_ms[2] == 10_000
    assert not rules.sync_flush
    assert rules.file_reserved_time == 72


def test_the_flush_type_may_be_given_by_its_name() -> None:
    rules = StoreRules(flush_disk_type="SYNC_FLUSH")    # type: ignore[arg-type]
    assert rules.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert rules.sync_flush


@pytest.mark.parametrize(("settings", "key"), [
    ({"flush_disk_type": "NO_FLUSH"}, "flushDiskType"), ({"message_delay_level": "1 parsec"}, "messageDelayLevel"),
    ({"file_reserved_time": -1}, "fileReservedTime")])
def test_a_wrong_rule_is_named(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        StoreRules(**settings)
