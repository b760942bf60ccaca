"""Faults of the broker's decisions: sends, offsets, send-back, transactions, sink marks, held pulls."""

from tests.mutants import Mutant

_OFFSETS = "regulus/broker/consumer_offsets.py"
_TRANSACTIONS = "regulus/broker/transactions.py"
_END = "regulus/broker/handlers/end_transaction.py"
_PLACEMENT = "regulus/broker/placement.py"
_MARKS = "regulus/broker/sink_marks.py"
_HELD = "regulus/broker/held_requests.py"
_SEND_BACK = "regulus/broker/handlers/consumer_send_msg_back.py"
_SCHEDULE = "regulus/broker/delay_schedule.py"
_STATE = "regulus/broker/state.py"
_STORING = "regulus/broker/storing.py"
_SEND = "regulus/broker/handlers/send_message.py"

_OFFSET_TESTS = ("tests/unit/broker/test_consumer_offsets.py",)
_TRANSACTION_TESTS = ("tests/unit/broker/test_transactions.py", "tests/unit/broker/handlers/test_end_transaction.py")
_PLACEMENT_TESTS = ("tests/unit/broker/test_placement.py", "tests/unit/broker/handlers/test_consumer_send_msg_back.py")
_MARK_TESTS = ("tests/unit/broker/test_sink_marks.py", "tests/unit/broker/handlers/test_sink_sends.py")
_HELD_TESTS = ("tests/unit/broker/test_held_requests.py", "tests/unit/broker/handlers/test_pull_message.py")
_STORING_TESTS = ("tests/unit/broker/test_storing.py",)
_SCHEDULE_TESTS = ("tests/unit/broker/test_delay_schedule.py",)
_SEND_BACK_TESTS = ("tests/unit/broker/handlers/test_consumer_send_msg_back.py",)
_SEND_TESTS = ("tests/unit/broker/handlers/test_send_message.py", "tests/property/test_plain_sends.py")

