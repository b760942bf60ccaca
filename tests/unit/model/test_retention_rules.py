"""The rules of retention: RocketMQ's defaults and bounds, and what makes no sense."""

from typing import Any

import pytest

from regulus.errors import ConfigError
from regulus.model.retention_rules import ArchiveGate, ArchiveGatePolicy, RetentionRules


def test_the_defaults_are_those_of_rocketmq() -> None:
    rules = RetentionRules()
    assert rules.reserved_ms == 72 * 3600 * 1000
    assert rules.delete_hours == {4}
    assert (rules.expired_ratio, rules.forced_ratio, rules.full_ratio) == (0.75, 0.85, 0.90)
    assert (rules.archive_gate, rules.archive_gate_policy) == (ArchiveGate.off, ArchiveGatePolicy.refuse_sends)


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("0;12; 23", {0, 12, 23}), ("", set()), ("4;;5", {4, 5})])
def test_hours_of_the_day(text: str, hours: set[int]) -> None:
    assert RetentionRules(delete_when=text).delete_hours == hours


def test_ratios_stay_within_the_bounds_of_rocketmq() -> None:
    low = RetentionRules(disk_max_used_space_ratio=1, disk_space_clean_forcibly_ratio=1,
                         disk_space_warning_level_ratio=1)
    assert (low.expired_ratio, low.forced_ratio, low.full_ratio) == (0.10, 0.30, 0.35)
    high = RetentionRules(disk_max_used_space_ratio=100, disk_space_clean_forcibly_ratio=100,
                          disk_space_warning_level_ratio=100)
    assert (high.expired_ratio, high.forced_ratio, high.full_ratio) == (0.95, 0.85, 0.90)


@pytest.mark.parametrize(("settings", "key"), [
    ({"file_reserved_time": -1}, "fileReservedTime"), ({"delete_when": "24"}, "deleteWhen"),
    ({"delete_when": "four"}, "deleteWhen"), ({"delete_file_batch_max": 0}, "deleteFileBatchMax"),
    ({"clean_resource_interval": 0}, "cleanResourceInterval"),
    ({"disk_max_used_space_ratio": 101}, "diskMaxUsedSpaceRatio"),
    ({"redelete_hanged_file_interval": -1}, "redeleteHangedFileInterval")])
def test_a_wrong_rule_is_named(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        RetentionRules(**settings)


def test_a_percentage_that_does_not_hold_as_written_is_told() -> None:
    assert RetentionRules().warnings() == []
    assert RetentionRules(disk_max_used_space_ratio=84).warnings() == []
    clamped, useless = RetentionRules(disk_max_used_space_ratio=99).warnings()
    assert clamped == "diskMaxUsedSpaceRatio is 99, and 95 holds: as in RocketMQ, it is kept within bounds"
    assert useless == ("diskMaxUsedSpaceRatio is 99 and never matters: above 85 % (diskSpaceCleanForciblyRatio) the "
                       "oldest files go, expired or not")
    assert RetentionRules(disk_max_used_space_ratio=90, clean_file_forcibly_enable=False).warnings() == []
    (warning,) = RetentionRules(disk_space_warning_level_ratio=98).warnings()
    assert "98, and 90 holds" in warning


@pytest.mark.parametrize(("identity", "told"), [
    ("", "archiveIdentity is empty"), ("zzz", "archiveIdentity is 'zzz', and that of any archive is 32 hexadecimal"),
    ("0123456789abcdef" * 2 + "0", "32 hexadecimal"), ("0123456789abcdef" * 2, "")])
def test_a_gate_that_nothing_opens_is_told(identity: str, told: str) -> None:
    found = RetentionRules(archive_gate=ArchiveGate.on, archive_identity=identity).warnings()
    assert [told in warning for warning in found] == [True] * bool(told)
