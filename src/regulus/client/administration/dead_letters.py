"""Reads the dead letters of a group, and plans which of them are sent again, by the rules of `model.redrive`.

A plan sends what it does not find in the topics, so it has to see everything there: all brokers must be there, all
queues readable, and no queue may lose its beginning while it is read. Otherwise it is refused.
"""

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from regulus.client.administration.admin import Admin
from regulus.client.administration.expected_brokers import (
    broker_names,
    check_all_is_readable,
    check_brokers,
    unreadable_queues,
)
from regulus.client.administration.message_admin import unpacked
from regulus.client.core.inner_batches import is_inner_batch, unwrap
from regulus.errors import ClientError, HeaderError, JobRefused, MessageIllegal, NoRoute, TopicMissing
from regulus.model import message_properties as names
from regulus.model import redrive as rules
from regulus.model.failure_causes import newest_cause
from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import dlq_topic
from regulus.record import message_record

LETTERS_MAX = 1_000_000
"""Dead letters that a plan chooses at most. Their places are kept in memory, their bodies are not."""
SCAN_SIZE_MAX = 16 << 30
"""Bytes of the topics' queues that a plan reads at most, to see what was sent before."""
SAMPLES_MAX = 10
"""Dead letters of a plan that are kept to be shown."""

_MARK = f"{rules.REDRIVE_OF}{names.NAME_VALUE_SEPARATOR}".encode()
_BATCH = f"{names.INNER_NUM}{names.NAME_VALUE_SEPARATOR}".encode()
_SIZE = 4


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter with an unpacked body. `origin`: the topic from which it came; empty if it is not known.
    `unreadable`: why the body could not be unpacked; empty if it could."""

    message: MessageExt
    queue: MessageQueue
    place: str
    origin: str
    unreadable: str = ""

    @property
    def cause(self) -> str:
        """Why its last attempt failed; empty if it is not known."""
        return newest_cause(self.message.properties)

    @property
    def message_id(self) -> str:
        return offset_message_id(self.message.store_host, self.message.physical_offset)


IsWanted = Callable[[DeadLetter], bool]


def everything(letter: DeadLetter) -> bool:
    return True


class PlannedLetter(NamedTuple):
    """What a plan keeps of a dead letter. Ordered by the time at which it was stored. `topic`: where it goes."""

    store_ms: int
    queue: MessageQueue
    queue_offset: int
    place: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveWish:
    """`to_topic`: send there instead of to the topics from which the letters came. `cap`: send at most this many, the
    oldest first. `brokers`: all brokers that exist, without which nothing is sent; empty for a dry run."""

    group: str
    is_wanted: IsWanted = everything
    to_topic: str | None = None
    cap: int | None = None
    brokers: tuple[str, ...] = ()


@dataclass(slots=True)
class RedrivePlan:
    """`to_send`: in the order in which they are sent. `counts`: (topic, status) -> letters. `made`: when the topics
    were created, if their brokers report it. `samples`: the first letters with their statuses."""

    wish: RedriveWish
    brokers: tuple[str, ...]
    to_send: list[PlannedLetter] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[DeadLetter, str]] = field(default_factory=list)

    def count(self, status: str) -> int:
        return sum(count for (_, found), count in self.counts.items() if found == status)

    def narrow(self, fresh: "RedrivePlan") -> None:
        """Send only what a later plan would send as well: time has passed, and others may have sent letters."""
        still = {letter.place for letter in fresh.to_send}
        for letter in self.to_send:
            if letter.place not in still:
                self.counts[letter.topic, rules.TO_SEND] -= 1
                self.counts[letter.topic, rules.SENT_BEFORE] += 1
        self.to_send = [letter for letter in self.to_send if letter.place in still]
        self.made = fresh.made

    def by_status(self) -> dict[str, int]:
        return {status: self.count(status) for _, status in self.counts}

    def by_topic(self) -> dict[str, int]:
        """How many letters go to each topic."""
        return {topic: count for (topic, status), count in sorted(self.counts.items())
                if status == rules.TO_SEND and count}

    def sentence(self) -> str:
        return rules.sentence(self.by_status(), is_dry_run=True, brokers=self.brokers, other_topic="--to-topic")


class QueueRange(NamedTuple):
    """The offsets [start, end) of a queue."""

    queue: MessageQueue
    start: int
    end: int


async def letter_ranges(admin: Admin, group: str) -> list[QueueRange]:
    """What the queues of the group's dead letters have now. Raises TopicMissing when there are no such queues."""
    try:
        queues = await admin.queues(dlq_topic(group))
    except NoRoute as error:
        raise TopicMissing(f"there is no {dlq_topic(group)}: no message of group {group!r} ever became a dead "
                           "letter") from error
    return [QueueRange(queue, *(await admin.queue_state(queue))[:2]) for queue in queues]