MUTANTS = [
    # --- offsets -----------------------------------------------------------------------------------------------------
    Mutant(name="an offset that was never committed is 0", path=_OFFSETS,
           old="queues.get(queue_id, NOT_FOUND)\n\n    def queues", new="queues.get(queue_id, 0)\n\n    def queues",
           tests=_OFFSET_TESTS),
    Mutant(name="a committed offset is not saved", path=_OFFSETS,
           old="queues[queue_id] = consumer_offset\n        self._unencoded[key] = None\n",
           new="queues[queue_id] = consumer_offset\n", tests=_OFFSET_TESTS),
    Mutant(name="a group that is removed takes another's offsets along", path=_OFFSETS,
           old='if key.endswith("@" + group)', new="if key.endswith(group)", tests=_OFFSET_TESTS),
    Mutant(name="a reset is told again and again", path=_OFFSETS,
           old="queues.pop(queue_id, None)\n        if not", new="queues.get(queue_id)\n        if not",
           tests=_OFFSET_TESTS),
    Mutant(name="cloned offsets are shared", path=_OFFSETS,
           old="self.table[key] = dict(queues)", new="self.table[key] = queues",
           tests=_OFFSET_TESTS),
    Mutant(name="saved offsets are not loaded", path=_OFFSETS,
           old="self.table = {key: dict(queues)", new="_ = {key: dict(queues)", tests=_OFFSET_TESTS),
    # --- send-back and placement -------------------------------------------------------------------------------------
    Mutant(name="a send-back that is not stored is answered with success", path=_SEND_BACK,
           old="if appended.status != PutStatus.PUT_OK:", new="if False:", tests=_SEND_BACK_TESTS),
    Mutant(name="a send-back is answered before it is on disk", path=_SEND_BACK,
           old="broker.storing.durable_at()", new="0", tests=_SEND_BACK_TESTS),
    Mutant(name="a group without retry queues loses its message", path=_SEND_BACK,
           old="if group.retry_queue_nums <= 0:", new="if group.retry_queue_nums < -9:", tests=_SEND_BACK_TESTS),
    Mutant(name="delay level -1 is no dead letter", path=_SEND_BACK,
           old=" or header.delay_level < 0", new="", tests=_SEND_BACK_TESTS),
    Mutant(name="a retry forgets the id of the first copy", path=_PLACEMENT,
           old="properties.setdefault(names.ORIGIN_MESSAGE_ID", new="properties.__setitem__(names.ORIGIN_MESSAGE_ID",
           tests=_PLACEMENT_TESTS),
    Mutant(name="a dead letter does not say where it came from", path=_PLACEMENT,
           old="properties[names.DLQ_ORIGIN_TOPIC] = properties[names.RETRY_TOPIC]",
           new="properties[names.DLQ_ORIGIN_TOPIC] = failed.topic", tests=_PLACEMENT_TESTS),
    Mutant(name="a copy shares the properties of its original", path=_PLACEMENT,
           old="properties = dict(failed.properties)", new="properties = failed.properties", tests=_PLACEMENT_TESTS),
    Mutant(name="a delayed message comes home to queue 0", path=_PLACEMENT,
           old="return _copy(parked, topic, queue_id,", new="return _copy(parked, topic, 0,", tests=_PLACEMENT_TESTS),
    Mutant(name="a parked message may come home as a half", path=_PLACEMENT,
           old="if topic in _HALF_TOPICS or not", new="if not", tests=_PLACEMENT_TESTS),
    # --- the delay schedule ------------------------------------------------------------------------------------------
    Mutant(name="what the store refuses is not delivered again", path=_SCHEDULE,
           old="return self._storing.append(message, now_ms).status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL)",
           new="self._storing.append(message, now_ms)\n        return True", tests=_SCHEDULE_TESTS),
    Mutant(name="a delivered message is delivered again", path=_SCHEDULE,
           old="self.offset_table[level] = queue_offset\n        self.changes", new="self.changes",
           tests=("tests/unit/broker/test_delay_schedule.py::test_a_message_comes_back_when_it_is_due_and_not_before",)),
    Mutant(name="progress of the schedule is not saved", path=_SCHEDULE,
           old="self.changes += 1", new="self.changes += 0",
           tests=("tests/unit/broker/test_delay_schedule.py", "tests/unit/broker/test_state.py")),
    Mutant(name="a clock that was turned back delays messages", path=_SCHEDULE,
           old="return now_ms if due_ms > now_ms + self._ladder_ms[level - 1] else due_ms", new="return due_ms",
           tests=_SCHEDULE_TESTS),
    Mutant(name="saved progress may lie behind the end of a queue", path=_SCHEDULE,
           old="min(max(queue_offset, first), end)", new="max(queue_offset, first)", tests=_SCHEDULE_TESTS),
    Mutant(name="what the store never takes holds up its level", path=_SCHEDULE,
           old="PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL", new="PutStatus.PUT_OK,", tests=_SCHEDULE_TESTS),
    # --- the way to the log ------------------------------------------------------------------------------------------
    Mutant(name="what is stored is not placed", path=_STORING,
           old="        place(message, self.facts.delay_level_max)\n", new="", tests=_STORING_TESTS),
    Mutant(name="what the store refuses counts as stored", path=_STORING,
           old="if appended.status is not _PUT_OK:", new="if False:", tests=_STORING_TESTS),
    # --- transactions ------------------------------------------------------------------------------------------------
    Mutant(name="a transaction is committed twice", path=_END,
           old="if outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ROLLED_BACK):", new="if False:",
           tests=_TRANSACTION_TESTS),
    Mutant(name="another group ends a transaction", path=_END,
           old="if group != header.producer_group:", new="if False:", tests=_TRANSACTION_TESTS),
    Mutant(name="a half is ended under another queue offset", path=_END,
           old="if half.queue_offset != header.tran_state_table_offset:", new="if False:", tests=_TRANSACTION_TESTS),
    Mutant(name="any message counts as a half", path=_TRANSACTIONS,
           old="message.topic == TRANS_HALF_TOPIC else None", new="True else None", tests=_TRANSACTION_TESTS),
    Mutant(name="a commit that is not stored ends the transaction", path=_TRANSACTIONS,
           old="        if appended.status == PutStatus.PUT_OK:\n            self._end(half, ",
           new="        if True:\n            self._end(half, ", tests=_TRANSACTION_TESTS),
    Mutant(name="a commit is answered before it is on disk", path=_END,
           old="broker.storing.durable_at()", new="0",
           tests=_TRANSACTION_TESTS),
    Mutant(name="no op message is written", path=_TRANSACTIONS,
           old="            self._unwritten.append(queue_offset)\n", new="", tests=_TRANSACTION_TESTS),
    Mutant(name="an op message that the store refused is forgotten", path=_TRANSACTIONS,
           old="            if appended.status != PutStatus.PUT_OK:\n                return\n            self._ops",
           new="            if appended.status != PutStatus.PUT_OK:\n                self._unwritten.popleft()\n"
               "                return\n            self._ops", tests=_TRANSACTION_TESTS),
    Mutant(name="a young half is asked for", path=_TRANSACTIONS,
           old="if immunity_ms is None and 0 <= age_ms < self.config.transaction_time_out:",
           new="if False:", tests=_TRANSACTION_TESTS),
    Mutant(name="a half is asked for once too often", path=_TRANSACTIONS,
           old="checks >= self.config.transaction_check_max", new="checks > self.config.transaction_check_max",
           tests=_TRANSACTION_TESTS),
    Mutant(name="a half that is given up is lost", path=_TRANSACTIONS,
           old="appended = self._storing.append(placement.given_up(half), now_ms)",
           new="appended = Appended(PutStatus.PUT_OK)", tests=_TRANSACTION_TESTS),
    Mutant(name="a half whose copy the store refuses is passed", path=_TRANSACTIONS,
           old="        if status != PutStatus.PUT_OK:\n            return _Step.END, None",
           new="        if status != PutStatus.PUT_OK:\n            return _Step.PASS, None", tests=_TRANSACTION_TESTS),
    Mutant(name="what was ended before a start is open again", path=_TRANSACTIONS,
           old="            self._done.update(named)\n", new="", tests=_TRANSACTION_TESTS),
    Mutant(name="all copies of a half are open after a start", path=_TRANSACTIONS,
           old="self._done.update(copy for copy in copies if copy != newest)", new="pass", tests=_TRANSACTION_TESTS),
    Mutant(name="op messages are passed before their halves", path=_TRANSACTIONS,
           old="while self._ops and self._ops[0][1] < self._half_offset:", new="while self._ops:",
           tests=_TRANSACTION_TESTS),
    Mutant(name="a committed message still looks like a half", path=_PLACEMENT,
           old="half.sys_flag & ~sys_flag.TRANSACTION_MASK | sys_flag.TRANSACTION_COMMIT", new="half.sys_flag",
           tests=(*_TRANSACTION_TESTS, "tests/unit/broker/test_placement.py")),
    Mutant(name="a client names the chain of its half", path=_PLACEMENT,
           old="    properties.pop(names.TRANSACTION_PREPARED_QUEUE_OFFSET, None)\n    properties",
           new="    properties",
           tests=(*_TRANSACTION_TESTS, "tests/unit/broker/test_placement.py")),
    # --- sink marks --------------------------------------------------------------------------------------------------
    Mutant(name="a row of a sink is stored twice", path=_MARKS,
           old="if mark is None or mark.sequence < sequence:", new="if mark is None or mark.sequence <= sequence:",
           tests=_MARK_TESTS),
    Mutant(name="rows behind a refused one are stored", path=_MARKS,
           old="if refused is not None and refused < sequence and (sink, refused) not in marked:", new="if False:",
           tests=_MARK_TESTS),
    Mutant(name="a refused row is forgotten when an earlier one comes", path=_MARKS,
           old="if refused is not None and refused <= mark.sequence:", new="if refused is not None:",
           tests=_MARK_TESTS),
    Mutant(name="a run may begin behind a gap", path=_MARKS,
           old="        if first.row <= wanted:\n", new="        if True:\n", tests=_MARK_TESTS),
    Mutant(name="a mark outlives the message it speaks of", path=_MARKS,
           old="if mark.physical_offset < end}", new="if True}", tests=_MARK_TESTS),
    Mutant(name="marks behind the saved ones are not looked for", path=_MARKS,
           old="            self._find(message)\n", new="            pass\n",
           tests=(*_MARK_TESTS, "tests/crash/test_sink_marks_killed.py")),
    Mutant(name="the number of marks has no limit", path=_MARKS,
           old="while len(self._marks) > self.marks_max:", new="while False:", tests=_MARK_TESTS),
    # --- held pulls --------------------------------------------------------------------------------------------------
    Mutant(name="an arrival wakes nobody", path=_STATE,
           old="self.held_requests.wake(arrivals)", new="pass",
           tests=("tests/unit/broker/handlers/test_pull_message.py",
                  "tests/unit/client/test_push_consumer.py::test_messages_that_come_later_are_consumed_at_once")),
    Mutant(name="a held pull is woken by an arrival before its offset", path=_HELD,
           old="self._make_ready(line, arrival.queue_offset)", new="self._make_ready(line, line.offset_max)",
           tests=_HELD_TESTS),
    Mutant(name="a held pull is not woken at its own offset", path=_HELD,
           old="self.entries[0][0] <= queue_offset", new="self.entries[0][0] < queue_offset",
           tests=_HELD_TESTS),
    Mutant(name="a held pull is woken by any tag", path=_HELD,
           old="for tag in (None, arrival.tags_code):", new="for tag in list(lines):", tests=_HELD_TESTS),
    Mutant(name="a held pull is answered a millisecond late", path=_HELD,
           old="self._deadlines[0][0] <= now_ms", new="self._deadlines[0][0] < now_ms", tests=_HELD_TESTS),
    Mutant(name="pulls of a closed connection stay held", path=_HELD,
           old="for held in list(self._channels.get(channel, ())):", new="for held in list[HeldRequest]():",
           tests=_HELD_TESTS),
    Mutant(name="pulls are held without a limit", path=_HELD,
           old="return self._count >= self.count_max", new="return False", tests=_HELD_TESTS),
    # --- sends -------------------------------------------------------------------------------------------------------
    Mutant(name="an undelayed message is parked", path=_PLACEMENT,
           old="    if level <= 0:\n        return\n    message.properties[names.REAL_TOPIC]",
           new="    message.properties[names.REAL_TOPIC]", tests=_PLACEMENT_TESTS),
    Mutant(name="a topic without permission takes messages", path=_SEND,
           old="    if topic.refusal_code:\n", new="    if False:\n", tests=_SEND_TESTS),
    Mutant(name="the topic of the halves takes messages", path="regulus/model/topics.py",
           old="NOT_SENDABLE_TOPICS = frozenset({SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS",
           new="NOT_SENDABLE_TOPICS = frozenset({SCHEDULE_TOPIC, TRANS", tests=_SEND_TESTS),
    Mutant(name="a topic with a hostile name is made", path=_SEND,
           old="    fault = topics.name_fault(name)\n", new="    fault = None\n",
           tests=_SEND_TESTS),
    Mutant(name="a batch may be delayed", path=_SEND,
           old="if not _NEVER_IN_BATCH.isdisjoint(header.properties) or", new="if", tests=_SEND_TESTS),
]
