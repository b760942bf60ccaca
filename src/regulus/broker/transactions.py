"""Transactions: messages that become visible only when their producer commits them.

A half message waits in the half topic, one queue for all topics. Ending it takes one or two more appends: a commit
writes the message to its real topic, with the log offset of its half; commit and rollback both write an op message that
names the queue offset of the half. A half that is done is never read again.

If a producer did not end a half, it is asked. Each `transaction_check_interval` a run walks the half queue from the
first half that is not passed. A half that is done is passed; a young one ends the run. Any other is copied to the end
of the queue, the old one is passed, and one producer of the group is asked, in turn. The queue moves on, so a run only
has to know the first offset not passed, a consumer offset of CID_RMQ_SYS_TRANS. After `transaction_check_max` checks,
or when it is older than messages are kept, a half is given up: it goes to a topic of its own, and its producer may
still end it. A check counts also when no producer is online.

A question shows the half message, and the answer ends it, so only a client that may do both is asked: any client can
use the name of a producer group. Before the first question of a run for a group and a topic, the group is searched for
clients that may be asked, some in each step; meanwhile the half stays where it is and no check counts. Strangers that
use the group's name therefore have no effect. If all clients that were found have disconnected, and there are others,
which may be the same ones on new connections, no check counts until the next run.

Producers are not asked faster than they answer, because a dropped question counts as a check. With ASKED_MAX unanswered
questions the run waits; if no answer comes it passes the other halves of that group, without a check, until the next
run.

A message may thus have several copies in the half queue, and its producer may name any of them. All later copies have
the queue offset of the first one in the property TRAN_PREPARED_QUEUE_OFFSET, which identifies the chain; the newest
copy is the open one. Most of RocketMQ's copies lack the property and are identified by their unique key. Ending a chain
twice does nothing the second time.

An op message is written at once, after the committed message, so that a broker asks again about a committed one only if
it is killed between these two appends. RocketMQ 5.x collects ops for seconds and names many offsets in one op message,
each followed by a comma; 4.9 names one, and stops its checks at an op message of 5.x. Both are read here. Op messages
of this broker name one offset without a comma, which all versions read.

Source: TransactionalMessageServiceImpl, TransactionalMessageBridge, DefaultTransactionalMessageCheckListener.
"""

from collections import deque
from collections.abc import Callable, Generator
from enum import Enum

from regulus.broker import placement
from regulus.broker.config import BrokerConfig
from regulus.broker.groups.clients import Client, Clients
from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.message_store import MessageStore
from regulus.broker.outcome import Notice, Reply
from regulus.broker.storing import Storing
from regulus.model import message_properties as names
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.store_result import Appended, PutStatus, QueryResult
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from regulus.model.topics import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from regulus.record import message_record
from regulus.wire.codes import RequestCode
from regulus.wire.headers import CheckTransactionStateRequest
from regulus.wire.remoting_command import RemotingCommand

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
OP_TAG = "d"
JUDGED_PER_TICK_MAX = 256
"""Halves read in one tick, so that other requests are served in between."""
PASSED_PER_TICK_MAX = 16_384
"""Halves that one tick passes because they are done."""
PAUSE_MS = 20       # between two looks for answers, while ASKED_MAX questions are open
LOADED_AT_A_TIME = 1024     # units read in one call of the store, at a start
ENDED_MAX = 10_000
"""Ended transactions whose outcome is remembered, in case a producer ends one twice."""
FOUND_MAX = 32
"""Messages read to find out how a transaction ended long ago."""
FOUND_STEPS_MAX = 4
"""Steps of the search in the index for these messages. More are needed only if a producer gives thousands of messages
the same unique key; that search is given up."""
ASKED_MAX = 2_000
"""Unanswered questions per producer; RocketMQ's producer keeps this many and drops more."""
ANSWER_WAIT_MS = 1_000
"""How long a run waits for the next answer of producers with that many questions."""

PRODUCERS_LOOKED_MAX = 256
"""Producers of a group that one step checks for the permission to be asked; each costs some ten us."""
PRODUCERS_KNOWN_MAX = 256
"""Producers that are asked in one run at most; others have their turn in the next run."""

_QUEUE_ID = 0


class TransactionOutcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"
    UNKNOWN = "ended in a way that is not known"


class _Step(Enum):
    """What a run does after it has read a half."""

    PASS = "pass"
    AGAIN = "again"     # come back to this half in the next step
    PAUSE = "pause"     # come back to this half soon
    END = "end"         # this half and later ones are too young, or the store refuses


