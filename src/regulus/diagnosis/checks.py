"""All checks in their order, and the diagnosis that they give together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from regulus.diagnosis import group_checks, message_checks, server_checks
from regulus.diagnosis.facts import Facts, Unknown
from regulus.diagnosis.findings import ORDER, Cause, Finding, Level
from regulus.model.wording import counted

CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    server_checks.name_servers_differ, server_checks.name_server_silent, server_checks.no_route,
    server_checks.broker_silent, server_checks.master_away, server_checks.topic_permissions,
    message_checks.queue_not_read, server_checks.access_denied,
    group_checks.group_unknown, group_checks.consumption_disabled, group_checks.no_member_online,
    group_checks.not_subscribed, group_checks.subscriptions_differ, group_checks.group_shared,
    message_checks.filtered_out, message_checks.message_missing, message_checks.passed, message_checks.no_offset,
    group_checks.queues_without_owner, group_checks.queue_not_locked, group_checks.flow_control,
    group_checks.listener_stuck, group_checks.queue_blocked,
    message_checks.in_flight, message_checks.retry_waiting, message_checks.delivery_waiting,
    message_checks.delivery_overdue, message_checks.dead_letter, message_checks.transactions,
    server_checks.slave_behind, server_checks.disk_full, server_checks.store_ill, server_checks.archive_gate,
    group_checks.lag, message_checks.messages_before,
)

FINAL = frozenset({Cause.FILTERED_OUT, Cause.MESSAGE_UNKNOWN, Cause.MESSAGE_EXPIRED, Cause.PASSED, Cause.DEAD_LETTER,
                   Cause.TRANSACTION_ROLLED_BACK, Cause.TRANSACTION_GIVEN_UP})
"""Causes after which the message does not come, however well the group consumes."""

_STOP_CONSUMING = frozenset({
    Cause.TOPIC_NOT_READABLE, Cause.CONSUMPTION_DISABLED, Cause.NO_MEMBER_ONLINE, Cause.NOT_SUBSCRIBED,
    Cause.QUEUE_NOT_OWNED, Cause.QUEUE_NOT_LOCKED, Cause.FLOW_CONTROL, Cause.LISTENER_STUCK, Cause.QUEUE_BLOCKED,
    Cause.IN_FLIGHT, Cause.SLAVE_BEHIND, Cause.LAG})
_STOP_STORING = frozenset({Cause.TOPIC_NOT_WRITABLE, Cause.DISK_FULL, Cause.ARCHIVE_GATE})


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known about one group and topic. `findings` are ordered: the cause to look at first is the first one."""

    facts: Facts
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing explains that messages do not arrive."""
        return all(each.level is Level.NOTE for each in self.findings)

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """What could not be found out. Denied requests are a finding, and not repeated here."""
        return tuple(each for each in self.facts.unknown if not each.is_denied)


def diagnose(facts: Facts) -> Diagnosis:
    found = [finding for check in CHECKS for finding in check(facts)]
    is_final = any(each.cause in FINAL for each in found)
    is_stored = facts.message is not None and bool(facts.message.copies)
    levelled = [_levelled(each, is_final=is_final, is_stored=is_stored) for each in found]
    return Diagnosis(facts, tuple(sorted(levelled, key=lambda each: (each.level is Level.NOTE, ORDER[each.cause]))))


def _levelled(finding: Finding, *, is_final: bool, is_stored: bool) -> Finding:
    """What holds now does not explain what became of the message before: then it is only worth knowing."""
    if (is_final and finding.cause in _STOP_CONSUMING) or (is_stored and finding.cause in _STOP_STORING):
        return replace(finding, level=Level.NOTE)
    return finding


def lag(facts: Facts) -> int:
    """Messages of the topic that the group has not consumed, as far as it is known."""
    return sum(group_checks.lag_of(facts, each) for each in facts.topic.queues)


def healthy_text(facts: Facts) -> str:
    """A sentence about a group in which nothing was found."""
    group, topic = facts.group, facts.topic
    members = len(group.members) + group.members_left_out
    said = f"Group {group.name} is healthy" + (f" in topic {topic.name}" if topic.name else "")
    known = f"{counted(members, 'member')} online" if group.are_members_known else "members unknown"
    return f"{said}: {known}, {counted(lag(facts), 'message')} behind."
