"""The queue offsets of records from which queues are rebuilt.

No checksum covers the queue offset of a record, nor its topic and queue id. Its neighbours show what it was: the
offsets of a queue increase by one in the order of the log. A record that does not follow is therefore held until the
next records of its queue are known:

    they leave just the room for it     it goes there, whatever it says: a pull refuses it and names it
    the next one follows it             both are accepted: records before them are lost, or the topic was made again
    they leave no room for it           it is left out, because it is of another queue, or a duplicate

Each case except a topic that was made again is reported. Records from before a queue was last deleted do not belong to
it. If the log was cut at its beginning, the first record is not known. Two records must agree on it: the first one and
a later one, or two consecutive ones after a single one, which is then placed just before them, unless its offset says
that one is missing between.
"""

from collections.abc import Callable, Iterator, Mapping

from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.record.dispatch_request import DispatchRequest

HELD_MAX = 16
"""Records of one queue that are held until a later record decides where they go."""
TOLD_MAX = 20
"""Sentences that are kept; of more, only the number is reported."""

_UNKNOWN = -1 << 64     # no record can have this offset
_NEVER = 0x7FFFFFFFFFFFFFFF


class Numbering:
    """Numbers the records of queues. Raises StoreNotWritable.

    `known_ends` has the queues, each with the offset at which it is known to have ended, 0 for unknown. `known_at` is
    the end of the log when that was known: later records are younger than these ends, and a single one of them may
    begin a topic that was made again. `births`: the ends of the log when queues of these names were deleted; records
    before them are of other queues. `put` gets the records in order.
    """

    def __init__(self, known_ends: Mapping[tuple[str, int], int], births: Mapping[tuple[str, int], int], *,
                 known_at: int, log_start: int, put: Callable[[DispatchRequest], object]) -> None:
        self._queues = {name: _QueueNumbering(known_end, known_at, births.get(name, 0), log_start, put)
                        for name, known_end in known_ends.items()}

    def take(self, request: DispatchRequest) -> None:
        """Take the next record of the log, of any queue. Raises StoreNotWritable."""
        if request.sys_flag & TRANSACTION_MASK in (TRANSACTION_NOT, TRANSACTION_COMMIT):
            queue = self._queues.get((request.topic, request.queue_id))
            if queue is not None and request.physical_offset >= queue.birth:
                queue.take(request)

    def end(self) -> None:
        """Finish: there are no more records. Raises StoreNotWritable."""
        for queue in self._queues.values():
            queue.end()

    def is_begun_anew(self, name: tuple[str, int]) -> bool:
        """Whether the topic was made again within the log, so that its known end may be of the old one."""
        return self._queues[name].is_begun_anew

    @property
    def held_from(self) -> int:
        """The offset of the first record that was taken and is not put yet; beyond the end of any log when there is
        none."""
        return min((request.physical_offset for queue in self._queues.values() for request in queue.held),
                   default=_NEVER)

    def sentences(self) -> Iterator[str]:
        """The reports of records that did not follow."""
        count = 0
        for (topic, queue_id), queue in self._queues.items():
            for sentence in queue.told[:max(TOLD_MAX - count, 0)]:
                yield f"queue {queue_id} of {topic}: {sentence}"
            count += queue.told_count
        if count > TOLD_MAX:
            yield f"{count - TOLD_MAX} more places where queues that were built anew do not follow the log"


