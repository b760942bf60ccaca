"""Faults of pulls that are held while their filter takes nothing, and of what is kept of filters."""

from tests.mutants import Mutant

_PULL = "regulus/broker/handlers/pull_message.py"
_STATE = "regulus/broker/state.py"
_HELD = ("tests/unit/broker/handlers/test_pull_message.py",)

MUTANTS = [
    Mutant(name="a held pull is answered for what its filter does not take", path=_PULL,
           old="if result.status is not _NO_MATCHED_MESSAGE or", new="if True or", tests=_HELD),
    Mutant(name="a held pull looks again at what it looked at", path=_PULL,
           old="    header.queue_offset = result.next_begin_offset\n", new="", tests=_HELD),
    Mutant(name="a held pull whose time is up waits for what it wants", path=_PULL,
           old=" or broker.steady_ms >= deadline_ms:", new=":", tests=_HELD),
    Mutant(name="a held pull that is not at the end waits for another message", path=_PULL,
           old="is_ready=header.queue_offset < result.max_offset", new="is_ready=False", tests=_HELD),
    Mutant(name="a held pull goes on by the filter of old", path=_PULL,
           old="        again = _check(request, header, broker, later_ms)",
           new="        again = _check(request, header, broker, later_ms)\n"
               "        again.message_filter = message_filter", tests=_HELD),
    Mutant(name="held conditions look at as much as they like in one step", path=_STATE,
           old=" or held_requests.looked >= HELD_LOOKED_MAX:", new=":", tests=_HELD),
]
