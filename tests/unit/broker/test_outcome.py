from regulus.broker.outcome import Reply, plain_reply
from regulus.wire.remoting_command import RemotingCommand


def test_an_answer_is_a_command_or_a_frame_that_is_encoded_already():
    command = RemotingCommand.request(11).response(0, body=[memoryview(b"ab"), memoryview(b"cd")])
    frame = b"".join(command.encode_parts())
    assert Reply(command).encode_parts() == command.encode_parts()
    assert Reply(frame).encode_parts() == [frame]


def test_a_reply_leaves_at_once_unless_it_says_what_must_be_durable():
    assert Reply(b"x").durable_at == 0
    assert Reply(b"x", 77).durable_at == 77


def test_an_encoded_frame_becomes_the_reply_that_the_constructor_makes():
    made, short = Reply(b"frame", 1 << 40), plain_reply(b"frame", 1 << 40)
    assert type(short) is type(made) is Reply
    assert (short.answer, short.durable_at) == (made.answer, made.durable_at) == (b"frame", 1 << 40)
