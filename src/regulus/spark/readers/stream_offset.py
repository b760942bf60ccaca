"""The offset of a stream, as it is in a query's checkpoint."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.marks import Mark
from regulus.spark.offsets import (
    QueueOffsets,
    offsets_object,
    parse_epochs,
    parse_lost,
    parse_marks,
    parse_offsets,
    parse_sizes,
)
from regulus.spark.read_bounds import Sizes
from regulus.spark.selection import TopicSelection

CHECKPOINT = "the checkpoint's offset"


class StreamOffset:
    """The next position of each queue, the epoch of its topic at each broker, and the mark of the last message read.

    `marks` has no entry for a queue of which nothing was read.
    `sizes`: bytes of a message, on average, of each queue that the batch which ends here reads. They decide how the
    batch is divided among tasks.
    `lost`: of queues that lost their end, the offset up to which that has been reported as a gap.
    `is_initial`: this is where the query starts. `began`: where the first batch begins, in the offset of its end.
    """

    def __init__(self, positions: QueueOffsets, epochs: Mapping[tuple[str, str], int],
                 marks: Mapping[MessageQueue, Mark] | None = None, *, is_initial: bool = False,
                 began: "StreamOffset | None" = None, sizes: Sizes | None = None,
                 lost: Mapping[MessageQueue, int] | None = None) -> None:
        self.positions = positions
        self.epochs = dict(epochs)
        self.marks = dict(marks or {})
        self.sizes = dict(sizes or {})
        self.lost = dict(lost or {})
        self.is_initial = is_initial
        self.began = began

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> "StreamOffset":
        """Raises OptionError for what is not an offset of this source."""
        text = json.dumps(value)
        if value.get("v") != 1 or "topics" not in value:
            raise OptionError(f"{CHECKPOINT} {text[:200]} is not one of this source: give the query a "
                              "checkpointLocation of its own")
        began = value.get("began")
        return cls(parse_offsets(text, CHECKPOINT), parse_epochs(text, CHECKPOINT), parse_marks(text, CHECKPOINT),
                   is_initial=value.get("initial") is True, began=None if began is None else cls.parse(began),
                   sizes=parse_sizes(text, CHECKPOINT), lost=parse_lost(text, CHECKPOINT))

    def object(self) -> dict[str, Any]:
        written = self._own_object()
        if self.is_initial:
            written["initial"] = True
        if self.began is not None:
            written["began"] = self.began._own_object()
        return written

    def _own_object(self) -> dict[str, Any]:
        return offsets_object(self.positions, self.epochs, self.marks, self.sizes, self.lost)

    def epoch(self, queue: MessageQueue) -> int:
        return self.epochs.get((queue.topic, queue.broker_name), 0)


def check_is_ours(offset: StreamOffset, selection: TopicSelection, there: Collection[MessageQueue]) -> None:
    """Raises OptionError when the offset is of other topics than the selected ones, or of other brokers."""
    topics = {queue.topic for queue in there}
    strange = sorted({queue.topic for queue in offset.positions} - topics)
    strange = [topic for topic in strange if not selection.names(topic)]
    if strange:
        raise OptionError(f"{CHECKPOINT} is of topic {', '.join(map(repr, strange))}, which this query does not read "
                          f"(it reads {', '.join(sorted(topics)) or 'none'}): give the query a checkpointLocation of "
                          "its own, or read that topic too")
    for topic in {queue.topic for queue in offset.positions}:
        mine = sorted({queue.broker_name for queue in offset.positions if queue.topic == topic})
        found = sorted({queue.broker_name for queue in there if queue.topic == topic})
        if found and not set(mine) & set(found):
            raise OptionError(f"{CHECKPOINT} has topic {topic!r} on broker {', '.join(mine)}, and here it is on "
                              f"{', '.join(found)}: it is the checkpoint of another cluster; give the query a "
                              "checkpointLocation of its own")
