"""What a check asks, and what it allows."""

import pytest

from regulus.model.message_queue import MessageQueue
from regulus.testing.simulation.checks import retries_are_counted
from regulus.testing.simulation.history import Call, Ending, GroupFacts, History
from regulus.testing.simulation.loop import Node

LIMIT = 3


def tried(*calls: tuple[str, str, int]) -> History:
    """A message that fails at each of these: by whom, in which topic, at which offset; the tries count up."""
    history = History(lambda: 0.0)
    history.groups["group"] = GroupFacts("group", ["T"], max_reconsume_times=LIMIT)
    nodes = {name: Node(name, f"10.0.0.{name[1:]}") for name, _, _ in calls}
    for tries, (name, topic, offset) in enumerate(calls):
        call = Call("group", name, nodes[name], MessageQueue(topic, "a", 0), ["m"], [offset], tries, 0.0)
        history.began(call)
        history.ended(call, Ending.FAILED)
    return history


BEFORE = [("c1", "T", 5), ("c1", "%RETRY%group", 16), ("c1", "%RETRY%group", 17), ("c1", "%RETRY%group", 18)]


@pytest.mark.parametrize(("last", "is_wrong"), [
    (("c1", "%RETRY%group", 18), False), (("c1", "%RETRY%group", 19), True), (("c2", "%RETRY%group", 18), True)],
    ids=["where it failed", "brought by a broker", "by another member"])
def test_a_message_goes_beyond_its_limit_only_where_it_failed_last(last: tuple[str, str, int], is_wrong: bool) -> None:
    assert list(retries_are_counted(tried(*BEFORE))) == []
    found = list(retries_are_counted(tried(*BEFORE, last)))
    assert len(found) == is_wrong
    assert all("try 4, and the limit is 3" in text for text in found)
