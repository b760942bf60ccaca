"""Checks of one message: whether it exists, whether the group wants it, and how far it has come."""

from collections.abc import Iterator, Sequence

from regulus.broker.filters.message_filter import subscription_filter
from regulus.diagnosis.facts import Facts
from regulus.diagnosis.findings import Cause, Finding, Level
from regulus.diagnosis.group_checks import focus, next_offset, owners, rates, subscriptions_of
from regulus.diagnosis.message_course import Stage, course_of
from regulus.diagnosis.texts import duration_text, expression_text
from regulus.errors import HeaderError
from regulus.model import message_properties as names
from regulus.model.failure_causes import causes_of
from regulus.model.java_hash import java_hash
from regulus.model.message import MessageExt
from regulus.model.wording import counted, time_text
from regulus.wire.bodies import SubscriptionData
from regulus.wire.bodies.subscription_data import SQL92

RETRIES_MAX = 16
"""Retries of a group whose settings are not known."""
CAUSES_SHOWN = 3
"""Recorded causes of failures that the evidence shows, the newest first."""
OVERDUE_AFTER_MS = 10_000
"""A delivery that is later than this is reported as overdue."""


def queue_not_read(facts: Facts) -> Iterator[Finding]:
    queue = facts.message.queue if facts.message is not None and facts.message.original is not None else None
    if queue is None or facts.topic.route is None:
        return
    for data in facts.topic.route.queue_datas:
        if data.broker_name == queue.broker_name and queue.queue_id >= data.read_queue_nums:
            yield Finding(Cause.QUEUE_NOT_READ, f"The message is in queue {queue.broker_name}/{queue.queue_id}, "
                                                "which no "
                          "consumer reads.",
                          ((f"The topic has {data.read_queue_nums} read queues and {data.write_queue_nums} write "
                            "queues "
                           "there."),), "Give the topic at least as many read queues as write queues.")


def filtered_out(facts: Facts) -> Iterator[Finding]:
    message = facts.message.copies[-1] if facts.message is not None and facts.message.copies else None
    if message is None:
        return
    subscriptions = [each for _, each in subscriptions_of(facts)]
    known = facts.group.subscriptions.get(facts.topic.name)
    if not subscriptions and known is not None:
        subscriptions = [known]
    if subscriptions and not any(takes(each, message) for each in subscriptions):
        unique = list(dict.fromkeys(expression_text(each) for each in subscriptions))
        yield Finding(Cause.FILTERED_OUT, f"Group {facts.group.name} does not want the message: it subscribes by "
                      f"{' and '.join(unique)}.", _what_was_compared(subscriptions, message),
                      "Change the subscription in all members, or the tag or the properties at the sender. The message "
                      "itself comes again only after a reset of the group.")


def takes(subscription: SubscriptionData, message: MessageExt) -> bool:
    """Whether a broker and a consumer with this subscription pass the message; True for one that cannot be read."""
    try:
        wanted = subscription_filter(subscription)
    except HeaderError:
        return True
    if not wanted.takes(java_hash(message.tags) if message.tags else 0):
        return False
    if subscription.tags_set and subscription.expression_type != SQL92 and message.tags not in subscription.tags_set:
        return False
    return wanted.matches_all(message.properties)


def _what_was_compared(subscriptions: Sequence[SubscriptionData], message: MessageExt) -> tuple[str, ...]:
    said = [f"Its tag is {message.tags}." if message.tags else "It has no tag."]
    for each in subscriptions:
        if each.expression_type == SQL92:
            wanted = [name.decode() for name in subscription_filter(each).names]
            said.append("; ".join(f"{name} is {message.properties.get(name, 'not set')}" for name in wanted) + ".")
    return tuple(dict.fromkeys(said))


def message_missing(facts: Facts) -> Iterator[Finding]:
    message = facts.message
    if message is None or message.copies:
        return
    searched = (f"Searched: {', '.join(message.searched) or 'no topic'}, with delays, transactions, retries and dead "
                "letters.")
    if message.gone:
        yield Finding(Cause.MESSAGE_EXPIRED, f"The message {message.text} is older than what the brokers keep: if it "
                      "was stored, retention has removed it.",
                      (f"{message.gone[0].upper()}{message.gone[1:]}.", searched),
                      "Restore it from an archive and send it again (docs/pipeline/archive.md), or keep messages "
                      "longer (fileReservedTime).")
        return
    yield Finding(Cause.MESSAGE_UNKNOWN, f"No broker that answers has the message {message.text}.", (searched,),
                  "Read the sender's log: what its send returned, and with which topic and name servers. A send that "
                  "failed was not stored.")


