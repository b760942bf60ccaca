"""Offsets of queues as JSON. A number is the queue offset to read next.

The canonical form, sorted and without spaces, so that equal offsets are equal texts:

    {"v":1,"topics":{"orders":{"queues":{"broker-a":{"0":23,"1":190}}}}}

Users may also write {"orders":{"broker-a":{"0":23}}} and, as a store has one broker, {"orders":{"0":23}}. -2 stands for
the earliest and -1 for the latest offset of the queue.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from regulus.errors import DataLoss, OptionError

Queue: TypeAlias = tuple[str, int]
"""Topic and queue id."""

QueueOffsets: TypeAlias = dict[Queue, int]

LATEST = -1
EARLIEST = -2
GROUP_OFFSET = -3


def format_offsets(offsets: Mapping[Queue, int], broker_name: str) -> str:
    topics: dict[str, Any] = {}
    for (topic, queue_id), offset in sorted(offsets.items()):
        queues = topics.setdefault(topic, {"queues": {broker_name: {}}})["queues"][broker_name]
        queues[str(queue_id)] = offset
    return json.dumps({"v": 1, "topics": topics}, separators=(",", ":"), ensure_ascii=False)


def parse_offsets(text: str, option: str, broker_name: str) -> QueueOffsets:
    """Raises OptionError that names the option and what is wrong."""
    example = f'write {{"topic":{{"{broker_name}":{{"0":23}}}}}}'
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(f"option {option!r} is no JSON ({error}): {example}") from error
    if not isinstance(given, dict):
        raise OptionError(f"option {option!r} is no JSON object: {example}")
    topics = given["topics"] if given.get("v") == 1 and isinstance(given.get("topics"), dict) else given
    offsets: QueueOffsets = {}
    for topic, value in topics.items():
        for queue_text, offset in _queues_of(value, option, topic, broker_name).items():
            if not queue_text.isdecimal() or type(offset) is not int or offset < GROUP_OFFSET:
                raise OptionError(f"option {option!r} has {queue_text!r}: {offset!r} for topic {topic!r}: {example}")
            offsets[topic, int(queue_text)] = offset
    return offsets


def _queues_of(value: Any, option: str, topic: str, broker_name: str) -> dict[str, Any]:
    """Queue ids to offsets, of any of the three forms."""
    if isinstance(value, dict) and isinstance(value.get("queues"), dict):
        value = value["queues"]
    if not isinstance(value, dict):
        raise OptionError(f"option {option!r} has {value!r} for topic {topic!r}, not an object of queues")
    if not any(isinstance(item, dict) for item in value.values()):
        return value
    strange = sorted(set(value) - {broker_name})
    if strange:
        raise OptionError(f"option {option!r} names broker {strange[0]!r}, this store is that of {broker_name!r} "
                          "(option 'brokerName')")
    queues = value[broker_name]
    if not isinstance(queues, dict):
        raise OptionError(f"option {option!r} has {queues!r} for topic {topic!r}, not an object of queues")
    return queues


def check_queues(offsets: QueueOffsets, queues: Iterable[Queue], option: str) -> None:
    """Raises OptionError that lists both sets when the user's queues are not exactly those that are read."""
    expected = set(queues)
    given = set(offsets)
    if given != expected:
        missing = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in sorted(expected - given)) or "none"
        unknown = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in sorted(given - expected)) or "none"
        raise OptionError(f"option {option!r} must name the queues that are read: missing {missing}; unknown {unknown}")


def resolve_start(offset: int, low: int, high: int, queue: Queue, fail_on_data_loss: bool) -> int:
    """Where to begin, of a queue that holds [low, high). Raises DataLoss when the wanted messages are gone."""
    topic, queue_id = queue
    if offset == EARLIEST:
        return low
    if offset == LATEST:
        raise OptionError(f"startingOffsets of a batch read cannot be -1 (latest), as it is for {topic}/{queue_id}")
    if offset == GROUP_OFFSET:
        raise OptionError(f"startingOffsets is -3 (the group's offset) for {topic}/{queue_id}; a store's files are "
                          "read without a group")
    if offset < low and fail_on_data_loss:
        raise DataLoss(f"{topic}/{queue_id}: messages {offset} to {low - 1} are no longer in the store, its first is "
                       f"{low}; set failOnDataLoss to false to read from there")
    if offset > high and fail_on_data_loss:
        raise DataLoss(f"{topic}/{queue_id}: start {offset} lies beyond the queue's end {high}: was the topic created "
                       "anew?")
    return min(max(offset, low), high)


def resolve_end(offset: int, low: int, high: int, queue: Queue, fail_on_data_loss: bool) -> int:
    """Where to end, of a queue that holds [low, high). Raises DataLoss when the queue does not reach so far."""
    topic, queue_id = queue
    if offset == LATEST:
        return high
    if offset < 0:
        raise OptionError(f"endingOffsets cannot be {offset}, as it is for {topic}/{queue_id}: write an offset or -1, "
                          "the latest")
    if offset > high and fail_on_data_loss:
        raise DataLoss(f"{topic}/{queue_id}: end {offset} lies beyond the queue's end {high}; set failOnDataLoss to "
                       "false to read what is there")
    return min(max(offset, low), high)
