"""Faults of pops: what is handed out, to whom, and what comes again."""

from tests.mutants import Mutant

_FLIGHTS = "regulus/broker/pop_flights.py"
_REVIVAL = "regulus/broker/pop_revival.py"
_PLACES = "regulus/broker/pop_places.py"
_ORDERS = "regulus/broker/pop_orders.py"
_POP = "regulus/broker/handlers/pop_message.py"
_ACK = "regulus/broker/handlers/ack_message.py"
_TESTS = ("tests/unit/broker/test_pops.py",)

MUTANTS = (
    Mutant(name="messages are handed out though the pop is not in the log", path=_POP,
           old="        elif self._note(topic, queue_id, offset, offsets):",
           new="        elif self._note(topic, queue_id, offset, offsets) or True:", tests=_TESTS),
    Mutant(name="a pop leaves its messages to the next one", path=_POP,
           old="            broker.consumer_offsets.commit(group, topic, queue_id, result.next_begin_offset, "
               "self._now_ms)\n            broker.pop_places.note()",
           new="            broker.pop_places.note()", tests=_TESTS),
    Mutant(name="a pop is revived before its acks have come", path=_REVIVAL,
           old="if pending.checkpoint.revive_time <= self._passed_ms]", new="]", tests=_TESTS),
    Mutant(name="an ack that stands in memory is forgotten", path=_REVIVAL,
           old="            pending.acked.update(flight.offsets_of(flight.acked))\n", new="            pass\n",
           tests=("tests/property/test_pops.py",)),
    Mutant(name="an ack in the queue is passed by", path=_REVIVAL,
           old="                    pending.acked.update(acks.offsets)\n", new="                    pass\n",
           tests=_TESTS),
    Mutant(name="the last try is followed by another", path=_REVIVAL,
           old="if message.reconsume_times >= group.retry_max_times:", new="if False:", tests=_TESTS),
    Mutant(name="what the store refuses to revive is lost", path=_REVIVAL,
           old="return status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL)", new="return True",
           tests=("tests/property/test_pops.py",)),
    Mutant(name="a revive queue is done before its checkpoints are", path=_REVIVAL,
           old="queue.next_offset if first is None else first.queue_offset", new="queue.next_offset",
           tests=("tests/property/test_pops.py",)),
    Mutant(name="a forged receipt acknowledges", path=_FLIGHTS,
           old="            if offset in self.checkpoint.offsets:\n",
           new="            if True:\n                return 1\n            if offset in self.checkpoint.offsets:\n",
           tests=_TESTS),
    Mutant(name="an ack of half a pop ends it", path=_FLIGHTS,
           old="return self.acked == (1 << len(self.checkpoint.offsets)) - 1", new="return self.acked != 0",
           tests=_TESTS),
    Mutant(name="acks are not written at the end of a run", path=_FLIGHTS,
           old="        while self._partial and self", new="        while False and self", tests=_TESTS),
    Mutant(name="after a kill what is in flight is handed out again", path=_PLACES,
           old="        if is_next and behind <= self._store", new="        if False and behind <= self._store",
           tests=_TESTS),
    Mutant(name="a group that was set back is set forth by a start", path=_PLACES,
           old="known == NOT_FOUND or key.start_offset <= known < behind", new="known < behind",
           tests=("tests/property/test_pops.py",)),
    Mutant(name="a changed time leaves the old one", path=_ACK,
           old="    flights.ack(Acks(key, broker.config.broker_name, (header.offset,)), receipt.revive_queue_id,\n"
               "                receipt.invisible_time, host, now_ms)\n    ext", new="    ext", tests=_TESTS),
    Mutant(name="what is over takes another time", path=_ACK,
           old="    if is_acked or not flights.may_be_in_flight(key, receipt.invisible_time, now_ms):",
           new="    if is_acked:", tests=_TESTS),
    Mutant(name="in order, a queue gives on while a message is out", path=_ORDERS,
           old="        return now_ms < order.free_ms()\n", new="        return False\n", tests=_TESTS),
    Mutant(name="in order, a receipt of an earlier pop acknowledges", path=_ORDERS,
           old="if order is None or order.pop_time != pop_time or offset not in order.offsets:\n"
               "            return None",
           new="if order is None or offset not in order.offsets:\n            return None", tests=_TESTS),
    Mutant(name="in order, a repeated attempt is counted", path=_ORDERS,
           old="            if attempt_id and attempt_id == before.attempt_id:\n", new="            if False:\n",
           tests=_TESTS),
    Mutant(name="in order, the group goes on behind a message that is out", path=_ORDERS,
           old="            if not self.is_acked(index):\n                return offset\n", new="            pass\n",
           tests=_TESTS),
)
