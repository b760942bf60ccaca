"""Faults of pulls that are held while their filter takes nothing, and of what is kept of filters."""

from tests.mutants import Mutant

_PULL = "regulus/broker/handlers/pull_message.py"
_STATE = "regulus/broker/state.py"
_KEPT = "regulus/broker/filters/consumer_filters.py"
_BLOOM = "regulus/record/bloom_positions.py"
_HELD = ("tests/unit/broker/handlers/test_pull_message.py",)

_KEPT_TESTS = ("tests/unit/broker/filters/test_consumer_filters.py",)
_BLOOM_TESTS = ("tests/unit/record/test_bloom_positions.py",)

MUTANTS = [
    Mutant(name="a held pull is answered for what its filter does not take", path=_PULL,
           old="if result.status not in _NOTHING_YET or", new="if True or", tests=_HELD),
    Mutant(name="a held pull looks again at what it looked at", path=_PULL,
           old="    header.queue_offset = result.next_begin_offset\n", new="", tests=_HELD),
    Mutant(name="a held pull whose time is up waits for what it wants", path=_PULL,
           old=" or broker.steady_ms >= deadline_ms:", new=":", tests=_HELD),
    Mutant(name="a held pull that is not at the end waits for another message", path=_PULL,
           old="is_ready=header.queue_offset < result.max_offset", new="is_ready=False", tests=_HELD),
    Mutant(name="a held pull goes on by the filter of old", path=_PULL,
           old="if known is not None and known.subscription is subscription:", new="if known is not None:",
           tests=_HELD),
    Mutant(name="a held pull reads its condition each time", path=_PULL,
           old="if known is not None and known.subscription is None:", new="if False:", tests=_HELD),
    Mutant(name="held conditions look at as much as they like in one step", path=_STATE,
           old=" or held_requests.looked >= HELD_LOOKED_MAX:", new=":", tests=_HELD),
    Mutant(name="a condition that was told before is as young as its consumer", path=_KEPT,
           old="self._put(replace(known, client_version=version, dead_time=0))",
           new="self._put(replace(known, client_version=version, dead_time=0, born_time=now_ms))", tests=_KEPT_TESTS),
    Mutant(name="an older version of a condition replaces a newer one", path=_KEPT,
           old="version <= known.client_version:", new="False:", tests=_KEPT_TESTS),
    Mutant(name="a condition of a group without consumers stays alive", path="regulus/broker/state.py",
           old="if self.clients.consumer_group(group) is None:", new="if False:",
           tests=("tests/unit/broker/handlers/test_heart_beat.py",)),
    Mutant(name="a condition dies with the first consumer that leaves", path="regulus/broker/state.py",
           old="if self.clients.consumer_group(group) is None:", new="if True:",
           tests=("tests/unit/broker/handlers/test_heart_beat.py",)),
    Mutant(name="a condition of a topic that is subscribed no more stays alive", path=_KEPT,
           old="if topic not in topics]", new="if False]", tests=_KEPT_TESTS),
    Mutant(name="dead conditions are kept for ever", path=_KEPT,
           old="            self._forget(topic, group)\n        return 0", new="        return 0", tests=_KEPT_TESTS),
    Mutant(name="conditions fill the document without a limit", path=_KEPT,
           old="self._size + _size(topic, group, expression) <= FILTERS_SIZE_MAX", new="True", tests=_KEPT_TESTS),
    Mutant(name="one topic has conditions of any number of groups", path=_KEPT,
           old="len(filters.group_filter_data) < TOPIC_FILTERS_MAX", new="True", tests=_KEPT_TESTS),
    Mutant(name="a condition with a name that is no topic is kept", path=_KEPT,
           old="name_fault(topic) is None and ", new="", tests=_KEPT_TESTS),
    Mutant(name="a group has other places than RocketMQ gives it", path=_BLOOM,
           old="range(1, count + 1)", new="range(count)", tests=_BLOOM_TESTS),
]
