"""Checks the promises of a broker to consumers that pop.

A broker that is killed forgets acknowledgements of its last second, and may have duplicates of messages that it was
reviving or giving another time. A message whose broker was killed before may therefore be delivered more often than
these checks allow, and is not checked. For each message as many extra deliveries are allowed as the story says.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from regulus.model.message_queue import MessageQueue
from regulus.testing.simulation.history import Began, Call, Ended, GroupFacts, History, Killed

_CLOCK_STEP_S = 0.002


def popped_messages_are_one_consumers(history: History) -> Iterator[str]:
    """No message is delivered to another consumer before its invisible time is over."""
    return _beyond_what_may_come_again(history, lambda calls, key: [
        f"at {call.begin_s:.3f} {call.member} got {key}, which was {before.member}'s until {before.own_until_s:.3f}"
        for before, call in pairwise(calls)
        if call.begin_s < before.own_until_s - _CLOCK_STEP_S and before.acked_s < 0])


def acknowledged_messages_stay_away(history: History) -> Iterator[str]:
    """A message that the broker confirmed as done is not delivered again."""
    return _beyond_what_may_come_again(history, lambda calls, key: [
        f"at {call.begin_s:.3f} {call.member} got {key}, acknowledged by {before.member} at {before.acked_s:.3f}"
        for before, call in pairwise(calls) if call.begin_s > before.acked_s >= 0])


def deliveries_are_counted(history: History) -> Iterator[str]:
    """Each delivery of a message states a higher number than the one before it; if no answer is lost, the exact
    number."""
    yield from _beyond_what_may_come_again(history, lambda calls, key: [
        f"at {call.begin_s:.3f} {call.member} got {key} with {call.tries} tries, after {before.tries}"
        for before, call in pairwise(calls) if call.tries <= before.tries])
    if history.promises.exact_counts:
        for calls, key in _messages(history):
            tries = [call.tries for call in calls]
            if tries != list(range(len(calls))):
                yield f"{key} was delivered with {tries} tries"


def popped_queues_keep_their_order(history: History) -> Iterator[str]:
    """In a queue that is popped in order, no message is delivered before all earlier ones are done."""
    for group in _popping(history):
        if not group.orderly:
            continue
        done: defaultdict[MessageQueue, set[int]] = defaultdict(set)
        for event in history.events:
            if not isinstance(event, Began | Ended) or event.call.group != group.name:
                continue
            call = event.call
            if isinstance(event, Ended):
                if call.ending == "done":
                    done[call.queue].update(call.offsets)
                continue
            ahead = [offset for offset in range(call.offsets[0]) if offset not in done[call.queue]]
            if ahead:
                yield f"at {event.at:.3f} {call.member} got {call} before {ahead[:5]} in front of it were done"


POP_CHECKS = (popped_messages_are_one_consumers, acknowledged_messages_stay_away, deliveries_are_counted,
              popped_queues_keep_their_order)


def _popping(history: History) -> list[GroupFacts]:
    return [group for group in history.groups.values() if group.pops]


def _beyond_what_may_come_again(history: History, faults: Callable[[list[Call], str], list[str]]) -> Iterator[str]:
    for calls, key in _messages(history):
        yield from faults(calls, key)[history.promises.popped_again:]


def _messages(history: History) -> Iterator[tuple[list[Call], str]]:
    """The deliveries to a group, and the key, of each message that was stored once and whose broker was not killed
    before the last delivery.

    Another copy is another message.
    """
    copies = Counter((each.key, each.queue.topic) for each in history.stored)
    killed: dict[str, float] = {}
    for event in history.events:
        if isinstance(event, Killed):
            killed.setdefault(event.broker, event.at)
    for group in _popping(history):
        calls: defaultdict[str, list[Call]] = defaultdict(list)
        for call in history.calls:
            if call.group == group.name and call.begin_s < killed.get(call.queue.broker_name, call.begin_s + 1):
                calls[call.keys[0]].append(call)
        for key, of_key in calls.items():
            if copies[key, history.sent[key].topic] == 1:
                yield of_key, key