async def letters_in(admin: Admin, group: str, ranges: Sequence[QueueRange]) -> AsyncIterator[DeadLetter]:
    """The dead letters, the oldest first. Of each queue as many are in memory as its broker sends at a time."""
    readers = [_letters_of_queue(admin, group, each) for each in ranges]
    heads = [(letter.message.store_timestamp, number, letter) for number, reader in enumerate(readers)
             if (letter := await anext(reader, None)) is not None]
    heapq.heapify(heads)
    while heads:
        _, number, letter = heads[0]
        yield letter
        following = await anext(readers[number], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.message.store_timestamp, number, following))


async def _letters_of_queue(admin: Admin, group: str, span: QueueRange) -> AsyncIterator[DeadLetter]:
    async for data in _data_of(admin, span):
        for record in message_record.decode_all(data):
            try:
                messages, unreadable = _messages_of(record), ""
            except (HeaderError, MessageIllegal) as error:
                # What no consumer could read is among the dead letters for that reason.
                messages, unreadable = (record,), str(error)
            for message in messages:
                if span.start <= message.queue_offset < span.end:
                    yield _letter(message, span.queue, group, unreadable)


def _letter(message: MessageExt, queue: MessageQueue, group: str, unreadable: str = "") -> DeadLetter:
    # By the queue's topic, which is that of all its messages, whatever a damaged record says.
    place = rules.place_text(queue.topic, queue.queue_id, message.queue_offset,
                             offset_message_id(message.store_host, message.physical_offset))
    return DeadLetter(message, queue, place, rules.origin_topic(message.properties, group), unreadable)


def letter_of(message: MessageExt, group: str) -> DeadLetter:
    """A dead letter of the group that was found by its id."""
    return _letter(message, MessageQueue(message.topic, "", message.queue_id), group)


def _messages_of(record: MessageExt) -> Sequence[MessageExt]:
    message = unpacked(record)
    return unwrap(message) if is_inner_batch(message) else (message,)


async def _data_of(admin: Admin, span: QueueRange) -> AsyncIterator[bytes]:
    """The stored records of a range, as many at a time as the broker sends. Raises ClientError when the queue loses
    its beginning meanwhile, or ends early: what was there is not known then."""
    queue, offset, end = span
    while offset < end:
        read = await admin.read_queue(queue, offset, end)
        if read.min_offset > offset or (not read.data and read.next_offset <= offset):
            raise ClientError(f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name} has "
                              f"[{read.min_offset}, {read.max_offset}) now, and was read at {offset}: it lost messages "
                              "meanwhile; run this again")
        if read.data:
            yield bytes(read.data)
        if read.next_offset <= offset:
            raise ClientError(f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name} does not continue after "
                              f"offset {offset}")
        offset = read.next_offset


# --- planning --------------------------------------------------------------------------------------------------------


