"""Faults of topics of `queue.type=BatchCQ`: numbers of messages in records, units, what is taken out of a record."""

from tests.mutants import Mutant

_QUEUE = "regulus/store/batch_consume_queue.py"
_QUEUE_TESTS = ("tests/unit/store/test_batch_consume_queue.py",)
_READS = "regulus/store/batch_reads.py"
_STORE_TESTS = ("tests/unit/store/test_batch_reads.py",)
_LOG = "regulus/store/commit_log.py"
_QUEUES = "regulus/store/consume_queues.py"
_SEND = "regulus/broker/handlers/send_message.py"
_SEND_TESTS = ("tests/unit/broker/handlers/test_inner_batches.py",)
_INNER = "regulus/client/core/inner_batches.py"
_INNER_TESTS = ("tests/unit/client/core/test_inner_batches.py",)

MUTANTS = (
    Mutant(name="a batch takes one place in its queue", path=_LOG,
           old="queue.next_offset += count", new="queue.next_offset += 1", tests=_STORE_TESTS),
    Mutant(name="an inner batch does not say where its messages lie", path=_LOG,
           old="message.properties[INNER_BASE] = str(message.queue_offset)", new="pass", tests=_SEND_TESTS),
    Mutant(name="any topic takes inner batches", path=_LOG,
           old="    if not queue.is_batch:\n", new="    if False:\n", tests=_STORE_TESTS),
    Mutant(name="a unit says one message", path="regulus/record/dispatch_request.py",
           old="return count if 0 < count <= COUNT_MAX else 1", new="return 1", tests=_STORE_TESTS),
    Mutant(name="a queue that is built anew counts records", path="regulus/store/numbering.py",
           old="return request.queue_offset + request.message_count", new="return request.queue_offset + 1",
           tests=_STORE_TESTS),
    Mutant(name="records that are held count as one message each", path="regulus/store/numbering.py",
           old="sum([request.message_count for request in held])", new="len(held)",
           tests=(*_STORE_TESTS, "tests/unit/store/test_numbering.py")),
    Mutant(name="a message in the midst of a record is not found", path=_QUEUE,
           old="unit.next_offset > queue_offset)", new="unit.queue_offset >= queue_offset)", tests=_QUEUE_TESTS),
    Mutant(name="what the log does not have is kept", path=_QUEUE,
           old="                        or unit.physical_offset + unit.size > log_bound or unit.queue_offset",
           new="                        or unit.queue_offset", tests=_QUEUE_TESTS),
    Mutant(name="messages go twice behind one another", path=_QUEUE,
           old="        if offset < self._max_offset:\n", new="        if False:\n", tests=_QUEUE_TESTS),
    Mutant(name="a gap is not seen", path=_QUEUE,
           old="self.has_gap = self.has_gap or offset > self._max_offset", new="pass", tests=_QUEUE_TESTS),
    Mutant(name="a cut of the log leaves the numbers of what it cut", path=_QUEUE,
           old="        self._learn_end()\n        self.next_offset", new="        self.next_offset",
           tests=_QUEUE_TESTS),
    Mutant(name="a queue ends where its last file says", path="regulus/store/queue_check.py",
           old="queue.end < queue.known_end or queue.max_offset < queue.tabled_max_offset:", new="False:",
           tests=_STORE_TESTS),
    Mutant(name="a read counts records", path=_READS,
           old="count += unit.message_count", new="count += 1", tests=_STORE_TESTS),
    Mutant(name="a read gives more messages than were asked for", path=_READS,
           old="count + unit.message_count > count_max", new="count >= count_max", tests=_STORE_TESTS),
    Mutant(name="whatever lies there is read", path=_READS,
           old="data is not None and _is_own(data, unit, queue)", new="data is not None", tests=_STORE_TESTS),
    Mutant(name="a topic that is made anew keeps its kind", path=_QUEUES,
           old="self.batch_topics.discard(topic)", new="pass", tests=_STORE_TESTS),
    Mutant(name="the folder does not tell the kind", path=_QUEUES,
           old="self.batch_topics.update(batch_topics)", new="pass", tests=_STORE_TESTS),
    Mutant(name="queues of the other kind stay in use", path=_QUEUES,
           old="        for queue_id, text in known.items():\n", new="        for queue_id, text in ():\n",
           tests=_STORE_TESTS),
    Mutant(name="a sender says that its message is an inner batch", path=_SEND,
           old="    if message.sys_flag & _INNER_BATCH or names.INNER_NUM in properties:\n", new="    if False:\n",
           tests=_SEND_TESTS),
    Mutant(name="a sender says it of a batch", path=_SEND,
           old="    if header.sys_flag & _INNER_BATCH:\n", new="    if False:\n", tests=_SEND_TESTS),
    Mutant(name="a record has more messages than a unit can say", path=_SEND,
           old="if not 0 < len(inner) <= COUNT_MAX:", new="if not inner:", tests=_SEND_TESTS),
    Mutant(name="a whole batch is popped as one message", path="regulus/broker/handlers/pop_message.py",
           old="    if keeps_batches(topic.attributes):\n", new="    if False:\n", tests=_SEND_TESTS),
    Mutant(name="a batch of other numbers than it says is taken apart", path=_INNER,
           old="if str(len(inner)) != message.properties.get(names.INNER_NUM):", new="if False:", tests=_INNER_TESTS),
    Mutant(name="all messages of a batch lie at its place", path=_INNER,
           old="message.queue_offset + index", new="message.queue_offset", tests=_INNER_TESTS),
    Mutant(name="what was taken out of a batch is taken for one", path=_INNER,
           old="~(flags.NEED_UNWRAP | ", new="~(", tests=_INNER_TESTS),
    Mutant(name="the tags of a batch's messages do not count", path="regulus/client/core/received.py",
           old="        if not tags or each.properties.get(names.TAGS) in tags:\n",
           new="        if True:\n", tests=_INNER_TESTS),
    Mutant(name="what was consumed of a batch comes again", path="regulus/client/queue_puller.py",
           old="            kept = from_offset(kept, asked)\n", new="            pass\n",
           tests=("tests/unit/client/test_queue_puller.py",)),
    Mutant(name="a whole batch is copied for one message that failed", path="regulus/client/send_back.py",
           old="if not is_of_inner_batch(message) and await", new="if await",
           tests=("tests/unit/client/test_send_back.py",)),
    Mutant(name="the gRPC front gives a whole batch as one message", path="regulus/proxy/popping.py",
           old="    if any(message.sys_flag & sys_flag.NEED_UNWRAP for message in messages):\n", new="    if False:\n",
           tests=("tests/unit/proxy/test_receive_call.py",)),
    Mutant(name="a table has a whole batch as one row", path="regulus/spark/columns.py",
           old="    if (sys_flags & sys_flag.NEED_UNWRAP).any():\n", new="    if False:\n",
           tests=("tests/unit/spark/test_columns.py",)),
)
