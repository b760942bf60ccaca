"""Offsets of queues as JSON. Each number is the queue offset to read next.

The canonical form is sorted and without spaces, so that equal offsets are equal texts:

    {"v":1,"topics":{"orders":{"epoch":{"broker-a":17},"queues":{"broker-a":{"0":23,"1":190}}}}}

`epoch` says which topic of that name a broker has, when it was deleted and made again. Offsets of streams also have
"last":{"broker-a":{"0":[1795293330479,"7F00..."]}} there, store time and id of the message before, and, of queues that
the batch before reads, "bytes":{"broker-a":{"0":812}}, those of a message on average, and of queues that lost their
end, "lost":{"broker-a":{"0":60}}, the offset up to which that was reported. Users may leave all of it out,
and may also write {"orders":{"broker-a":{"0":23}}} or, if one broker has the topic, {"orders":{"0":23}}. -1 stands for
the latest and -2 for the earliest offset of the queue, -3 for that of the consumer group.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.kafka_partitions import queue_of
from regulus.spark.marks import Mark
from regulus.spark.option_values import json_object, milliseconds
from regulus.spark.selection import ANY_BROKER, queue_text

QueueOffsets: TypeAlias = dict[MessageQueue, int]
"""Offsets by queue. A broker that the user left out is ANY_BROKER until `at_brokers` fills it in."""

Epochs: TypeAlias = Mapping[tuple[str, str], int]
"""Epochs by topic and broker name."""

LATEST = -1
EARLIEST = -2
GROUP_OFFSET = -3

_EXAMPLE = 'write {"topic":{"broker-a":{"0":23}}}'


def offsets_object(offsets: Mapping[MessageQueue, int], epochs: Epochs,
                   marks: Mapping[MessageQueue, Mark] | None = None,
                   sizes: Mapping[MessageQueue, int] | None = None,
                   lost: Mapping[MessageQueue, int] | None = None) -> dict[str, Any]:
    """The canonical form as an object with sorted keys."""
    topics: dict[str, Any] = {}
    for queue, offset in sorted(offsets.items()):
        entry = topics.setdefault(queue.topic, {"epoch": {}, "queues": {}})
        entry["epoch"][queue.broker_name] = epochs.get((queue.topic, queue.broker_name), 0)
        entry["queues"].setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    for queue, mark in sorted((marks or {}).items()):
        of_brokers = topics[queue.topic].setdefault("last", {})
        of_brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = list(mark)
    for name, numbers in (("bytes", sizes), ("lost", lost)):
        for queue, number in sorted((numbers or {}).items()):
            of_brokers = topics[queue.topic].setdefault(name, {})
            of_brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = number
    return {"v": 1, "topics": topics}


def parse_offsets(text: str, option: str) -> QueueOffsets:
    """Raises OptionError that names the option and what is wrong."""
    return _parse(text, option, GROUP_OFFSET)


def parse_times(text: str, option: str) -> QueueOffsets:
    """Parse times: like offsets, but with ms since 1970 for each queue."""
    return {queue: milliseconds(time, option) for queue, time in _parse(text, option, 0).items()}


def parse_epochs(text: str, option: str) -> dict[tuple[str, str], int]:
    """The epochs of offsets in the canonical form, by topic and broker; empty if there are none."""
    topics = json_object(text, option, _EXAMPLE).get("topics")
    epochs = {}
    for topic, value in (topics.items() if isinstance(topics, dict) else ()):
        of_brokers = value.get("epoch") if isinstance(value, dict) else None
        for broker_name, epoch in (of_brokers.items() if isinstance(of_brokers, dict) else ()):
            if type(epoch) is int:
                epochs[topic, broker_name] = epoch
    return epochs


def parse_marks(text: str, option: str) -> dict[MessageQueue, Mark]:
    """The marks of the messages before the offsets, in the canonical form; empty if absent. Raises OptionError."""
    topics = json_object(text, option, _EXAMPLE).get("topics")
    marks = {}
    for topic, value in (topics.items() if isinstance(topics, dict) else ()):
        of_brokers = value.get("last") if isinstance(value, dict) else None
        for broker_name, queues in (of_brokers.items() if isinstance(of_brokers, dict) else ()):
            try:
                for queue_id, (store_time, message_id) in queues.items():
                    marks[MessageQueue(topic, broker_name, int(queue_id))] = Mark(int(store_time), str(message_id))
            except (AttributeError, TypeError, ValueError) as error:
                raise OptionError(f"{option!r} has {queues!r} as what was read last of topic {topic!r}, not store time "
                                  "and id of each queue") from error
    return marks


def parse_sizes(text: str, option: str) -> dict[MessageQueue, int]:
    """The bytes of a message by queue, in the canonical form; empty if absent. Raises OptionError."""
    return _parse_numbers(text, option, "bytes", "the bytes of a message")


def parse_lost(text: str, option: str) -> dict[MessageQueue, int]:
    """The offsets up to which lost ends were reported, in the canonical form; empty if absent. Raises OptionError."""
    return _parse_numbers(text, option, "lost", "what was reported as lost")


def _parse_numbers(text: str, option: str, name: str, what: str) -> dict[MessageQueue, int]:
    """The numbers above 0 of each queue under that name."""
    topics = json_object(text, option, _EXAMPLE).get("topics")
    found = {}
    for topic, value in (topics.items() if isinstance(topics, dict) else ()):
        of_brokers = value.get(name) if isinstance(value, dict) else None
        for broker_name, queues in (of_brokers.items() if isinstance(of_brokers, dict) else ()):
            for queue_id, number in (queues.items() if isinstance(queues, dict) else [("", queues)]):
                if not (queue_id.isdecimal() and queue_id.isascii()) or type(number) is not int or number < 1:
                    raise OptionError(f"{option!r} has {queues!r} as {what} of topic {topic!r}, not a number above 0 "
                                      "of each queue")
                found[MessageQueue(topic, broker_name, int(queue_id))] = number
    return found


def _parse(text: str, option: str, lowest: int) -> QueueOffsets:
    given = json_object(text, option, _EXAMPLE)
    topics = given["topics"] if given.get("v") == 1 and isinstance(given.get("topics"), dict) else given
    offsets: QueueOffsets = {}
    for topic, value in topics.items():
        for broker_name, queues in _brokers_of(value, option, topic).items():
            for queue_id, offset in queues.items():
                if not (queue_id.isdecimal() and queue_id.isascii()) or type(offset) is not int or offset < lowest:
                    raise OptionError(f"option {option!r} has {queue_id!r}: {offset!r} for topic {topic!r}: {_EXAMPLE}")
                offsets[MessageQueue(topic, broker_name, int(queue_id))] = offset
    return offsets


def _brokers_of(value: Any, option: str, topic: str) -> dict[str, dict[str, Any]]:
    """Offsets by broker name and queue id, from any of the three forms."""
    if isinstance(value, dict) and isinstance(value.get("queues"), dict):
        value = value["queues"]
    if not isinstance(value, dict):
        raise OptionError(f"option {option!r} has {value!r} for topic {topic!r}, not an object of queues")
    if not any(isinstance(item, dict) for item in value.values()):
        return {ANY_BROKER: value}
    for item in value.values():
        if not isinstance(item, dict):
            raise OptionError(f"option {option!r} has {item!r} for topic {topic!r}, not an object of queues")
    return value


def at_brokers(offsets: QueueOffsets, queues: Collection[MessageQueue], option: str, *,
               by_partition: bool) -> QueueOffsets:
    """Fill in the brokers that the user left out; without a broker, a number may be that of a partition. Raises
    OptionError if several brokers have the topic."""
    brokers: dict[str, set[str]] = {}
    for queue in queues:
        brokers.setdefault(queue.topic, set()).add(queue.broker_name)
    placed: QueueOffsets = {}
    for queue, offset in offsets.items():
        if by_partition:
            queue = queue_of(queue, queues)
        there = sorted(brokers.get(queue.topic, ()))
        if queue.broker_name == ANY_BROKER and len(there) > 1:
            raise OptionError(f"option {option!r} does not say the broker of {queue_text(queue)}: "
                              f"{' and '.join(there)} have the topic; {_EXAMPLE}")
        if queue.broker_name == ANY_BROKER and there:
            queue = queue._replace(broker_name=there[0])
        placed[queue] = offset
    return placed


def check_queues(offsets: QueueOffsets, queues: Iterable[MessageQueue], option: str) -> None:
    """Raises OptionError that lists both sets when the user's queues are not exactly those that are read."""
    expected = set(queues)
    given = set(offsets)
    if given != expected:
        missing = ", ".join(map(queue_text, sorted(expected - given))) or "none"
        unknown = ", ".join(map(queue_text, sorted(given - expected))) or "none"
        raise OptionError(f"option {option!r} must name the queues that are read: missing {missing}; unknown {unknown}")