def passed(facts: Facts) -> Iterator[Finding]:
    course, message = course_of(facts), facts.message
    if message is None or message.flight is not None or facts.group.is_broadcast:
        return
    if course.stage is Stage.RETRY_STORED and course.last is not None:
        queue = message.retry_queues.get(course.last.physical_offset)
        offset = message.retry_offsets.get(queue) if queue is not None else None
        if offset is not None and offset > course.last.queue_offset:
            yield Finding(Cause.PASSED, f"Group {facts.group.name} consumed the message at its retry {course.retries}.",
                          ((f"Its copy is at offset {course.last.queue_offset} of {course.last.topic}, and the group "
                           f"continues at {offset}."),), _look_at_the_member(facts))
    elif course.stage is Stage.STORED and message.original is not None and message.queue is not None:
        offset = next_offset(facts, message.queue)
        if offset is not None and offset > message.original.queue_offset:
            yield Finding(Cause.PASSED, f"Group {facts.group.name} continues after the message: it was consumed, or "
                          "skipped by a reset, or by a start at the end of the queue.",
                          ((f"It is at offset {message.original.queue_offset} of {message.queue.broker_name}/"
                           f"{message.queue.queue_id}, stored {time_text(message.original.store_timestamp)}; the group "
                           f"continues at {offset}. There is no retry and no dead letter of it."),),
                          _look_at_the_member(facts))


def _look_at_the_member(facts: Facts) -> str:
    return ("Read the logs of all members, also of one that should not be there (`regulus group members "
            f"{facts.group.name}`). To consume it again: `regulus group reset`.")


def no_offset(facts: Facts) -> Iterator[Finding]:
    """Not of groups that broadcast, whose members keep their offsets themselves."""
    if facts.group.is_broadcast or facts.group.is_known is False:
        return
    missing = [each for each in focus(facts)
               if each.is_offset_known and next_offset(facts, each.queue) is None and each.max_offset > each.min_offset]
    if missing:
        others = f", nor in {len(missing) - 1} other queues" if missing[1:] else ""
        yield Finding(Cause.NO_OFFSET, f"Group {facts.group.name} has no offset in {missing[0].text} of "
                      f"{facts.topic.name} yet{others}.",
                      (f"The queue has messages {missing[0].min_offset} to {missing[0].max_offset - 1}.",),
                      "A new group starts at the end unless its consumers say otherwise (consume_from_where): messages "
                      "from before its start then do not come. Reset the group to get them.", Level.NOTE)


def in_flight(facts: Facts) -> Iterator[Finding]:
    message = facts.message
    if message is None or not message.copies:
        return
    if message.flight is not None:
        yield Finding(Cause.IN_FLIGHT, f"A member of group {facts.group.name} popped the message and has not "
                                       "acknowledged "
                      "it.", ((f"Popped {time_text(message.flight.popped_ms)}; without an acknowledgement it is "
                               "visible "
                              f"again {time_text(message.flight.visible_ms)}."),),
                      "Wait, or read the log of the members: which one received it and did not acknowledge it.",
                      Level.WAITS)
        return
    if course_of(facts).stage is not Stage.STORED or message.original is None or message.queue is None:
        return
    offset = next_offset(facts, message.queue)
    for member, _, info in owners(facts):
        place = message.original.queue_offset
        is_cached = info.cached_msg_count > 0 and info.cached_msg_min_offset <= place <= info.cached_msg_max_offset
        if is_cached and (offset is None or offset <= place):
            yield Finding(Cause.IN_FLIGHT, f"{member.client_id} has received the message and has not finished it, or "
                                           "one "
                          "before it.", ((f"It has {info.cached_msg_count} messages of the queue, from offset "
                                         f"{info.cached_msg_min_offset} to {info.cached_msg_max_offset}; the last one "
                                         f"ended {time_text(info.last_consume_timestamp)}."),),
                          "Read that member's log; if nothing moves, take a stack trace of it.", Level.WAITS)


def retry_waiting(facts: Facts) -> Iterator[Finding]:
    course, message = course_of(facts), facts.message
    if course.last is None or message is None or message.flight is not None:
        return
    if course.stage is Stage.RETRY_DELAYED and course.due_ms + OVERDUE_AFTER_MS > facts.now_ms:
        yield Finding(Cause.RETRY_WAITING, f"The message failed and waits for retry {course.retries} of "
                      f"{_retries_max(facts)}, which is due {time_text(course.due_ms)}.",
                      (f"Its copy waits in {course.last.topic} for {course.last.properties.get(names.REAL_TOPIC)}.",
                       *_recorded_causes(course.last)),
                      "Wait, or repair what makes the listener fail: its log says what it was.", Level.WAITS)
    if course.stage is Stage.RETRY_STORED:
        queue = message.retry_queues.get(course.last.physical_offset)
        offset = message.retry_offsets.get(queue) if queue is not None else None
        if offset is None or offset <= course.last.queue_offset:
            continues = "has no offset there" if offset is None else f"continues at {offset}"
            yield Finding(Cause.RETRY_WAITING, f"Retry {course.retries} of {_retries_max(facts)} of the message can be "
                          "consumed, and was not yet.",
                          ((f"Its copy is at offset {course.last.queue_offset} of {course.last.topic}, and the group "
                            f"{continues}."), *_recorded_causes(course.last)),
                          "A member consumes it when it comes to it.", Level.WAITS)


