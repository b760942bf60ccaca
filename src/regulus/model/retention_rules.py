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
"""Form of an archive's identity, which is made once and is never another's."""


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
    """Raises ConfigError for a value that makes no sense."""

    # Which files are deleted
    file_reserved_time: int = 72
    """[hours] Age at which a file of the log expires, counted from its last write. More lets consumers go back further
    and needs more disk."""
    delete_when: str = "04"
    """[hours of the day] When expired files are deleted, in local time, with `;` between two hours. On a disk that runs
    short they are deleted at any hour."""
    disk_max_used_space_ratio: int = 75
    """[%] Used part of the disk above which expired files are deleted at any hour. Kept within 10 to 95."""
    disk_space_clean_forcibly_ratio: int = 85
    """[%] Used part of the disk above which the oldest files are deleted, expired or not. Kept within 30 to 85."""
    disk_space_warning_level_ratio: int = 90
    """[%] Used part of the disk above which sends are refused, until it is down to `disk_space_clean_forcibly_ratio`.
    Kept within 35 to 90."""
    clean_file_forcibly_enable: bool = True
    """On: a full disk may delete files that have not expired. Off: no file is deleted before its time, and sends are
    refused instead."""

    # Pace of deletion
    clean_resource_interval: int = 10_000
    """[ms] Pause between two checks of disk and files. More notices a disk that fills up later."""
    delete_commit_log_files_interval: int = 100
    """[ms] Pause after each deleted file of the log. More spares a slow disk, less makes room sooner."""
    delete_consume_queue_files_interval: int = 100
    """[ms] Pause between two queues whose files are deleted. More spares a slow disk."""
    delete_file_batch_max: int = 10
    """[files] Files of the log that one check deletes at most. More makes room sooner, and keeps the disk busy longer
    at a time."""
    destroy_maped_file_interval_forcibly: int = 120_000
    """[ms] How long a file stays that is due for deletion and still being read. No newer file is deleted before it."""
    redelete_hanged_file_interval: int = 120_000
    """[ms] Pause between two attempts to delete such a file while no other deletion is due."""

    # Archive
    archive_gate: ArchiveGate = ArchiveGate.off
    """On: a file is deleted only after the archive of `archive_identity` has reported that it has all of it. Off: files
    are deleted whether they are archived or not."""
    archive_gate_policy: ArchiveGatePolicy = ArchiveGatePolicy.refuse_sends
    """When files that wait for the archive fill the disk: `refuse_sends` loses nothing, `drop_and_report` deletes the
    oldest files and reports what was lost to the archive."""
    archive_identity: str = ""
    """Identity of the archive that opens the gate, as `regulus archive status` shows it. Empty: no archive opens it."""

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
