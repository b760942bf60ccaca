"""Faults in what metrics count."""

from tests.mutants import Mutant

_LAG = ("tests/unit/broker/test_broker_metrics.py", "tests/golden/test_metrics.py")
_PAGE = ("tests/unit/wire/test_metrics_text.py",)
_SLAVE = ("tests/unit/server/test_replication.py::test_a_slave_is_ready_when_its_log_was_found_to_be_its_master_s",)

MUTANTS = [
    Mutant(name="a stranger's name ends its label", path="regulus/wire/metrics_text.py",
           old='''replace('"', '\\\\"').replace("\\n", "\\\\n")
    return value''', new='''replace("\\n", "\\\\n")
    return value''', tests=_PAGE),
    Mutant(name="the page has no limit", path="regulus/wire/metrics_text.py",
           old="if self._page.series + lines > self._page.series_max:", new="if False:", tests=_PAGE),
    Mutant(name="a batch counts as one message", path="regulus/broker/send_facts.py",
           old="        self.nums += messages\n", new="        self.nums += 1\n",
           tests=("tests/unit/broker/test_send_facts.py",)),
    Mutant(name="an ordered message counts as a normal one", path="regulus/wire/straight_properties.py",
           old="message.is_ordered = True", new="message.is_ordered = False",
           tests=("tests/property/test_straight_sends.py",)),
    Mutant(name="the lag of a group ends with its last consumer", path="regulus/broker/metrics/group_families.py",
           old='''            self._rocketmq(group, topic, lag, "false")
        self._own_lag''', new='''            self._rocketmq(group, topic, lag, "false")
        if not is_live:
            return
        self._own_lag''', tests=_LAG),
    Mutant(name="a queue without an offset is behind", path="regulus/broker/metrics/lag.py",
           old='''            if committed == NOT_FOUND:
                continue
            end = max(committed''', new='''            committed = max(committed, 0)
            end = max(committed''', tests=_LAG),
    Mutant(name="a broker that takes nothing is ready", path="regulus/server/readiness.py",
           old="self._of_disk(), ", new="", tests=("tests/unit/server/test_metrics_page.py",)),
    Mutant(name="an answer that was late counts as a success", path="regulus/server/request_server.py",
           old="(request_code, late or response_code", new="(request_code, response_code",
           tests=("tests/unit/server/test_request_server.py",)),
    Mutant(name="the end of a connection cuts its page", path="regulus/transport/http_page.py",
           old="set_write_buffer_limits(0)", new="set_write_buffer_limits(1 << 16)",
           tests=("tests/unit/transport/test_http_page.py",)),
    Mutant(name="a reader has the whole time for each part of a page", path="regulus/transport/http_page.py",
           old='''            for part in () if is_head else answer.parts:
                writer.write(part)
                await writer.drain()
''', new='''            pass
        for part in () if is_head else answer.parts:
            writer.write(part)
            async with asyncio.timeout(self._timeout_s):
                await writer.drain()
        async with asyncio.timeout(self._timeout_s):
''', tests=("tests/unit/transport/test_http_page.py",)),
    Mutant(name="what was left out takes room from others", path="regulus/wire/metrics_text.py",
           old="max(self.series_max, self.series + series)", new="self.series + series", tests=_PAGE),
    Mutant(name="a new topic has the age of the deleted one", path="regulus/broker/metrics/lag.py",
           old="self._epochs.of(topic), queue_id", new="0, queue_id", tests=_LAG),
    Mutant(name="times of messages are kept without a limit", path="regulus/broker/metrics/lag.py",
           old="if len(self._known) < TIMES_KEPT_MAX:", new="if True:", tests=_LAG),
    Mutant(name="the age of a deleted message is none", path="regulus/broker/metrics/lag.py",
           old="max(queue_offset, self._store.min_offset(topic, queue_id))", new="queue_offset", tests=_LAG),
    Mutant(name="kinds of requests are one step", path="regulus/broker/metrics/broker_families.py",
           old="if number % KINDS_A_STEP == 0:", new="if False:", tests=_LAG),
    Mutant(name="topics with timers are one step", path="regulus/broker/metrics/topic_families.py",
           old='''        add(value, *labels, topic)
        if number % TOPICS_A_STEP == 0:''', new='''        add(value, *labels, topic)
        if number < 0:''', tests=_LAG),
    Mutant(name="queues do not end a step of the exporter's names", path="regulus/broker/metrics/exporter_families.py",
           old="        self._looked += len(queues)\n", new="", tests=_LAG),
    Mutant(name="other settings of a topic begin its counts again", path="regulus/broker/send_facts.py",
           old="self.other_nums: int = 0 if before is None else before.other_nums", new="self.other_nums: int = 0",
           tests=_LAG),
    Mutant(name="forgotten pops become pulls", path="regulus/broker/statistics.py",
           old="self._forget_pops(*next(iter(self.pops)))", new="del self.pops[next(iter(self.pops))]", tests=_LAG),
    Mutant(name="a group that popped once is connected for ever", path="regulus/broker/metrics/group_families.py",
           old="pops is not None and broker.steady_ms - pops.asked_ms <= POPPED_LATELY_MS", new="pops is not None",
           tests=_LAG),
    Mutant(name="a full page counts one pair of a group as left out", path="regulus/broker/metrics/group_families.py",
           old="writer.pairs_left_out += len(topics) - number", new="writer.pairs_left_out += 1", tests=_LAG),
    Mutant(name="a part of the unflushed log is taken for all of it", path="regulus/broker/metrics/own_families.py",
           old="messages = messages * (end - begin) // (position - begin)", new="pass", tests=_LAG),
    Mutant(name="ends of deleted topics grow without a limit", path="regulus/broker/end_counts.py",
           old="if key not in table and len(table) >= KEYS_MAX:", new="if False:", tests=_LAG),
    Mutant(name="timers of deleted topics grow without a limit", path="regulus/broker/timers/totals.py",
           old="if len(self.entered) >= TOPICS_MAX:", new="if False:", tests=_LAG),
    Mutant(name="a slave that has not compared its log is ready", path="regulus/server/readiness.py",
           old="if self._replication.is_copy else", new="if True else", tests=_SLAVE),
]
