"""The queue offsets of records from which queues are built anew.

No checksum covers the queue offset of a record, nor its topic and queue id. Its neighbours say what it was: those of a
queue rise by one in the order of the log. So a record that does not follow is held until the next ones of its queue
came:

    they leave just the room for it     it goes there, whatever it says: a pull refuses it and names it
    the next one follows it             both are believed: records before them are lost, or the topic was made anew
    they leave no room for it           it is left out, for it is of another queue, or came twice

All but a topic that was made anew is told. Records from before a queue was last deleted are none of its own. Where the
log was cut at its beginning nobody knows which record is the first. Two must agree on that: the first with one that
comes later, or two that follow each other behind a single one, which then lies just before them, unless it says that
one is missing between.
"""

from collections.abc import Callable, Iterator, Mapping

from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.record.dispatch_request import DispatchRequest

HELD_MAX = 16
"""Records of one queue that wait for one that says where they go."""
TOLD_MAX = 20
"""So many sentences are kept; of more, the count is told."""

_UNKNOWN = -1 << 64     # no record can say that
_NEVER = 0x7FFFFFFFFFFFFFFF


class Numbering:
    """Of the queues in `known_ends`, each with the offset at which it is known to have ended, 0 for unknown. `known_at`
    is where the log ended when that was known: what lies behind is younger than the ends, and a single record there may
    begin a topic that was made anew. `births`: where the log ended when queues of such names were deleted; what lies
    before is of other ones. `put` gets the records in their order, and raises StoreNotWritable."""

    def __init__(self, known_ends: Mapping[tuple[str, int], int], births: Mapping[tuple[str, int], int], *,
                 known_at: int, log_start: int, put: Callable[[DispatchRequest], object]) -> None:
        self._queues = {name: _QueueNumbering(known_end, known_at, births.get(name, 0), log_start, put)
                        for name, known_end in known_ends.items()}

    def take(self, request: DispatchRequest) -> None:
        """The next record of the log, of whatever queue. Raises StoreNotWritable."""
        if request.sys_flag & TRANSACTION_MASK in (TRANSACTION_NOT, TRANSACTION_COMMIT):
            queue = self._queues.get((request.topic, request.queue_id))
            if queue is not None and request.physical_offset >= queue.birth:
                queue.take(request)

    def end(self) -> None:
        """There are no more. Raises StoreNotWritable."""
        for queue in self._queues.values():
            queue.end()

    def is_begun_anew(self, name: tuple[str, int]) -> bool:
        """Whether the topic was made anew within the log, so that the end that was known may be of the old one."""
        return self._queues[name].is_begun_anew

    @property
    def held_from(self) -> int:
        """Where the first record begins that was taken and is not put yet; far beyond any log when there is none."""
        return min((request.physical_offset for queue in self._queues.values() for request in queue.held),
                   default=_NEVER)

    def sentences(self) -> Iterator[str]:
        """What did not follow."""
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
        """Where the queue is known to have ended is as good as a record that follows. What is still not confirmed then
        is believed, unless it would have the queue begin anew after it had more than that."""
        if self.held and self._known_end != self._next:
            self._settle(self._known_end)
        # One that says to be the last but one may well be it: as likely as its number, the last one's place has rotted.
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
        """What an offset behind the records that are held says of them."""
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
        """The same where nobody knows at which offset the queue begins."""
        begun, last = self.held[0].queue_offset, self.held[len(self.held) - 1].queue_offset
        begun_end, last_end = _behind(self.held[0]), _behind(self.held[len(self.held) - 1])
        first = following - _count(self.held)
        if begun == first:
            self._derive_all(first)
        elif following == begun_end != last_end:
            self._believe()
            self._leave_out_but(0)
        elif following == last_end:
            if last == begun_end + 1:   # one is missing between
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

    # Each is put before it is held no more: on a full disk nothing is forgotten.

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
    """The offset of the message behind those in the record."""
    return request.queue_offset + request.message_count


def _count(held: list[DispatchRequest]) -> int:
    return sum([request.message_count for request in held])
