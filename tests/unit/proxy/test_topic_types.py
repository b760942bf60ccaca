"""Which kinds of messages a topic takes."""

import pytest

from regulus.errors import CallRefused
from regulus.proxy import topic_types
from regulus.wire.grpc.codes import MessageType

PRIORITY, NORMAL = MessageType.PRIORITY, MessageType.NORMAL


def taken(kind: str | None, untyped_take_all: bool = True) -> tuple[MessageType, ...]:
    return topic_types.accepted({} if kind is None else {"message.type": kind}, untyped_take_all)


def refused(kind: str | None, message: MessageType, untyped_take_all: bool = True) -> str:
    with pytest.raises(CallRefused) as caught:
        topic_types.check("T", taken(kind, untyped_take_all), message)
    return f"{int(caught.value.code)} {caught.value}"


def test_a_topic_of_priorities_takes_nothing_else() -> None:
    assert taken("PRIORITY") == (PRIORITY,)
    topic_types.check("T", taken("PRIORITY"), PRIORITY)
    for other in (NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION):
        assert "40014" in refused("PRIORITY", other)


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "UNSPECIFIED", "LITE"])
def test_a_topic_of_another_kind_takes_no_priority_and_says_what_does(kind: str) -> None:
    assert refused(kind, PRIORITY).endswith("use a topic with message.type=PRIORITY")
    assert "or MIXED" in refused("PRIORITY", NORMAL)


@pytest.mark.parametrize("kind", ["MIXED", None])
def test_a_mixed_topic_takes_what_clients_are_not_told_of(kind: str | None) -> None:
    topic_types.check("T", taken(kind), PRIORITY)
    assert PRIORITY not in taken(kind)
    assert "40014" in refused(None, PRIORITY, untyped_take_all=False)


@pytest.mark.parametrize(("properties", "kind"), [
    ({}, NORMAL), ({"__SHARDINGKEY": "g"}, MessageType.FIFO), ({"DELAY": "0"}, MessageType.DELAY),
    ({"TRAN_MSG": "true"}, MessageType.TRANSACTION)])
def test_the_kind_of_a_message_is_that_of_its_priority_last_of_all(properties: dict[str, str],
                                                                   kind: MessageType) -> None:
    assert topic_types.type_of(properties) == kind
    with_priority = topic_types.type_of({**properties, "_SYS_MSG_PRIORITY_": "3"})
    assert with_priority == (PRIORITY if kind is NORMAL else kind)