async def planned(admin: Admin, wish: RedriveWish) -> RedrivePlan:
    """The plan of a run. Raises TopicMissing for a group without dead letters, JobRefused beyond a limit, ClientError
    when not everything can be seen."""
    home = dlq_topic(wish.group)
    brokers = await _checked_brokers(admin, wish)
    chosen, heads = await _chosen(admin, wish)
    targets = [topic for topic in sorted({letter.topic for letter in chosen}) if await _takes_letters(admin, topic)]
    await _check_readable(admin, wish, [home, *targets])
    bounds = [bound for topic in {home, *targets} for bound in await _bounds(admin, topic)]
    made = await made_of(admin, targets)
    since_made = {} if wish.to_topic else made
    since_log = {} if wish.to_topic else rules.shortened_logs(bounds, targets)
    sent = await _sent_before(admin, targets, chosen)
    # Once more, because the routes do not show a broker that went away in between.
    await _checked_brokers(admin, wish)
    plan = RedrivePlan(wish, brokers, made=made)
    statuses = judged(chosen, Seen(frozenset(targets), sent, since_made, since_log), wish.cap)
    for letter, status in zip(chosen, statuses, strict=True):
        plan.counts[letter.topic, status] += 1
        if status == rules.TO_SEND:
            plan.to_send.append(letter)
    plan.samples = list(zip(heads, statuses, strict=False))
    return plan


class Seen(NamedTuple):
    """What there is at the brokers. `targets`: topics to which letters can be sent; `sent`: the places of letters that
    were sent before; `since_made` and `since_log`: see `model.redrive.is_older`."""

    targets: frozenset[str]
    sent: set[str]
    since_made: Mapping[str, int | None]
    since_log: Mapping[str, int | None]


def judged(chosen: Sequence[PlannedLetter], seen: Seen, cap: int | None) -> list[str]:
    """The statuses of the letters, which are in the order of their store times."""
    statuses = []
    room = len(chosen) if cap is None else cap
    for letter in chosen:
        applies = {rules.SENT_BEFORE: letter.place in seen.sent, rules.NO_TOPIC: letter.topic not in seen.targets,
                   rules.TOPIC_IS_NEWER: rules.is_older(letter.store_ms, seen.since_made, letter.topic),
                   rules.LOG_IS_NEWER: rules.is_older(letter.store_ms, seen.since_log, letter.topic)}
        status = rules.status_of([reason for reason, is_so in applies.items() if is_so])
        if status == rules.TO_SEND:
            room -= 1
            status = rules.BEYOND_CAP if room < 0 else status
        statuses.append(status)
    return statuses


async def made_of(admin: Admin, topics: Sequence[str]) -> dict[str, int]:
    """When the topics were created, if their brokers report it."""
    return rules.topics_made([bound for topic in topics for bound in await _bounds(admin, topic, with_times=False)])


async def _checked_brokers(admin: Admin, wish: RedriveWish) -> tuple[str, ...]:
    cluster = await admin.cluster_info()
    if wish.brokers:
        check_brokers(wish.brokers, cluster)
    return tuple(sorted(broker_names(cluster)))


async def _check_readable(admin: Admin, wish: RedriveWish, topics: Iterable[str]) -> None:
    if wish.brokers:
        check_all_is_readable({topic: await unreadable_queues(admin, topic) for topic in topics})


async def _chosen(admin: Admin, wish: RedriveWish) -> tuple[list[PlannedLetter], list[DeadLetter]]:
    """The wanted letters in the order of their store times, and the first ones as they are."""
    chosen: list[PlannedLetter] = []
    heads: list[DeadLetter] = []
    topics: dict[str, str] = {}
    async for letter in letters_in(admin, wish.group, await letter_ranges(admin, wish.group)):
        if not wish.is_wanted(letter):
            continue
        if len(chosen) >= LETTERS_MAX:
            raise JobRefused(f"more than {LETTERS_MAX} dead letters are chosen: choose fewer, or send them with "
                             "`regulus job redrive`")
        topic = wish.to_topic or letter.origin
        message = letter.message
        chosen.append(PlannedLetter(message.store_timestamp, letter.queue, message.queue_offset, letter.place,
                                    topics.setdefault(topic, topic)))
        if len(heads) < SAMPLES_MAX:
            heads.append(letter)
    return chosen, heads


async def _takes_letters(admin: Admin, topic: str) -> bool:
    """Whether dead letters can be sent to the topic: it exists, and shows afterwards what was sent."""
    if not topic or not rules.is_of_first_copies(topic):
        return False
    try:
        return bool(await admin.queues(topic))
    except NoRoute:
        return False


