"""The quick way of reading an answer to a send agrees with the long one."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.errors import HeaderError
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import SendMessageResponse
from regulus.wire.remoting_command import RESPONSE_FLAG, RemotingCommand

NUMBERS = st.integers(-5, 1 << 34).map(str) | st.sampled_from(["", "-", "007", "9" * 30, "1.5"])
TEXTS = st.text(alphabet="abAB01,\\\"\u4e2d\x01", max_size=12)
FIELDS = {"msgId": TEXTS, "queueId": NUMBERS, "queueOffset": NUMBERS, "transactionId": TEXTS, "MSG_REGION": TEXTS,
          "TRACE_ON": st.sampled_from(["true", "false", "TRUE", "no"]), "recallHandle": TEXTS, "batchUniqId": TEXTS,
          "other": TEXTS}


def read(command):
    try:
        response = SendMessageResponse.decode(command)
    except HeaderError as error:
        return str(error)
    return response.ext()


@given(st.fixed_dictionaries({}, optional=FIELDS), st.permutations(list(FIELDS)))
def test_both_ways_give_the_same(values, order):
    ext = {name: values[name] for name in order if name in values}
    frame = RemotingCommand(0, dict(ext), b"", RESPONSE_FLAG).encode()
    reader = FrameReader()
    reader.feed(frame)
    (received,) = reader.frames()
    assert read(received) == read(RemotingCommand(0, dict(ext), b"", RESPONSE_FLAG))


def test_a_usual_answer_is_read():
    ext = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "msgId": "7F", "queueId": "3",
           "queueOffset": "12345678901", "transactionId": "KEY"}
    reader = FrameReader()
    reader.feed(RemotingCommand(0, ext, b"", RESPONSE_FLAG).encode())
    response = SendMessageResponse.decode(reader.frames()[0])
    assert (response.msg_id, response.queue_id, response.queue_offset) == ("7F", 3, 12345678901)
    assert (response.transaction_id, response.region, response.trace_on) == ("KEY", "DefaultRegion", True)
