"""Compares promises with results. Each check describes what it found wrong, in sentences."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TIMER_TOPIC, dlq_topic
from regulus.testing.simulation.history import (
    Began,
    Call,
    Committed,
    Ended,
    Ending,
    Fate,
    GroupFacts,
    History,
    Pulled,
    Reset,
    Restarted,
    SendOutcome,
)
from regulus.testing.simulation.pop_checks import POP_CHECKS

Check = Callable[[History], Iterable[str]]

LOCK_LIFE_S = 60.0
"""How long a broker that was down may give a queue to another member than the one that still relies on its lock."""
_PULL_LIFE_S = 20.0
"""A member that reads a queue has asked for its messages within this time."""
_CLOCK_STEP_S = 0.002
"""Clocks have a resolution of one ms."""


# --- messages --------------------------------------------------------------------------------------------------------


def nothing_acknowledged_is_lost(history: History) -> Iterator[str]:
    """Each message answered with SEND_OK is in the log."""
    stored = {(each.key, each.queue.topic) for each in history.stored}
    for sent in history.sent.values():
        if sent.outcome is SendOutcome.STORED and sent.fate is Fate.NONE and not sent.is_excused \
                and (sent.key, sent.topic) not in stored:
            where = _place(sent.queue) if sent.queue is not None else "nowhere"
            yield f"{sent.key} was acknowledged in {where}@{sent.queue_offset}, and is not in the log"


def everything_is_consumed(history: History) -> Iterator[str]:
    """Each message in the log was consumed by each group that subscribes to it, or is its dead letter."""
    in_topic: defaultdict[str, list[tuple[str, MessageQueue, int]]] = defaultdict(list)
    for each in history.stored:
        if each.queue.broker_name not in history.lost_tails and not each.is_spoiled:
            in_topic[each.queue.topic].append((each.key, each.queue, each.queue_offset))
    for group in history.groups.values():
        dead = {key for key, _, _ in in_topic[dlq_topic(group.name)]}
        skipped = _skipped(history, group.name)
        for who, done in _consumed(history, group).items():
            for topic in group.topics:
                missing = sorted({key for key, queue, offset in in_topic[topic] if key not in done
                                  and group.wants(key) and key not in dead and offset not in skipped.get(queue, ())})
                if missing:
                    yield f"{who} never consumed {_some(missing)} of {topic}"


def nothing_unwanted_is_consumed(history: History) -> Iterator[str]:
    """No listener gets messages that the condition of its group rejects."""
    for call in history.calls:
        unwanted = [key for key in call.keys if not history.groups[call.group].wants(key)]
        if unwanted:
            yield f"{call.member} got {_some(unwanted)}, which {call.group} does not want"


def _consumed(history: History, group: GroupFacts) -> dict[str, set[str]]:
    """The keys by group; by member if each member gets all messages."""
    done: dict[str, set[str]] = {}
    if group.broadcasting:
        done = {f"{member} of {group.name}": set() for member in sorted(group.members)}
    else:
        done = {group.name: set()}
    for call in history.calls:
        if call.group != group.name:
            continue
        who = f"{call.member} of {group.name}" if group.broadcasting else group.name
        # Broadcasting has no retry: a message that failed is done.
        if who in done and (call.ending is Ending.DONE or (group.broadcasting and call.ending is Ending.FAILED)):
            done[who].update(call.keys)
    return done


def _skipped(history: History, group: str) -> dict[MessageQueue, range]:
    """Messages that a reset may have skipped."""
    return {event.queue: range(event.offset) for event in history.events
            if isinstance(event, Reset) and event.group == group}


def timers_keep_their_time(history: History) -> Iterator[str]:
    """No message is consumed before its delivery time."""
    for call in history.calls:
        for key in call.keys:
            sent = history.sent.get(key)
            if sent is not None and call.begin_s < sent.not_before_s - history.promises.clocks_wrong_s - _CLOCK_STEP_S:
                yield f"{call.member} got {key} {sent.not_before_s - call.begin_s:.3f} s early"


def timers_come_once(history: History) -> Iterator[str]:
    """Each message with a delivery time is in its topic once for each time that it was stored."""
    waited = Counter(each.key for each in history.stored if each.queue.topic == TIMER_TOPIC and not each.is_put_back)
    came = Counter((each.key, each.queue.topic) for each in history.stored)
    for sent in history.sent.values():
        count = came[sent.key, sent.topic]
        if sent.not_before_s and count > max(waited[sent.key], 1) + history.promises.timed_again:
            yield f"{sent.key} waited {waited[sent.key]} times for its time, and came {count} times"


def timed_messages_missing(history: History) -> bool:
    """Whether an acknowledged message still waits for its time."""
    came = {(each.key, each.queue.topic) for each in history.stored}
    return any(sent.not_before_s and sent.outcome is SendOutcome.STORED and not sent.is_excused
               and (sent.key, sent.topic) not in came for sent in history.sent.values())


# --- queues ----------------------------------------------------------------------------------------------------------


def orderly_queues_keep_their_order(history: History) -> Iterator[str]:
    """No call begins in an ordered queue before all earlier messages were consumed or made dead letters."""
    dead = {(each.queue.topic, each.key) for each in history.stored}
    for group in _orderly(history):
        done: defaultdict[MessageQueue, set[int]] = defaultdict(set)
        begin: dict[MessageQueue, int] = {}
        for event in history.events:
            if isinstance(event, Reset) and event.group == group.name:
                begin[event.queue] = max(event.offset, begin.get(event.queue, 0))
            if not isinstance(event, Began | Ended) or event.call.group != group.name:
                continue
            call = event.call
            finished = done[call.queue]
            if isinstance(event, Ended):
                is_dead = all((dlq_topic(group.name), key) in dead for key in call.keys)
                if call.ending is Ending.DONE or (call.ending is Ending.FAILED and is_dead
                                                  and call.tries >= group.max_reconsume_times):
                    finished.update(call.offsets)
                continue
            ahead = [offset for offset in range(begin.get(call.queue, 0), call.offsets[0]) if offset not in finished]
            if ahead:
                yield f"at {event.at:.3f} {call.member} began {call} before {_some(ahead)} in front of it were done"


def orderly_queues_have_one_call(history: History) -> Iterator[str]:
    """No two calls run at the same time in one queue of an ordered group."""
    restarted: dict[str, float] = {}
    running: dict[tuple[str, MessageQueue], Call] = {}
    orderly = {group.name for group in _orderly(history)}
    for event in history.events:
        if isinstance(event, Restarted):
            restarted[event.broker] = event.at
        if not isinstance(event, Began | Ended) or event.call.group not in orderly:
            continue
        place = event.call.group, event.call.queue
        if isinstance(event, Ended):
            if running.get(place) is event.call:
                del running[place]
            continue
        other = running.get(place)
        if other is not None and event.at - restarted.get(event.call.queue.broker_name, -LOCK_LIFE_S) > LOCK_LIFE_S:
            yield (f"at {event.at:.3f} {event.call.member} began {event.call} while {other.member} was still at "
                   f"{other}, since {other.begin_s:.3f}")
        running[place] = event.call


def suspended_queues_rest(history: History) -> Iterator[str]:
    """After a failure in an ordered queue its member pauses the queue for the requested time."""
    for group in _orderly(history):
        last: dict[tuple[MessageQueue, str], Call] = {}
        for event in history.events:
            if isinstance(event, Reset) and event.group == group.name:
                last = {place: call for place, call in last.items() if place[0] != event.queue}
            if not isinstance(event, Began | Ended) or event.call.group != group.name:
                continue
            call = event.call
            place = call.queue, call.member
            if isinstance(event, Ended):
                last[place] = call
                continue
            failed = last.get(place)
            # A queue that was given up and taken again begins where it was left, at once.
            if failed is None or failed.ending is not Ending.FAILED or failed.node is not call.node \
                    or call.tries <= failed.tries or call.offsets[0] != failed.offsets[0]:
                continue
            wanted_s = (failed.suspend_ms if failed.suspend_ms >= 0 else group.suspend_ms) / 1000
            if event.at - failed.end_s < wanted_s - _CLOCK_STEP_S:
                yield (f"at {event.at:.3f} {call.member} began {call} {event.at - failed.end_s:.3f} s after a failure, "
                       f"and was to rest for {wanted_s:.3f} s")


def _orderly(history: History) -> list[GroupFacts]:
    """Ordered groups whose consumers own queues."""
    return [group for group in history.groups.values() if group.orderly and not group.pops]


# --- retries ---------------------------------------------------------------------------------------------------------


def retries_are_counted(history: History) -> Iterator[str]:
    """No message states more retries than failures, nor more than allowed."""
    failures: defaultdict[tuple[str, str], int] = defaultdict(int)
    failed_here: set[tuple[str, int, MessageQueue, int]] = set()
    for event in history.events:
        if not isinstance(event, Began | Ended):
            continue
        call = event.call
        facts = history.groups[call.group]
        if facts.pops:      # it counts deliveries
            continue
        if isinstance(event, Ended):
            # A message whose call died or was cancelled may have been sent back, because it took too long.
            if call.ending is not Ending.DONE:
                for key in call.keys:
                    failures[call.group, key] += 1
                failed_here.update((call.group, id(call.node), call.queue, offset) for offset in call.offsets)
            continue
        running_too_long = sum(1 for other in history.calls if other.group == call.group and call.keys[0] in other.keys
                               and other.begin_s < event.at - facts.consume_timeout_s
                               and (other.ending is Ending.DONE or other.end_s > event.at))
        if call.tries > failures[call.group, call.keys[0]] + running_too_long:
            yield f"at {event.at:.3f} {call.member} began {call} after {failures[call.group, call.keys[0]]} failures"
        # If no broker takes it back, it is retried locally; a retry from a broker is in another position.
        is_tried_on = facts.orderly or (call.group, id(call.node), call.queue, call.offsets[0]) in failed_here
        if call.tries > facts.max_reconsume_times and not is_tried_on:
            yield f"at {event.at:.3f} {call.member} began {call}, and the limit is {facts.max_reconsume_times}"


def dead_letters_are_dead(history: History) -> Iterator[str]:
    """No dead letter comes early, and none is missing of messages that always fail, unless a reset skipped it."""
    dead = defaultdict(set)
    for each in history.stored:
        if not each.is_spoiled:
            dead[each.queue.topic].add(each.key)
    for group in history.groups.values():
        if group.broadcasting:
            continue
        calls: defaultdict[str, list[Call]] = defaultdict(list)
        skipped = _skipped(history, group.name)
        passed = set()
        for call in history.calls:
            if call.group == group.name:
                for key, offset in zip(call.keys, call.offsets, strict=True):
                    calls[key].append(call)
                    if offset in skipped.get(call.queue, ()):
                        passed.add(key)
        letters = dead[dlq_topic(group.name)]
        for key in sorted(letters):
            failed = sum(1 for call in calls[key] if call.ending is not Ending.DONE or _took_too_long(call, group))
            if failed <= group.max_reconsume_times:
                yield (f"{key} is a dead letter of {group.name} after {failed} failures of "
                       f"{group.max_reconsume_times + 1}")
        hopeless = {key for key, count in history.failures_wanted.items() if count > group.max_reconsume_times}
        missing = sorted(key for key in hopeless.intersection(calls) - letters - passed
                         if not any(call.ending is Ending.DONE for call in calls[key]))
        if missing:
            yield f"{_some(missing)} always failed in {group.name} and are no dead letters"


def _took_too_long(call: Call, group: GroupFacts) -> bool:
    return call.end_s - call.begin_s > group.consume_timeout_s


# --- offsets ---------------------------------------------------------------------------------------------------------


def offsets_do_not_go_back(history: History) -> Iterator[str]:
    """An offset that a broker keeps decreases only because an operator reset it, or the broker forgot it.

    While members disagree about the members of the group, two may consume one queue, and the slower one is behind. Each
    of them must not go back behind its own offset, and no other client may change it.
    """
    kept: dict[tuple[str, MessageQueue], Committed] = {}
    wanted: dict[tuple[str, MessageQueue], int] = {}
    pulled: dict[tuple[str, MessageQueue, str], float] = {}
    # A pull may commit, and is noted after that.
    by_pull = {(event.group, event.queue, event.by, event.at) for event in history.events if isinstance(event, Pulled)}
    for event in history.events:
        if isinstance(event, Restarted):
            kept = {place: last for place, last in kept.items() if place[1].broker_name != event.broker}
        elif isinstance(event, Reset):
            wanted[event.group, event.queue] = event.offset
            kept.pop((event.group, event.queue), None)
        elif isinstance(event, Pulled):
            pulled[event.group, event.queue, event.by] = event.at
        elif isinstance(event, Began):
            place = event.call.group, event.call.queue
            if wanted.get(place) == event.call.offsets[0]:
                del wanted[place]
        elif isinstance(event, Committed):
            place = event.group, event.queue
            if event.queue.broker_name in history.lost_tails:
                continue
            since = event.at - pulled.get((*place, event.by), -_PULL_LIFE_S)
            is_reader = since <= _PULL_LIFE_S or (*place, event.by, event.at) in by_pull
            if place in wanted:     # until the reset has arrived, earlier commits may come first
                if event.offset == wanted[place] and is_reader:
                    del wanted[place]
                    kept[place] = event
                continue
            last = kept.get(place)
            kept[place] = event
            # Unsynced messages of a broker may be consumed and then lost: an offset beyond the end is moved back.
            if last is None or last.offset > last.end or event.offset >= last.offset:
                continue
            if event.by == last.by or not is_reader:
                yield (f"at {event.at:.3f} {event.by} took the offset of {event.group} in {_place(event.queue)} from "
                       f"{last.offset}, of {last.by}, back to {event.offset}"
                       f"{'' if is_reader else ', and does not even read there'}")


def offsets_wait_for_what_they_cover(history: History) -> Iterator[str]:
    """No offset is committed before all earlier messages were given to a listener and ended."""
    ended: defaultdict[tuple[str, MessageQueue], set[int]] = defaultdict(set)
    behind: dict[tuple[str, MessageQueue], int] = {}
    running: dict[int, Call] = {}
    for each in history.stored:
        for group in history.groups.values():
            if each.is_spoiled or not group.wants(each.key):
                ended[group.name, each.queue].add(each.queue_offset)
    for event in history.events:
        if isinstance(event, Began):
            running[id(event.call)] = event.call
        elif isinstance(event, Ended):
            running.pop(id(event.call), None)
            facts = history.groups[event.call.group]
            # A call that took too long was sent back.
            if event.call.ending in (Ending.DONE, Ending.FAILED) or _took_too_long(event.call, facts):
                ended[event.call.group, event.call.queue].update(event.call.offsets)
        elif isinstance(event, Reset):
            place = event.group, event.queue
            behind[place] = max(event.offset, behind.get(place, 0))
        elif isinstance(event, Committed):
            place = event.group, event.queue
            committing = history.groups.get(event.group)
            if committing is None or committing.pops or event.queue.broker_name in history.lost_tails:
                continue
            for call in running.values():
                if call.group == event.group and call.queue == event.queue \
                        and event.at - call.begin_s > committing.consume_timeout_s:
                    ended[place].update(call.offsets)
            first = behind.get(place, 0)
            while first in ended[place]:
                first += 1
            behind[place] = first
            if event.offset > first:
                yield (f"at {event.at:.3f} {event.by} committed {event.offset} for {event.group} in "
                       f"{_place(event.queue)}, and {first} was not consumed")
                behind[place] = event.offset


# --- transactions ----------------------------------------------------------------------------------------------------


def transactions_end_once(history: History) -> Iterator[str]:
    """Committed messages are in the log once, rolled back ones are not."""
    copies: defaultdict[tuple[str, str], int] = defaultdict(int)
    for each in history.stored:
        copies[each.queue.topic, each.key] += 1
    for sent in history.sent.values():
        count = copies[sent.topic, sent.key]
        if sent.fate is Fate.ROLLBACK and count:
            yield f"{sent.key} was rolled back, and is in the log"
        elif sent.fate is Fate.COMMIT and count > 1:
            yield f"{sent.key} was committed once, and is in the log {count} times"
        elif sent.fate is Fate.COMMIT and not count and sent.outcome is SendOutcome.STORED and not sent.is_excused:
            yield f"{sent.key} was committed, and is not in the log"


# --- copies ----------------------------------------------------------------------------------------------------------


def copies_are_copies(history: History) -> Iterator[str]:
    """A slave's log equals its master's, or one of them reports that it does not; and it gets the rest."""
    yield from history.unlike


# --- what a story promises -------------------------------------------------------------------------------------------


def nothing_is_missed(history: History) -> Iterator[str]:
    """If a story promises it, no send and no start fails."""
    if history.promises.no_misses:
        yield from history.misses


def deliveries_are_prompt(history: History) -> Iterator[str]:
    """If a story promises it, no message waits longer than that for its first call."""
    limit_s = history.promises.delivery_max_s
    if not limit_s:
        return
    away = {event.broker for event in history.events if isinstance(event, Restarted)}
    for group in history.groups.values():
        first: dict[str, float] = {}
        for call in history.calls:
            if call.group == group.name:
                for key in call.keys:
                    first.setdefault(key, call.begin_s)
        ready_s = max([at for (name, _), at in history.joined.items() if name == group.name], default=0.0)
        for sent in history.sent.values():
            waited_s = first.get(sent.key, -1.0) - max(sent.stored_s, ready_s)
            if sent.outcome is SendOutcome.STORED and sent.topic in group.topics and waited_s > limit_s \
                    and sent.queue is not None and sent.queue.broker_name not in away:
                yield f"{sent.key} waited {waited_s:.3f} s in {_place(sent.queue)} for {group.name}"


CHECKS: Sequence[Check] = (
    nothing_acknowledged_is_lost, everything_is_consumed, nothing_unwanted_is_consumed, orderly_queues_keep_their_order,
    orderly_queues_have_one_call, suspended_queues_rest, retries_are_counted, dead_letters_are_dead,
    offsets_do_not_go_back, offsets_wait_for_what_they_cover, transactions_end_once,
    timers_keep_their_time, timers_come_once, copies_are_copies, nothing_is_missed, deliveries_are_prompt,
    *POP_CHECKS)


def findings(history: History) -> list[str]:
    """Everything that is wrong, by the name of its check."""
    found = [f"unhandled: {text}" for text in history.faults]
    if history.broke_off:
        return [history.broke_off, *found]
    for check in CHECKS:
        found += [f"{check.__name__}: {text}" for text in check(history)]
    return found


def unconsumed(history: History) -> bool:
    """Whether there is still something to wait for."""
    return any(True for _ in everything_is_consumed(history)) or any(True for _ in dead_letters_are_dead(history)) \
        or any(True for _ in transactions_end_once(history)) or timed_messages_missing(history)


def _some(items: Sequence[object]) -> str:
    shown = ", ".join(map(str, items[:5]))
    return shown if len(items) <= 5 else f"{shown} and {len(items) - 5} more"




def _place(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