def delivery_waiting(facts: Facts) -> Iterator[Finding]:
    course = course_of(facts)
    if course.last is None or course.stage is not Stage.DELAYED:
        return
    if course.due_ms + OVERDUE_AFTER_MS > facts.now_ms:
        yield Finding(Cause.DELIVERY_WAITING, f"The message is to be delivered {time_text(course.due_ms)}, in "
                      f"{duration_text(max(0, course.due_ms - facts.now_ms))}.",
                      ((f"It waits in {course.last.topic}; it was stored "
                       f"{time_text(course.last.store_timestamp)}."),), "Wait.", Level.WAITS)


def delivery_overdue(facts: Facts) -> Iterator[Finding]:
    course = course_of(facts)
    if course.last is None or course.stage not in (Stage.DELAYED, Stage.RETRY_DELAYED):
        return
    late_ms = facts.now_ms - course.due_ms
    if late_ms >= OVERDUE_AFTER_MS:
        yield Finding(Cause.DELIVERY_OVERDUE, f"The delay of the message was over {duration_text(late_ms)} ago, and "
                                              "the "
                      f"broker has not delivered it to {course.last.properties.get(names.REAL_TOPIC)}.",
                      (f"It waits in {course.last.topic}.",),
                      "Look at the broker (`regulus cluster status`): only a master delivers, and only while its store "
                      "takes messages; a topic that was deleted meanwhile gets nothing.")


def dead_letter(facts: Facts) -> Iterator[Finding]:
    course = course_of(facts)
    if course.last is not None and course.stage is Stage.DEAD:
        yield Finding(Cause.DEAD_LETTER, f"The message failed for the last time, after {course.retries} deliveries, "
                                         "and "
                      f"is a dead letter of group {facts.group.name}.",
                      ((f"It is at offset {course.last.queue_offset} of {course.last.topic} since "
                       f"{time_text(course.last.store_timestamp)}."), *_recorded_causes(course.last)),
                      "Repair what made it fail, and send it again (`regulus dead redrive`).")


def transactions(facts: Facts) -> Iterator[Finding]:
    course = course_of(facts)
    if course.last is None or facts.message is None:
        return
    producers = course.last.properties.get(names.PRODUCER_GROUP, "unknown")
    checks = max(0, names.number(course.last.properties.get(names.TRANSACTION_CHECK_TIMES)))
    asked = f"Its producer group is {producers}; the broker has asked {checks} times."
    if course.stage is Stage.HALF_OPEN and facts.message.half_ended is False:
        yield Finding(Cause.TRANSACTION_OPEN, "The message is half of a transaction that its producer has neither "
                      "committed nor rolled back.", (asked,),
                      "Start a producer of that group with a check callback, or commit it there.")
    elif course.stage is Stage.HALF_OPEN:
        yield Finding(Cause.TRANSACTION_OPEN, "The message is half of a transaction; whether its producer rolled it "
                                              "back "
                      "is not known.", (asked,), "Ask the producer.")
    elif course.stage is Stage.ROLLED_BACK:
        yield Finding(Cause.TRANSACTION_ROLLED_BACK, "The producer rolled the message's transaction back: no consumer "
                      "gets it.", (asked,), "Send it again if that was a mistake.")
    elif course.stage is Stage.GIVEN_UP:
        yield Finding(Cause.TRANSACTION_GIVEN_UP, "The producer decided nothing about the message's transaction, and "
                      "the broker gave it up.", (asked,),
                      "Its producer may still commit it; or let the broker ask again (mqadmin resumeCheckHalfMessage).")


def messages_before(facts: Facts) -> Iterator[Finding]:
    """The message waits in its queue, and the group consumes: how many messages come first."""
    message = facts.message
    if message is None or message.original is None or message.queue is None or not facts.group.members \
            or course_of(facts).stage is not Stage.STORED or facts.group.is_broadcast or message.flight is not None:
        return
    offset = next_offset(facts, message.queue)
    if offset is not None and offset <= message.original.queue_offset:
        before = message.original.queue_offset - offset
        yield Finding(Cause.LAG, f"The message waits in its queue: group {facts.group.name} has "
                      f"{counted(before, 'message')} to consume before it.", tuple(rates(facts, before + 1)),
                      "Make the listener faster, or add members (at most one for each queue works).", Level.WAITS)


def _retries_max(facts: Facts) -> int:
    return next((each.group.retry_max_times for each in facts.brokers if each.group is not None), RETRIES_MAX)


def _recorded_causes(message: MessageExt) -> Iterator[str]:
    """What consumers recorded about the failures, the newest first."""
    for attempt, text in sorted(causes_of(message.properties).items(), reverse=True)[:CAUSES_SHOWN]:
        yield f"Failure {attempt}: {text}."
