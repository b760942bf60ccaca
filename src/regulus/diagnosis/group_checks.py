"""Checks of the group: its settings, its members, what they subscribe to, which queues they have."""

from collections.abc import Iterator

from regulus.client.consuming.running_info import BLOCKED_QUEUES, PULL_THRESHOLD, PULL_THRESHOLD_MIB
from regulus.diagnosis.facts import Facts, MemberFacts, QueueFacts
from regulus.diagnosis.findings import Cause, Finding, Level
from regulus.diagnosis.texts import duration_text, expression_text, near_text
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import is_internal
from regulus.model.wording import counted, time_text
from regulus.wire.bodies import ProcessQueueInfo, SubscriptionData

STUCK_AFTER_MS = 60_000
"""A member that has cached messages and finished none for this long is reported."""
LAG_AGE_MS = 10_000
"""A message that waits for less does not count as lag."""
SHOWN_MAX = 8
"""Queues and members that the evidence names."""
JAVA_THRESHOLD, JAVA_THRESHOLD_MIB = 1000, 100
"""Limits of RocketMQ's consumers, for a member that does not report its own."""

_LOCK_REMEDY = ("Another client of the group holds the lock: end it, or wait a minute after its end for the lock to "
                "expire.")
_PULLS = "CONSUME_PASSIVELY"
_ASKS = "CONSUME_ACTIVELY"


def group_unknown(facts: Facts) -> Iterator[Finding]:
    group = facts.group
    if group.is_known is False and not group.members:
        yield Finding(Cause.GROUP_UNKNOWN, f"No broker knows group {group.name}{near_text(group.near_names)}",
                      (f"Asked: {counted(sum(each.knows_groups for each in facts.brokers), 'broker')}.",),
                      "Correct the group's name in the consumer or here, or start its first consumer.")


def consumption_disabled(facts: Facts) -> Iterator[Finding]:
    for broker in facts.route_brokers():
        config = broker.group
        if config is None:
            continue
        if not config.consume_enable:
            yield Finding(Cause.CONSUMPTION_DISABLED, f"Group {config.group_name} may not consume at {broker.text}.",
                          ("Its consumeEnable is false there.",),
                          "Set it back (mqadmin updateSubGroup -s true).")
        elif facts.group.is_broadcast and not config.consume_broadcast_enable:
            yield Finding(Cause.CONSUMPTION_DISABLED, f"Group {config.group_name} may not broadcast at {broker.text}.",
                          ("Its consumeBroadcastEnable is false there.",),
                          "Set it back (mqadmin updateSubGroup -d true).")


def no_member_online(facts: Facts) -> Iterator[Finding]:
    group = facts.group
    if not group.are_members_known or group.members or group.is_known is False:
        return
    waiting = sum(lag_of(facts, each) for each in facts.topic.queues)
    said = f"Messages of {facts.topic.name} that wait, by the group's offsets: {waiting}."
    if facts.topic.consume_tps:
        yield Finding(Cause.NO_MEMBER_ONLINE, f"No member of group {group.name} is connected to a broker, and the "
                      "group received messages in the last minute: its members use a gRPC proxy, or left just now.",
                      (said, f"It received {facts.topic.consume_tps:.1f} messages a second."),
                      "If messages stop, read the logs of the proxy and of its clients.", Level.NOTE)
        return
    proxies = "Brokers do not list members that use a gRPC proxy"
    if facts.topic.consume_tps is not None:
        proxies += "; the group received nothing in the last minute"
    yield Finding(Cause.NO_MEMBER_ONLINE, f"No member of group {group.name} is connected.",
                  (said, f"{proxies}.") if facts.topic.name else (),
                  "Start a consumer of the group, or read the log of the one that should run: which name servers it "
                  "uses, and whether it can reach the brokers' addresses.")
    guarded = [each for each in facts.brokers if any(
        each.settings.get(key) == "true" for key in ("aclEnable", "authenticationEnabled", "authorizationEnabled"))]
    if guarded:
        yield Finding(Cause.ACCESS_MAY_REFUSE, "Access control is on: brokers may refuse the members.",
                      tuple(f"It is on at {each.text}." for each in guarded[:SHOWN_MAX]),
                      "Look for refusals in the logs of the consumer and of the brokers, and ask `regulus acl explain` "
                      "about its user.", Level.NOTE)