async def _bounds(admin: Admin, topic: str, *, with_times: bool = True) -> list[rules.QueueBounds]:
    try:
        stats = await admin.topic_stats(topic, masters_only=True)
        queues = {queue.broker_name: queue for queue in await admin.queues(topic)}
    except NoRoute:
        return []
    # One queue of each broker gives the topic's epoch there.
    made = {name: (await admin.queue_state(queue)).topic_epoch for name, queue in queues.items()}
    bounds = []
    for queue, ends in stats.items():
        first = await admin.earliest_store_time(queue) if with_times and ends.max_offset > ends.min_offset else 0
        bounds.append(rules.QueueBounds(topic, queue.broker_name, ends.min_offset, first if first > 0 else None,
                                        made.get(queue.broker_name, 0)))
    return bounds


async def _sent_before(admin: Admin, topics: Sequence[str], chosen: Sequence[PlannedLetter]) -> set[str]:
    """The places of those letters that the topics show as sent again."""
    wanted = {letter.place for letter in chosen}
    if not wanted:
        return set()
    since_ms = looked_since_ms(chosen)
    found: set[str] = set()
    size = 0
    for topic in topics:
        for queue in await admin.queues(topic):
            low, high, _ = await admin.queue_state(queue)
            span = QueueRange(queue, max(low, await admin.search_offset(queue, since_ms)), high)
            async for data in _data_of(admin, span):
                size += len(data)
                if size > SCAN_SIZE_MAX:
                    raise JobRefused(f"more than {SCAN_SIZE_MAX >> 30} GiB of the topics would have to be read to see "
                                     "what was sent before: use `regulus job redrive`, which reads with many tasks")
                found.update(place for message in marked(data)
                             if (place := message.properties[rules.REDRIVE_OF]) in wanted)
    return found


def looked_since_ms(chosen: Sequence[PlannedLetter]) -> int:
    """The time from which on topics are read for what was sent again."""
    return max(0, min(letter.store_ms for letter in chosen) - rules.CLOCKS_APART_MAX_MS)


async def marked_in(admin: Admin, span: QueueRange) -> AsyncIterator[MessageExt]:
    """The messages of a range that were sent again, or are copies of such messages, without bodies."""
    async for data in _data_of(admin, span):
        for message in marked(data):
            yield message


def marked(data: bytes) -> list[MessageExt]:
    """The messages among stored records that have REDRIVE_OF. Others are not decoded, unless they are batches, whose
    messages have properties of their own."""
    if _MARK not in data and _BATCH not in data:
        return []
    messages: list[MessageExt] = []
    position = 0
    while position < len(data):
        # A record states its size in its first bytes. Anything else fails when it is decoded.
        size = int.from_bytes(data[position:position + _SIZE])
        end = position + size if size > _SIZE else len(data)
        if data.find(_BATCH, position, end) >= 0:
            messages += _messages_of(message_record.decode(data, position))
        elif data.find(_MARK, position, end) >= 0 or size <= _SIZE:
            messages.append(message_record.decode(data, position, False))
        position = end
    return [message for message in messages if rules.REDRIVE_OF in message.properties]


# --- the letters that there are --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterStatus:
    """`again`: letters of those sent again that are dead once more."""

    letters: int
    sent_again: int
    again: int

    @property
    def left(self) -> int:
        return self.letters - self.sent_again


async def status_of(admin: Admin, group: str) -> LetterStatus:
    """What became of the group's letters."""
    marks: set[str] = set()

    def note(letter: DeadLetter) -> bool:
        mark = letter.message.properties.get(rules.REDRIVE_OF)
        if mark is not None:
            marks.add(mark)
        return True

    wish = RedriveWish(group=group, is_wanted=note)
    chosen, _ = await _chosen(admin, wish)
    targets = [topic for topic in sorted({letter.topic for letter in chosen}) if await _takes_letters(admin, topic)]
    sent = await _sent_before(admin, targets, chosen)
    again = sum(letter.place in marks for letter in chosen)
    # A letter that is dead once more was sent again, even if its topic no longer shows it.
    sent |= {letter.place for letter in chosen if letter.place in marks}
    return LetterStatus(letters=len(chosen), sent_again=len(sent), again=again)
