"""When a broker deletes its oldest files, and what it does when it may not.

Names are RocketMQ's keys in snake_case; the keys `archive_...` are ours.

Source: MessageStoreConfig, DefaultMessageStore.CleanCommitLogService.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from regulus.errors import ConfigError

HOUR_MS = 3_600_000

ARCHIVE_IDENTITY = re.compile(r"[0-9a-f]{32}")
"""The id of an archive: chosen once, when it is created, and unique."""


class ArchiveGate(StrEnum):
    """Whether files wait for the archive before they are deleted."""

    off = "off"
    on = "on"


class ArchiveGatePolicy(StrEnum):
    """What gives way when the disk is full of files that wait for the archive."""

    refuse_sends = "refuse_sends"
    drop_and_report = "drop_and_report"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """Settings of retention; raises ConfigError for an invalid value. Times are in ms unless the name says
    otherwise."""

    file_reserved_time: int = 72                        # hours since a file was last written
    delete_when: str = "04"                             # hours of the local day, `;` between them
    disk_max_used_space_ratio: int = 75                 # percent: above it, expired files are deleted at any hour
    disk_space_clean_forcibly_ratio: int = 85           # percent: above it, the oldest files are deleted at any age
    disk_space_warning_level_ratio: int = 90            # percent: above it, sends are refused as well
    clean_file_forcibly_enable: bool = True             # false: no file is deleted before its time
    clean_resource_interval: int = 10_000               # between two checks of the disk
    delete_commit_log_files_interval: int = 100         # between two files of the log
    delete_consume_queue_files_interval: int = 100      # between two queues that lose files
    delete_file_batch_max: int = 10                     # files of the log in one pass
    destroy_maped_file_interval_forcibly: int = 120_000     # how long a file that is being read is kept
    redelete_hanged_file_interval: int = 120_000        # between two attempts to delete such a file, outside a pass

    archive_gate: ArchiveGate = ArchiveGate.off
    archive_gate_policy: ArchiveGatePolicy = ArchiveGatePolicy.refuse_sends
    archive_identity: str = ""                          # of the archive that releases files; empty: none does

    def __post_init__(self) -> None:
        for key, number in (("fileReservedTime", self.file_reserved_time),
                            ("deleteCommitLogFilesInterval", self.delete_commit_log_files_interval),
                            ("deleteConsumeQueueFilesInterval", self.delete_consume_queue_files_interval),
                            ("destroyMapedFileIntervalForcibly", self.destroy_maped_file_interval_forcibly),
                            ("redeleteHangedFileInterval", self.redelete_hanged_file_interval)):
            if number < 0:
                raise ConfigError(f"{key} is {number}: write 0 or more")
        for key, number in (("cleanResourceInterval", self.clean_resource_interval),
                            ("deleteFileBatchMax", self.delete_file_batch_max)):
            if number < 1:
                raise ConfigError(f"{key} is {number}: write 1 or more")
        for key, number in (("diskMaxUsedSpaceRatio", self.disk_max_used_space_ratio),
                            ("diskSpaceCleanForciblyRatio", self.disk_space_clean_forcibly_ratio),
                            ("diskSpaceWarningLevelRatio", self.disk_space_warning_level_ratio)):
            if not 0 <= number <= 100:
                raise ConfigError(f"{key} is {number}: write a percentage, 0 to 100")
        _hours(self.delete_when)

    def warnings(self) -> list[str]:
        """One sentence for each percentage that is limited to another value, and for a gate that no archive opens."""
        bounds = (("diskMaxUsedSpaceRatio", self.disk_max_used_space_ratio, self.expired_ratio),
                  ("diskSpaceCleanForciblyRatio", self.disk_space_clean_forcibly_ratio, self.forced_ratio),
                  ("diskSpaceWarningLevelRatio", self.disk_space_warning_level_ratio, self.full_ratio))
        found = [f"{key} is {number}, and {round(ratio * 100)} holds: as in RocketMQ, it is kept within bounds"
                 for key, number, ratio in bounds if number != round(ratio * 100)]
        if self.archive_gate is ArchiveGate.on and not self.archive_identity:
            found.append("archiveGate is on and archiveIdentity is empty: no archive opens the gate, and no file of "
                         "the log is deleted; `regulus archive status` tells the identity of an archive")
        elif self.archive_identity and not ARCHIVE_IDENTITY.fullmatch(self.archive_identity):
            found.append(f"archiveIdentity is {self.archive_identity[:40]!r}, and that of any archive is 32 "
                         "hexadecimal digits: none opens the gate; `regulus archive status` tells it of an archive")
        if self.expired_ratio >= self.forced_ratio and self.clean_file_forcibly_enable:
            found.append(f"diskMaxUsedSpaceRatio is {self.disk_max_used_space_ratio} and never matters: above "
                         f"{round(self.forced_ratio * 100)} % (diskSpaceCleanForciblyRatio) the oldest files go, "
                         "expired or not")
        return found

    @property
    def reserved_ms(self) -> int:
        return self.file_reserved_time * HOUR_MS

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the local day, 0 to 23, during which expired files are deleted."""
        return _hours(self.delete_when)

    # The three limits in effect, 0 to 1: as in RocketMQ, kept within bounds that leave some room on the disk.

    @property
    def expired_ratio(self) -> float:
        return _percent(self.disk_max_used_space_ratio, 10, 95)

    @property
    def forced_ratio(self) -> float:
        return _percent(self.disk_space_clean_forcibly_ratio, 30, 85)

    @property
    def full_ratio(self) -> float:
        return _percent(self.disk_space_warning_level_ratio, 35, 90)


def _percent(value: int, low: int, high: int) -> float:
    return max(low, min(value, high)) / 100


def _hours(text: str) -> frozenset[int]:
    hours = [part.strip() for part in text.split(";") if part.strip()]
    if not all(hour.isascii() and hour.isdigit() and int(hour) <= 23 for hour in hours):
        raise ConfigError(f"deleteWhen is {text!r}: write hours of the day, 00 to 23, with ; between them")
    return frozenset(map(int, hours))