class _Askable:
    """Producers of a group that may be asked about transactions of one topic, in one run."""

    __slots__ = ("channels", "has_found", "unseen")

    def __init__(self, count: int) -> None:
        self.unseen = count                 # producers to check, as of the start of the run
        self.channels: deque[int] = deque()     # the next one to ask first
        self.has_found = False              # some producer, which may have disconnected since


class Transactions:
    """`notices` gets the questions to producers. `may_end` says whether a client may end transactions of a topic."""

    def __init__(self, config: BrokerConfig, store: MessageStore, storing: Storing, offsets: ConsumerOffsets,
                 clients: Clients, notices: deque[Notice], steady_ms: int,
                 may_end: Callable[[Client, str], bool] = lambda client, topic: True) -> None:
        self.config = config
        self._store = store
        self._storing = storing
        self._offsets = offsets
        self._clients = clients
        self._notices = notices
        self._may_end = may_end
        self._half_offset = 0               # of the first half that is not passed
        self._op_offset = 0                 # of the first op message that names a half from there on
        self._ops: deque[tuple[int, int]] = deque()     # of these op messages: offset, last half named
        self._done: set[int] = set()        # not yet passed
        self._newest: dict[int, int] = {}   # by first offset: the open copy, if a chain has several
        self._ended: dict[int, TransactionOutcome] = {}     # by first offset
        self._asked: dict[str, set[int]] = {}   # by group: first offsets of unanswered questions of this run
        self._askers: dict[str, set[int]] = {}  # by group: channels of producers asked in this run
        self._askable: dict[tuple[str, str], _Askable] = {}     # of this run, by group and topic
        self._steady_ms = steady_ms         # at the last tick
        self._last_talk_ms = steady_ms      # when a producer was asked, or answered
        self._java_copies: dict[int, int] = {}      # found at the start: first offsets of copies without the property
        self._unwritten: deque[int] = deque()       # done, without an op message yet
        self._store_host = b"\0" * 8        # of the last half ended, for op messages
        self._run_end: int | None = None    # halves from this offset on are for the next run
        self._last_run_ms = steady_ms

    @property
    def open_count(self) -> int:
        """Number of halves that are neither passed nor done."""
        return max(0, self._store.max_offset(TRANS_HALF_TOPIC, _QUEUE_ID) - self._half_offset - len(self._done))

    def open_offsets(self, count_max: int) -> list[int]:
        """Queue offsets of the first open halves, at most `count_max`."""
        end = self._store.max_offset(TRANS_HALF_TOPIC, _QUEUE_ID)
        stop = min(end, self._half_offset + len(self._done) + count_max)
        return [offset for offset in range(self._half_offset, stop) if offset not in self._done][:count_max]

    # --- the end of a transaction ------------------------------------------------------------------------------------

    def half_at(self, physical_offset: int) -> MessageExt | None:
        """The half whose record starts there; None when there is none."""
        message = self._store.look_message(physical_offset)
        return message if message is not None and message.topic == TRANS_HALF_TOPIC else None

    def immunity_ms(self, half: MessageExt) -> int | None:
        """How long after its birth no question about the half is asked, in ms; None if its producer did not say."""
        text = half.properties.get(names.CHECK_IMMUNITY_TIME)
        if text is None:
            return None
        return int(text) * 1000 if names.number(text) >= 0 else self.config.transaction_time_out

    def outcome(self, half: MessageExt) -> TransactionOutcome:
        """What became of the transaction. One that was given up may still be ended."""
        first = self._first_offset(half)
        newest = self._newest.get(first, half.queue_offset)
        if newest >= self._half_offset and newest not in self._done:
            return TransactionOutcome.OPEN
        return self._ended.get(first) or self._outcome_long_ago(half)

    def commit(self, half: MessageExt, now_ms: int) -> Appended:
        """Make the message visible. Returns the store's answer; only PUT_OK ends the transaction."""
        message = placement.committed(half)
        if not self._storing.is_home(message.topic, now_ms):
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark=f"topic {message.topic} was deleted in the meantime")
        appended = self._storing.store(message, now_ms)
        if appended.status == PutStatus.PUT_OK:
            self._end(half, TransactionOutcome.COMMITTED, now_ms)
        return appended

    def roll_back(self, half: MessageExt, now_ms: int) -> None:
        self._end(half, TransactionOutcome.ROLLED_BACK, now_ms)

    def resume(self, given_up: MessageExt, now_ms: int) -> Appended:
        """Put back a half that was given up, with its checks counted from zero."""
        return self._storing.append(placement.half_again(given_up, checks=0, first_offset=None), now_ms)

    def _end(self, half: MessageExt, outcome: TransactionOutcome, now_ms: int) -> None:
        first = self._first_offset(half)
        newest = self._newest.pop(first, half.queue_offset)
        self._ended[first] = outcome
        self._asked.get(half.properties.get(names.PRODUCER_GROUP, ""), set()).discard(first)
        self._last_talk_ms = self._steady_ms
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        for queue_offset in sorted({half.queue_offset, newest}):
            self._unwritten.append(queue_offset)
            if queue_offset >= self._half_offset:
                self._done.add(queue_offset)
        self._store_host = half.store_host
        self._write_ops(now_ms)

    def _write_ops(self, now_ms: int) -> None:
        """Write op messages for ended halves; the next tick tries again what the store refuses."""
        while self._unwritten:
            queue_offset = self._unwritten[0]
            op = MessageExt(TRANS_OP_HALF_TOPIC, str(queue_offset).encode(),
                            {names.WAIT_STORE_MSG_OK: "true", names.TAGS: OP_TAG}, _QUEUE_ID, born_timestamp=now_ms,
                            born_host=self._store_host, store_host=self._store_host)
            appended = self._storing.append(op, now_ms)
            if appended.status != PutStatus.PUT_OK:
                return
            self._ops.append((appended.queue_offset, queue_offset))
            self._unwritten.popleft()

    def _outcome_long_ago(self, half: MessageExt) -> TransactionOutcome:
        """Search for the committed message itself, and among those that were given up.

        A committed message that still waits for its delay, or was deleted, is not found and counts as rolled back.
        """
        committed = self._found(half.properties.get(names.REAL_TOPIC, ""), half.message_id)
        given_up = self._found(TRANS_CHECK_MAX_TIME_TOPIC, half.message_id)
        if committed is None or given_up is None:
            return TransactionOutcome.UNKNOWN
        if any(message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT for message in committed):
            return TransactionOutcome.COMMITTED
        return TransactionOutcome.GIVEN_UP if given_up else TransactionOutcome.ROLLED_BACK

    def _found(self, topic: str, unique_key: str) -> list[MessageExt] | None:
        """None when the search takes too long."""
        if not unique_key:
            return []
        found = _within(FOUND_STEPS_MAX,
                        self._store.query_message_in_steps(topic, unique_key, FOUND_MAX, 0, LONG_MAX))
        if found is None:
            return None
        messages = [message_record.decode(data, 0, False) for data in found.buffers]
        return [message for message in messages if message.message_id == unique_key and message.topic == topic]

    # --- asking for open ones ----------------------------------------------------------------------------------------

    def tick(self, now_ms: int, steady_ms: int) -> int:
        """Do a part of a run when one is due. Returns ms until the next call, 0 when the run continues at once.

        Ages are differences of stamps, which are times of day; runs and pauses follow the clock that never jumps.
        """
        self._steady_ms = steady_ms
        self._write_ops(now_ms)
        if self._run_end is None:
            wait_ms = self._last_run_ms + self.config.transaction_check_interval - steady_ms
            if wait_ms > 0:
                return wait_ms
            self._last_run_ms = steady_ms
            self._run_end = self._store.max_offset(TRANS_HALF_TOPIC, _QUEUE_ID)
            self._asked.clear()
            self._askers.clear()
            self._askable.clear()
        step = self._run(self._run_end, now_ms)
        self._commit_offsets(now_ms)
        if step is _Step.PASS or step is _Step.AGAIN:
            return 0
        if step is _Step.PAUSE:
            return PAUSE_MS
        self._run_end = None
        return self.config.transaction_check_interval

    def _run(self, end: int, now_ms: int) -> _Step:
        """Do a part of a run. PASS: this tick's part is done and the next one continues.

        Halves that were put since the run began are left to the next one: new ones are young, and copies have just been
        asked about.
        """
        first = self._store.min_offset(TRANS_HALF_TOPIC, _QUEUE_ID)
        if self._half_offset < first:
            self._half_offset = first
            self._done = {queue_offset for queue_offset in self._done if queue_offset >= first}
        judged = 0
        stop = min(end, self._half_offset + PASSED_PER_TICK_MAX)
        while self._half_offset < stop:
            if self._half_offset not in self._done:
                judged += 1
                step = self._judge(self._half_offset, now_ms) if judged <= JUDGED_PER_TICK_MAX else None
                if step is not _Step.PASS:
                    return step or _Step.PASS
            self._done.discard(self._half_offset)
            self._half_offset += 1
        return _Step.END if stop == end else _Step.PASS

    def _judge(self, queue_offset: int, now_ms: int) -> _Step:
        """Deal with one open half."""
        units = self._store.queue_units(TRANS_HALF_TOPIC, _QUEUE_ID, queue_offset, 1)
        half = self._store.look_message(units[0].physical_offset) if units else None
        if half is None:
            return _Step.PASS       # deleted with its file of the log
        checks = max(0, names.number(half.properties.get(names.TRANSACTION_CHECK_TIMES)))
        age_ms = now_ms - half.born_timestamp
        if checks >= self.config.transaction_check_max or age_ms > self.config.reserved_ms:
            return self._give_up(half, now_ms)
        immunity_ms = self.immunity_ms(half)
        if immunity_ms is None and 0 <= age_ms < self.config.transaction_time_out:
            return _Step.END
        if immunity_ms is not None and age_ms < immunity_ms:
            return self._put_again(half, checks, now_ms)[0]
        group = half.properties.get(names.PRODUCER_GROUP, "")
        asked = self._asked.get(group, ())
        # Producers that may not be asked answer nothing, so only those that were asked count.
        if len(asked) >= ASKED_MAX * max(1, len(self._askers.get(group, ()))) and self._clients.producer_count(group):
            if self._steady_ms - self._last_talk_ms <= ANSWER_WAIT_MS:
                return _Step.PAUSE
            return self._put_again(half, checks, now_ms)[0]
        topic = half.properties.get(names.REAL_TOPIC, "")
        if not self._has_looked(group, topic):
            return _Step.AGAIN
        producer = self._next_producer(group, topic)
        if producer is None and self._has_others(group, topic):
            return self._put_again(half, checks, now_ms)[0]
        step, copy = self._put_again(half, checks + 1, now_ms)
        if copy is not None and producer is not None:
            self._asked.setdefault(group, set()).add(self._first_offset(half))
            self._askers.setdefault(group, set()).add(producer.channel)
            self._last_talk_ms = self._steady_ms
            self._ask(copy, producer)
        return step

    def _has_looked(self, group: str, topic: str) -> bool:
        """Whether the producers that may be asked are known; otherwise checks some of the group now."""
        count = self._clients.producer_count(group)
        askable = self._askable.get((group, topic))
        if askable is None:
            if not count:
                return True
            askable = self._askable[group, topic] = _Askable(count)
        if not askable.unseen:
            return True
        looked = self._clients.next_producers(group, min(askable.unseen, PRODUCERS_LOOKED_MAX))
        askable.unseen -= len(looked)
        askable.channels += [client.channel for client in looked if self._may_end(client, topic)]
        askable.has_found = bool(askable.channels)
        if not looked or len(askable.channels) >= PRODUCERS_KNOWN_MAX:
            askable.unseen = 0
        return not askable.unseen

    def _next_producer(self, group: str, topic: str) -> Client | None:
        """The next producer in turn that is still connected and may still be asked."""
        askable = self._askable.get((group, topic))
        channels = askable.channels if askable is not None else deque()
        while channels:
            client = self._clients.producer(group, channels[0])
            if client is not None and self._may_end(client, topic):
                channels.rotate(-1)
                return client
            channels.popleft()
        return None

    def _has_others(self, group: str, topic: str) -> bool:
        """Whether the group has other producers than those found in this run, which have all disconnected."""
        askable = self._askable.get((group, topic))
        return askable is not None and askable.has_found and self._clients.producer_count(group) > 0

    def _give_up(self, half: MessageExt, now_ms: int) -> _Step:
        appended = self._storing.append(placement.given_up(half), now_ms)
        if appended.status != PutStatus.PUT_OK:
            return _Step.END
        self._newest.pop(self._first_offset(half), None)
        return _Step.PASS

    def _put_again(self, half: MessageExt, checks: int, now_ms: int) -> tuple[_Step, MessageExt | None]:
        """Copy the half to the end of the queue; the copy is None when the store refuses it.

        A copy has more properties than the half. A half without room for them is given up, because it would block all
        halves after it.
        """
        first = self._first_offset(half)
        copy = placement.half_again(half, checks, first)
        status = self._storing.append(copy, now_ms).status
        if status == PutStatus.MESSAGE_ILLEGAL:
            return self._give_up(half, now_ms), None
        if status != PutStatus.PUT_OK:
            return _Step.END, None
        self._newest[first] = copy.queue_offset
        return _Step.PASS, copy

    def _ask(self, copy: MessageExt, producer: Client) -> None:
        key = copy.message_id or None
        ext = CheckTransactionStateRequest(
            tran_state_table_offset=copy.queue_offset, commit_log_offset=copy.physical_offset, msg_id=key,
            transaction_id=key, offset_msg_id=offset_message_id(copy.store_host, copy.physical_offset),
            topic=TRANS_HALF_TOPIC, broker_name=self.config.broker_name).ext()
        copy.topic = copy.properties.get(names.REAL_TOPIC, "")
        copy.queue_id = max(0, placement.real_queue_id(copy.properties))
        request = RemotingCommand.request(int(RequestCode.CHECK_TRANSACTION_STATE), ext, message_record.encode(copy),
                                          oneway=True)
        self._notices.append(Notice(producer.channel, Reply(request)))

    # --- what outlives the broker ------------------------------------------------------------------------------------

    def load(self) -> None:
        """Find out which halves are open, from the saved offsets on. The queues are complete."""
        self._half_offset = self._saved_offset(TRANS_HALF_TOPIC)
        self._op_offset = self._saved_offset(TRANS_OP_HALF_TOPIC)
        self._ops.clear()
        self._done.clear()
        self._each(TRANS_OP_HALF_TOPIC, self._op_offset, self._load_op)
        chains = self._load_chains()
        named = self._done
        self._done = {queue_offset for queue_offset in named if queue_offset >= self._half_offset}
        self._newest = {}
        for first, copies in chains.items():
            newest = max(copies)
            if first in named or not named.isdisjoint(copies):
                self._done.update(copies)
            else:
                self._done.update(copy for copy in copies if copy != newest)
                if newest != first:
                    self._newest[first] = newest

    def _load_chains(self) -> dict[int, list[int]]:
        """The copies that are not passed, by the first offset of their chain."""
        chains: dict[int, list[int]] = {}
        first_by_key: dict[str, int] = {}

        def take(half: MessageExt) -> None:
            properties = half.properties
            if names.TRANSACTION_CHECK_TIMES in properties and \
                    names.TRANSACTION_PREPARED_QUEUE_OFFSET not in properties and half.message_id in first_by_key:
                self._java_copies[half.queue_offset] = first_by_key[half.message_id]
            first = self._first_offset(half)
            first_by_key.setdefault(half.message_id, first)
            chains.setdefault(first, []).append(half.queue_offset)

        self._java_copies.clear()
        self._each(TRANS_HALF_TOPIC, self._half_offset, take)
        return chains

    def _load_op(self, op: MessageExt) -> None:
        if op.tags != OP_TAG:
            return
        named = [int(text) for text in op.body.decode("utf-8", "replace").split(",") if names.number(text) >= 0]
        if named:
            self._done.update(named)
            self._ops.append((op.queue_offset, max(named)))

    def _each(self, topic: str, queue_offset: int, take: Callable[[MessageExt], None]) -> None:
        while units := self._store.queue_units(topic, _QUEUE_ID, queue_offset, LOADED_AT_A_TIME):
            for unit in units:
                message = self._store.look_message(unit.physical_offset)
                if message is not None:
                    take(message)
            queue_offset = units[-1].queue_offset + 1

    def _saved_offset(self, topic: str) -> int:
        saved = self._offsets.query(TRANSACTION_GROUP, topic, _QUEUE_ID)
        first, end = self._store.min_offset(topic, _QUEUE_ID), self._store.max_offset(topic, _QUEUE_ID)
        return min(max(saved, first), end)

    def _commit_offsets(self, now_ms: int) -> None:
        while self._ops and self._ops[0][1] < self._half_offset:
            self._op_offset = self._ops.popleft()[0] + 1
        for topic, queue_offset in ((TRANS_HALF_TOPIC, self._half_offset), (TRANS_OP_HALF_TOPIC, self._op_offset)):
            if queue_offset != max(0, self._offsets.query(TRANSACTION_GROUP, topic, _QUEUE_ID)):
                self._offsets.commit(TRANSACTION_GROUP, topic, _QUEUE_ID, queue_offset, now_ms)

    def _first_offset(self, half: MessageExt) -> int:
        """The queue offset of the first copy of a half, which identifies the chain."""
        text = half.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET, "")
        return int(text) if names.number(text) >= 0 else self._java_copies.get(half.queue_offset, half.queue_offset)


def _within(count_max: int, steps: Generator[None, None, QueryResult]) -> QueryResult | None:
    """The result of at most `count_max` steps; None when more are needed."""
    for _ in range(count_max):
        try:
            next(steps)
        except StopIteration as end:
            result: QueryResult = end.value
            return result
    return None