class _QueueNumbering:
    def __init__(self, known_end: int, known_at: int, birth: int, log_start: int,
                 put: Callable[[DispatchRequest], object]) -> None:
        self.birth = birth
        self.held: list[DispatchRequest] = []
        self.told: list[str] = []
        self.told_count = 0
        self.is_begun_anew = False
        self._known_end = known_end
        self._known_at = known_at
        self._next = 0 if birth >= log_start else _UNKNOWN
        self._put = put

    def take(self, request: DispatchRequest) -> None:
        if self.held:
            self._settle(request.queue_offset)
        if not self.held and request.queue_offset == self._next:
            self._place(request)
            return
        if len(self.held) == HELD_MAX:
            self._leave_out(self.held.pop(0))
        self.held.append(request)

    def end(self) -> None:
        """Finish one queue. Its known end counts like a record that follows. Records that are still unconfirmed are
        accepted, unless the queue would then begin again after it had more than that."""
        if self.held and self._known_end != self._next:
            self._settle(self._known_end)
        # A record whose offset says that it is the last but one may well be it: its own number is as likely to be
        # damaged as the position of the last one.
        is_last_missing = len(self.held) == 1 and _behind(self.held[0]) == self._known_end - 1
        if self.held and self._next == _UNKNOWN and not is_last_missing \
                and all(each.queue_offset < self._known_end for each in self.held):
            self._derive_all(self._known_end - _count(self.held))
        while self.held:
            if self.held[0].queue_offset == 0 and self._known_end > 1 and not self._is_younger(self.held[0]):
                self._leave_out(self.held.pop(0))
            else:
                self._believe()
        if self._next < self._known_end and self._next != _UNKNOWN and not self.is_begun_anew:
            self._tell_gap(self._known_end)

    def _is_younger(self, request: DispatchRequest) -> bool:
        """Whether it came after all messages that the queue is known to have had."""
        return request.physical_offset >= self._known_at and self._next >= self._known_end

    def _settle(self, following: int) -> None:
        """Decide about the held records, given the offset that follows them."""
        if self._next == _UNKNOWN:
            self._begin(following)
        elif following == self._next + _count(self.held):
            self._derive_all(self._next)
        elif following == _behind(self.held[len(self.held) - 1]):
            self._leave_out_but(1)
            self._believe()
        elif following == self._next:
            self._leave_out_but(0)

    def _begin(self, following: int) -> None:
        """Decide about the held records of a queue whose first offset is unknown."""
        begun, last = self.held[0].queue_offset, self.held[len(self.held) - 1].queue_offset
        begun_end, last_end = _behind(self.held[0]), _behind(self.held[len(self.held) - 1])
        first = following - _count(self.held)
        if begun == first:
            self._derive_all(first)
        elif following == begun_end != last_end:
            self._believe()
            self._leave_out_but(0)
        elif following == last_end:
            if last == begun_end + 1:   # one is missing between them
                self._believe()
            elif len(self.held) == 2 and first >= 0:
                self._derive_all(first)
                return
            self._leave_out_but(1)
            self._believe()

    def _derive_all(self, first: int) -> None:
        self._next = first
        while self.held:
            self._derive()

    def _leave_out_but(self, count: int) -> None:
        while len(self.held) > count:
            self._leave_out(self.held.pop(0))

    # Each is put before it is removed here: on a full disk nothing is forgotten.

    def _derive(self) -> None:
        request = self.held[0]
        said, request.queue_offset = request.queue_offset, self._next
        self._place(request)
        self.held.pop(0)
        if said != request.queue_offset:
            self._tell(f"the record at {request.physical_offset} of the log is damaged, for it says that it is message "
                       f"{said} and lies where {request.queue_offset} does; it is refused to whoever asks for it")

    def _believe(self) -> None:
        request = self.held[0]
        if self._next != _UNKNOWN and request.queue_offset > self._next:
            self._tell_gap(request.queue_offset)
        elif request.queue_offset == 0 < self._next:
            self.is_begun_anew = True
        elif 0 < request.queue_offset < self._next:
            self._tell(f"the record at {request.physical_offset} of the log says that it is message "
                       f"{request.queue_offset}, which came before; those from it on are left out up to "
                       f"{self._next - 1}")
        self._place(request)
        self.held.pop(0)

    def _place(self, request: DispatchRequest) -> None:
        self._put(request)
        self._next = _behind(request)

    def _leave_out(self, request: DispatchRequest) -> None:
        self._tell(f"the record at {request.physical_offset} of the log says that it is message "
                   f"{request.queue_offset}, and those before and behind it have no room for that; it is left out")

    def _tell_gap(self, behind: int) -> None:
        self._tell(f"the log has no record of messages {self._next} to {behind - 1}; they are passed over")

    def _tell(self, sentence: str) -> None:
        self.told_count += 1
        if len(self.told) < TOLD_MAX:
            self.told.append(sentence)


def _behind(request: DispatchRequest) -> int:
    """The offset of the message after those in the record."""
    return request.queue_offset + request.message_count


def _count(held: list[DispatchRequest]) -> int:
    return sum([request.message_count for request in held])