def not_subscribed(facts: Facts) -> Iterator[Finding]:
    topic, group = facts.topic.name, facts.group
    if not group.members or not topic or is_internal(topic):
        return
    known = subscriptions_of(facts)
    if known or topic in group.subscriptions or (not _all_topics(facts) and group.consume_type == _ASKS):
        return
    others = sorted({each for each in (*_all_topics(facts), *group.subscriptions) if not is_internal(each)})
    yield Finding(Cause.NOT_SUBSCRIBED, f"No member of group {group.name} subscribes to topic {topic}.",
                  (f"They subscribe to {', '.join(others[:SHOWN_MAX])}." if others else "They subscribe to nothing.",),
                  "Subscribe to it in all members of the group.")


def subscriptions_differ(facts: Facts) -> Iterator[Finding]:
    by_expression: dict[str, list[str]] = {}
    for member, subscription in subscriptions_of(facts):
        by_expression.setdefault(_normal(subscription), []).append(member.client_id)
    if len(by_expression) > 1:
        yield Finding(Cause.SUBSCRIPTIONS_DIFFER, f"Members of group {facts.group.name} subscribe to topic "
                      f"{facts.topic.name} by different expressions: messages reach a member that drops them.",
                      tuple(f"{text}: {', '.join(members[:SHOWN_MAX])}." for text, members in by_expression.items()),
                      "Give all members the same subscription, or each service a group of its own.")


def group_shared(facts: Facts) -> Iterator[Finding]:
    by_topics: dict[tuple[str, ...], list[str]] = {}
    for member in facts.group.members:
        topics = _topics(member)
        if topics:
            by_topics.setdefault(topics, []).append(member.client_id)
    if len(by_topics) > 1:
        yield Finding(Cause.GROUP_SHARED, f"Members of group {facts.group.name} subscribe to different topics: "
                                          "queues go "
                      "to members that do not consume them.",
                      tuple(f"{', '.join(topics)}: {', '.join(members[:SHOWN_MAX])}."
                            for topics, members in by_topics.items()),
                      "Give each service a group of its own, or all members the same topics.")


def queues_without_owner(facts: Facts) -> Iterator[Finding]:
    """Only where all members pull and have reported: the broker, not a member, has the queues of those that pop."""
    members = facts.group.members
    if not members or facts.group.members_left_out or not all(_pulls(each) for each in members):
        return
    if not subscriptions_of(facts):
        return
    owned = {queue for each in members if each.info for queue, info in each.info.mq_table.items() if not info.droped}
    free = [each for each in focus(facts) if each.queue not in owned and _is_read(facts, each.queue)]
    if not free:
        return
    evidence = tuple(f"{each.client_id} has {len(each.info.mq_table) if each.info else 0} queues."
                     for each in members[:SHOWN_MAX])
    if any(_is_in_order(each) for each in members):
        yield Finding(Cause.QUEUE_NOT_LOCKED, f"No member of group {facts.group.name} has {_names(free)} of "
                      f"{facts.topic.name}. They consume in order and take a queue only with its lock.", evidence,
                      _LOCK_REMEDY)
    else:
        yield Finding(Cause.QUEUE_NOT_OWNED, f"No member of group {facts.group.name} has {_names(free)} of "
                      f"{facts.topic.name}.", evidence,
                      "Wait for the next rebalance (20 s). If it stays so, members see different lists of members or "
                      "have different strategies: give them the same name servers and allocation strategy.")


