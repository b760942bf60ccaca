from regulus.broker.outcome import Frame, Reply, reply_frame
from regulus.wire.remoting_command import RemotingCommand


def test_an_answer_is_anything_that_encodes_its_parts():
    command = RemotingCommand.request(11).response(0, body=[memoryview(b"ab"), memoryview(b"cd")])
    frame = b"".join(command.encode_parts())
    assert b"".join(Frame(frame).encode_parts()) == frame


def test_a_reply_leaves_at_once_unless_it_says_what_must_be_durable():
    assert Reply(Frame(b"x")).durable_at == 0
    assert Reply(Frame(b"x"), 77).durable_at == 77


def test_an_encoded_frame_becomes_the_reply_that_the_constructors_make():
    made, short = Reply(Frame(b"frame"), 1 << 40), reply_frame(b"frame", 1 << 40)
    assert type(short) is type(made) is Reply
    assert type(short.answer) is type(made.answer) is Frame
    assert (short.answer.octets, short.durable_at) == (made.answer.octets, made.durable_at) == (b"frame", 1 << 40)
