"""Faults of messages with a priority: where they go, in which order they are popped, who starves."""

from tests.mutants import Mutant

_PRIORITY = "regulus/model/priority.py"
_PRIORITY_TESTS = ("tests/unit/model/test_priority.py",)
_SEND = "regulus/broker/handlers/send_message.py"
_SEND_TESTS = ("tests/unit/broker/handlers/test_send_message.py",)
_POP = "regulus/broker/handlers/pop_message.py"
_POP_TESTS = ("tests/unit/broker/test_pops_by_priority.py",)
_ATTRIBUTES = "regulus/broker/attributes.py"
_ATTRIBUTES_TESTS = ("tests/unit/broker/test_attributes.py",)
_CHECK = "regulus/client/core/message_check.py"
_CHECK_TESTS = ("tests/unit/client/core/test_message_check.py",)
_TYPES = "regulus/proxy/topic_types.py"
_TYPES_TESTS = ("tests/unit/proxy/test_topic_types.py",)

MUTANTS = (
    Mutant(name="a priority above the last queue is counted round", path=_PRIORITY,
           old="max(0, min(number, queues - 1))", new="number % max(1, queues)", tests=_PRIORITY_TESTS),
    Mutant(name="a number of more than 32 bits is a priority", path=_PRIORITY,
           old="0 <= number <= PRIORITY_MAX", new="0 <= number", tests=_PRIORITY_TESTS),
    Mutant(name="a dead letter that is sent anew loses its priority", path=_PRIORITY,
           old=" and not (value == \"0\" and name == names.DELAY_TIME_LEVEL)", new="", tests=_PRIORITY_TESTS),
    Mutant(name="a priority goes straight to the queue that was asked for", path="regulus/broker/send_facts.py",
           old="{names.SINK, names.PRIORITY, ", new="{names.SINK, ", tests=_SEND_TESTS),
    Mutant(name="a delayed message goes to the queue of its priority", path=_SEND,
           old="    if priority.rival(properties):\n", new="    if False:\n", tests=_SEND_TESTS),
    Mutant(name="what has no priority any more still says so", path=_SEND,
           old="        del properties[_PRIORITY]\n", new="        pass\n", tests=_SEND_TESTS),
    Mutant(name="a retry that a client sends loses its priority", path=_SEND,
           old=" and not topic.is_retry:\n        queue_id = _queue", new=":\n        queue_id = _queue",
           tests=_SEND_TESTS),
    Mutant(name="queues that are only read take messages by priority", path=_SEND,
           old="queue_of(number, topic.write_queue_nums)", new="queue_of(number, topic.queue_nums_max)",
           tests=_SEND_TESTS),
    Mutant(name="the first queue is popped first", path=_POP,
           old="range(queues - 1, -1, -1)", new="range(queues)", tests=_POP_TESTS),
    Mutant(name="every topic is popped by priority", path=_ATTRIBUTES,
           old="attributes.get(\"message.type\") == \"PRIORITY\"", new="True", tests=_POP_TESTS),
    Mutant(name="a group's factor is not asked for", path=_POP,
           old="self._broker.chance.below(100) < priority_factor(group.attributes)", new="True", tests=_POP_TESTS),
    Mutant(name="pops in order go by priority", path=_POP,
           old="            self._pop_topic(chance, is_by_priority=False)",
           new="            self._pop_topic(chance, is_by_priority=is_popped_by_priority(self.topic.attributes))",
           tests=_POP_TESTS),
    Mutant(name="one throw chooses who goes by priority and where the others begin", path=_POP,
           old="        is_by_priority = is_popped_by_priority(self.topic.attributes) and self._goes_by_priority()\n"
               "        chance = broker.chance.below(100)\n",
           new="        is_by_priority = is_popped_by_priority(self.topic.attributes) and self._goes_by_priority()\n"
               "        chance = 99\n", tests=_POP_TESTS),
    Mutant(name="what is tried again overtakes what is urgent", path=_POP,
           old="broker.config.pop_from_retry_probability_for_priority if is_by_priority",
           new="broker.config.pop_from_retry_probability if is_by_priority", tests=_POP_TESTS),
    Mutant(name="a factor that is none keeps a group from priorities", path=_ATTRIBUTES,
           old="return int(text) if _percent(text) else 100", new="return int(text) if _percent(text) else 0",
           tests=_ATTRIBUTES_TESTS),
    Mutant(name="a client sends a priority that would not count", path=_CHECK,
           old="    if rival and names.PRIORITY in properties:\n", new="    if False:\n", tests=_CHECK_TESTS),
    Mutant(name="a transaction is sent with a priority", path="regulus/client/sending/transaction_producer.py",
           old="        check_priority_alone(properties)\n", new="",
           tests=("tests/unit/client/sending/test_transaction_producer.py",)),
    Mutant(name="messages with priorities share a batch", path="regulus/client/core/batching.py",
           old="    if names.PRIORITY in properties:\n", new="    if False:\n",
           tests=("tests/unit/client/core/test_batching.py",)),
    Mutant(name="a topic of priorities takes everything", path=_TYPES,
           old="    is_mixed = taken == _MIXED ", new="    is_mixed = True ", tests=_TYPES_TESTS),
    Mutant(name="a mixed topic refuses a priority", path=_TYPES,
           old="is_mixed and kind is MessageType.PRIORITY", new="False", tests=_TYPES_TESTS),
    Mutant(name="the front hands no priority on", path="regulus/proxy/sending.py",
           old="    stored[names.PRIORITY] = str(system.priority)\n", new="    pass\n",
           tests=("tests/unit/proxy/test_sending.py",)),
    Mutant(name="the front shows no priority", path="regulus/proxy/received.py",
           old="        system.priority = number\n", new="        pass\n",
           tests=("tests/unit/proxy/test_received.py",)),
    Mutant(name="our gRPC client leaves the priority out", path="regulus/client/grpc/conversion.py",
           old="        system.priority = number\n", new="        pass\n",
           tests=("tests/unit/client/grpc/test_conversion.py",)),
)