def queue_not_locked(facts: Facts) -> Iterator[Finding]:
    for member, queue, info in owners(facts):
        if _is_in_order(member) and not info.locked and not facts.group.is_broadcast:
            yield Finding(Cause.QUEUE_NOT_LOCKED, f"{member.client_id} consumes {queue.text} in order and does not "
                          "have its lock.", (f"It has {info.cached_msg_count} messages of it.",), _LOCK_REMEDY)


def flow_control(facts: Facts) -> Iterator[Finding]:
    for member, queue, info in owners(facts):
        assert member.info is not None
        count_max = _limit(member, PULL_THRESHOLD, JAVA_THRESHOLD)
        size_max = _limit(member, PULL_THRESHOLD_MIB, JAVA_THRESHOLD_MIB)
        if info.cached_msg_count > count_max or info.cached_msg_size_in_mib > size_max:
            yield Finding(Cause.FLOW_CONTROL, f"{member.client_id} does not pull {queue.text}: its cache is full.",
                          ((f"It has {info.cached_msg_count} messages, {info.cached_msg_size_in_mib} MiB; the limits "
                            "are "
                           f"{count_max} messages and {size_max} MiB."),),
                          "Make its listener faster, give it more threads, or start more members.")


def listener_stuck(facts: Facts) -> Iterator[Finding]:
    for member, queue, info in owners(facts):
        silent_ms = facts.now_ms - info.last_consume_timestamp
        if info.cached_msg_count > 0 and info.last_consume_timestamp > 0 and silent_ms >= STUCK_AFTER_MS:
            yield Finding(Cause.LISTENER_STUCK, f"The listener of {member.client_id} has finished no message of "
                          f"{queue.text} for {duration_text(silent_ms)}.",
                          ((f"It has {info.cached_msg_count} messages, from offset {info.cached_msg_min_offset} to "
                           f"{info.cached_msg_max_offset}; the last one ended "
                           f"{time_text(info.last_consume_timestamp)}."),),
                          "Take a stack trace of that process: its listener waits for something without a time limit.")


def queue_blocked(facts: Facts) -> Iterator[Finding]:
    seen = set()
    for member, queue, _ in owners(facts):
        assert member.info is not None
        blocked = member.info.properties.get(BLOCKED_QUEUES, "0")
        if blocked != "0" and lag_of(facts, queue) > 0 and member.client_id not in seen:
            seen.add(member.client_id)
            first = next_offset(facts, queue.queue)
            waiting = f"{queue.text} has {lag_of(facts, queue)} messages from offset {first} on"
            yield Finding(Cause.QUEUE_BLOCKED, f"{member.client_id} has blocked queues: their first message fails "
                          "again and again, or the broker refuses to read it.",
                          (f"{blocked} of its queues are blocked; {waiting}.",),
                          "Its log names the message. Repair the listener, or reset the group past the message.")


def lag(facts: Facts) -> Iterator[Finding]:
    """Without a message: that of all queues. With one: how many messages come before it, see `message_checks`."""
    if facts.message is not None or not facts.group.members or facts.group.is_broadcast:
        return
    late = [each for each in facts.topic.queues if each.waiting_ms >= LAG_AGE_MS and lag_of(facts, each) > 0]
    if late:
        total, oldest = sum(lag_of(facts, each) for each in late), max(each.waiting_ms for each in late)
        yield Finding(Cause.LAG, f"Group {facts.group.name} has not reached the newest messages: {total} wait, the "
                                 "oldest "
                      f"for {duration_text(oldest)}.", (*rates(facts, total),),
                      "Make the listener faster, or add members (at most one for each queue works).", Level.WAITS)


