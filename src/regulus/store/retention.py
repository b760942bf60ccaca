"""Decides what to delete, and whether to accept messages, from the age of files and the room on the disk.

    used part of the disk, in percent          what happens
    above 90 (diskSpaceWarningLevelRatio)      the oldest files are deleted, and sends are refused until it
                                               is at most 85
    above 85 (diskSpaceCleanForciblyRatio)     the oldest files are deleted, whatever their age
    above 75 (diskMaxUsedSpaceRatio)           files older than fileReservedTime are deleted now
    otherwise                                  they are deleted during the hours of deleteWhen, or when an operator
                                               asks

The disk of the log and the disk of the consume queues both count; the fuller one decides. The newest file is never
deleted, nor one that is not wholly on disk and dispatched. A slave deletes no file before its time that its master
still has: above 90 it stops copying. Up to 85 no file is deleted that a connected slave still needs, unless the slave
is too far behind. With the archive gate on, only wholly archived files are deleted, unless the policy is to drop: then
the gate opens at the point where the oldest files are deleted whatever their age.

Source: DefaultMessageStore.CleanCommitLogService, CommitLog.deleteExpiredFile, MappedFileQueue.deleteExpiredFileByTime.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

from regulus.model.java_numbers import LONG_MAX
from regulus.model.retention_rules import ArchiveGate, ArchiveGatePolicy, RetentionRules

UNKNOWN_RATIO = -1.0
"""The usage of the disk is unknown; then expired files are deleted, to be safe."""


class Space(IntEnum):
    """How much room is left, from plenty to none."""

    PLENTY = 0
    SCARCE = 1
    """Expired files are deleted at any hour."""
    TIGHT = 2
    """The oldest files are deleted, whatever their age."""
    NONE = 3
    """Sends are refused as well."""


class LogFile(NamedTuple):
    """One file of the log: physical offsets of its first byte and after its last one, and when it was written."""

    start: int
    end: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFacts:
    log_ratio: float
    """Used fraction of the disk that has the log, 0 to 1."""
    queue_ratio: float
    files: Sequence[LogFile]
    """Oldest first, without the newest; only as many are needed as one pass may delete."""
    settled_offset: int
    """The log is on disk and dispatched up to here."""
    archived_offset: int = -1
    copied_offset: int = LONG_MAX
    """Slaves that are waited for have the log up to here."""
    forcible_offset: int = LONG_MAX
    """Files before this offset may be deleted before their time. A slave keeps what its master may need: it stops
    copying instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    space: Space
    is_due: bool
    """Whether it is time to delete at all."""
    is_full: bool
    """Whether sends are refused from now on."""
    files: tuple[LogFile, ...]
    """To be deleted in this order."""
    waits_for_archive: bool
    """Files should be deleted for lack of room, but the archive gate keeps them."""
    waits_for_slaves: bool
    """Files should be deleted, but a slave needs them."""
    passes_slaves: bool
    """Files are deleted for lack of room although a slave needs them."""
    dropped: tuple[tuple[int, int], ...]
    """Physical offsets, from and to, of what is deleted without being archived."""


def decide(rules: RetentionRules, facts: RetentionFacts, *, was_full: bool, is_ordered: bool,
           now_ms: int) -> RetentionPlan:
    """Plan one pass. `was_full`: sends are refused at present; `is_ordered`: an operator wants a pass now."""
    space = space_left(rules, facts)
    is_full = space is Space.NONE or (was_full and space is Space.TIGHT)
    is_forced = rules.clean_file_forcibly_enable and space >= Space.TIGHT
    is_gated = rules.archive_gate is ArchiveGate.on
    opens = rules.archive_gate_policy is ArchiveGatePolicy.drop_and_report and space >= Space.TIGHT
    taken: list[LogFile] = []
    dropped: list[tuple[int, int]] = []
    waits = waits_for_slaves = False
    is_due = is_ordered or space >= Space.SCARCE or _hour(now_ms) in rules.delete_hours
    if is_due:
        for file in facts.files[:rules.delete_file_batch_max]:
            is_expired = now_ms >= file.modified_ms + rules.reserved_ms
            may_go = is_expired or (is_forced and file.end <= facts.forcible_offset)
            if not may_go or file.end > facts.settled_offset:
                break
            if file.end > facts.copied_offset and space < Space.TIGHT:
                waits_for_slaves = True
                break
            if is_gated and file.end > facts.archived_offset:
                if not opens:
                    waits = space >= Space.TIGHT
                    break
                dropped.append((max(file.start, facts.archived_offset), file.end))
            taken.append(file)
    return RetentionPlan(space=space, is_due=is_due, is_full=is_full, files=tuple(taken), waits_for_archive=waits,
                         waits_for_slaves=waits_for_slaves,
                         passes_slaves=bool(taken) and taken[-1].end > facts.copied_offset, dropped=tuple(dropped))


def space_left(rules: RetentionRules, facts: RetentionFacts) -> Space:
    used = max(facts.log_ratio, facts.queue_ratio)
    if used > rules.full_ratio:
        return Space.NONE
    if used > rules.forced_ratio:
        return Space.TIGHT
    if used > rules.expired_ratio or min(facts.log_ratio, facts.queue_ratio) < 0:
        return Space.SCARCE
    return Space.PLENTY


def full_remark(rules: RetentionRules, facts: RetentionFacts, plan: RetentionPlan) -> str:
    """The text that senders and operators read while sends are refused."""
    used = round(max(facts.log_ratio, facts.queue_ratio) * 100)
    text = (f"the disk of the store is {used} % full, and above diskSpaceWarningLevelRatio "
            f"{round(rules.full_ratio * 100)} % no messages are taken")
    back = f"they are taken again at {round(rules.forced_ratio * 100)} %"
    if plan.waits_for_archive:
        return (f"{text}; files wait for the archive, which has the log up to {max(facts.archived_offset, 0)}: run the "
                f"archive, or set archiveGatePolicy to drop_and_report; {back}")
    return f"{text}: make room there; {back}"


def _hour(now_ms: int) -> int:
    """The hour of the local day."""
    return datetime.fromtimestamp(now_ms / 1000).hour
