from regulus.transport.read_buffer import ReadBuffer


def test_what_is_read_lies_behind_the_front():
    buffer = ReadBuffer(room_size=8, front_size=4)
    buffer.room[:3] = b"abc"
    assert len(buffer.room) == 8
    assert buffer.data[buffer.front:buffer.front + 3] == b"abc"