def rates(facts: Facts, waiting: int) -> Iterator[str]:
    """How fast messages come and are consumed, and how long the rest takes."""
    consumed = max(facts.topic.consume_tps or 0.0, sum(
        status.consume_ok_tps for member in facts.group.members if member.info
        for topic, status in member.info.status_table.items() if topic == facts.topic.name))
    put = facts.topic.put_tps
    came = "unknown" if put is None else f"{put:.1f}"
    yield f"Messages a second: {came} come, and {consumed:.1f} are consumed."
    if put is not None and consumed > put:
        yield f"At these rates the group catches up in {duration_text(waiting / (consumed - put) * 1000)}."
    elif put is not None:
        yield "At these rates the group does not catch up."


# --- what several checks ask -----------------------------------------------------------------------------------------


def focus(facts: Facts) -> tuple[QueueFacts, ...]:
    """The queue of the message; all queues when the question names no message, or its queue is unknown."""
    queue = facts.message.queue if facts.message is not None else None
    if queue is None or queue.queue_id < 0:
        return facts.topic.queues
    found = facts.topic.queue(queue)
    return () if found is None else (found,)


def owners(facts: Facts) -> Iterator[tuple[MemberFacts, QueueFacts, ProcessQueueInfo]]:
    """The members that have the queues in question, with their report of each."""
    for queue in focus(facts):
        for member in facts.group.members:
            info = member.info.mq_table.get(queue.queue) if member.info else None
            if info is not None and not info.droped:
                yield member, queue, info


def subscriptions_of(facts: Facts) -> list[tuple[MemberFacts, SubscriptionData]]:
    """How each member subscribes to the topic, by its own report."""
    return [(member, each) for member in facts.group.members if member.info
            for each in member.info.subscription_set if each.topic == facts.topic.name]


def next_offset(facts: Facts, queue: MessageQueue) -> int | None:
    """Where the group continues; None when nothing says it. Members store their offsets every few seconds, and know
    them better meanwhile."""
    stored = facts.topic.queue(queue)
    known = [] if stored is None or stored.consumer_offset is None else [stored.consumer_offset]
    for member in facts.group.members:
        info = member.info.mq_table.get(queue) if member.info else None
        if info is not None and not info.droped:
            # 0 is also what a member reports that has consumed nothing yet.
            known += [info.commit_offset] if info.commit_offset > 0 or info.cached_msg_count > 0 else []
    return max(known, default=None)


def lag_of(facts: Facts, queue: QueueFacts) -> int:
    """Messages of the queue that the group has not consumed; 0 when nothing says where it continues."""
    offset = next_offset(facts, queue.queue)
    return 0 if offset is None else max(0, queue.max_offset - max(offset, queue.min_offset))


def _all_topics(facts: Facts) -> set[str]:
    return {topic for member in facts.group.members for topic in _topics(member)}


def _topics(member: MemberFacts) -> tuple[str, ...]:
    found = member.info.subscription_set if member.info else ()
    return tuple(sorted(each.topic for each in found if not is_internal(each.topic)))


def _normal(subscription: SubscriptionData) -> str:
    if subscription.tags_set:
        return f"the tags {' || '.join(sorted(subscription.tags_set))}"
    return expression_text(subscription)


def _pulls(member: MemberFacts) -> bool:
    return member.info is not None and member.info.properties.get("PROP_CONSUME_TYPE") == _PULLS


def _is_in_order(member: MemberFacts) -> bool:
    return member.info is not None and member.info.properties.get("PROP_CONSUMEORDERLY") == "true"


def _is_read(facts: Facts, queue: MessageQueue) -> bool:
    return facts.topic.route is not None and any(
        each.broker_name == queue.broker_name and queue.queue_id < each.read_queue_nums
        for each in facts.topic.route.queue_datas)


def _limit(member: MemberFacts, key: str, default: int) -> int:
    text = member.info.properties.get(key, "") if member.info else ""
    return int(text) if text.isdecimal() else default


def _names(queues: list[QueueFacts]) -> str:
    shown = ", ".join(each.text for each in queues[:SHOWN_MAX])
    return shown if len(queues) <= SHOWN_MAX else f"{shown} and {len(queues) - SHOWN_MAX} more"
