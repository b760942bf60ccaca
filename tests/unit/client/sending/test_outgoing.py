import random

import pytest

from regulus.client.config import ProducerConfig
from regulus.client.sending.outgoing import Outgoing
from regulus.client.unique_key import UniqueKeys
from regulus.errors import MessageIllegal
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue


def outgoing(**properties):
    return Outgoing.single(Message("%RETRY%CG", b"x", properties=properties), "PG", ProducerConfig(),
                           UniqueKeys("10.0.0.5"), 0)


@pytest.mark.parametrize("name", ["MAX_RECONSUME_TIMES", "RECONSUME_TIME"])
@pytest.mark.parametrize("text", ["abc", "", "\u00b2", str(1 << 31), "9" * 5000])
def test_a_count_that_is_none_is_refused_before_anything_is_sent(name, text):
    with pytest.raises(MessageIllegal, match=f"property {name} of a message to a retry topic is"):
        outgoing(**{name: text})


def test_counts_travel_in_the_header():
    header = outgoing(MAX_RECONSUME_TIMES="3", RECONSUME_TIME="2", KEYS="k")._header
    assert (header.max_reconsume_times, header.reconsume_times) == (3, 2)
    assert header.properties.keys() & {"MAX_RECONSUME_TIMES", "RECONSUME_TIME", "KEYS"} == {"KEYS"}


def test_a_body_that_packing_makes_larger_is_sent_as_it_is():
    body = random.Random(1).randbytes(10_000)
    outgoing = Outgoing.single(Message("T", body), "PG", ProducerConfig(), UniqueKeys("10.0.0.5"), 0)
    command = outgoing.command(MessageQueue("T", "a", 0))
    assert bytes(command.body) == body
    assert command.ext["f"] == "0"      # sys_flag
