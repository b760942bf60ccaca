"""What a request may have is looked at before it is unpacked."""


import pytest

from regulus.errors import CallRefused
from regulus.proxy.request_sizes import check_size
from regulus.wire.grpc import definitions, messages
from tests.unit.proxy.scripted_brokers import Caller

MIB = 1 << 20


def send(*bodies: int, properties: int = 0) -> bytes:
    request = messages.SendMessageRequest()
    for size in bodies:
        message = request.messages.add(body=bytes(size))
        message.topic.name = "normal"
        for number in range(properties):
            message.user_properties[str(number)] = ""
    return bytes(request.SerializeToString())


@pytest.mark.parametrize(("method", "data", "code"), [
    ("AckMessage", b"\x1a\x00" * (MIB // 2 + 1), 41300),
    ("QueryRoute", b"\x0a\x00" * (MIB // 2 + 1), 41300),
    ("SendMessage", b"\x0a\x00" * (MIB // 2 + 1), 40000),
    ("SendMessage", send(*[5_000] * 257), 40000),
    ("SendMessage", b"\x12" + b"\x80\x80\x41" + bytes(MIB + (1 << 14)), 41300),         # no message at all
    ("SendMessage", b"\x0a\x82\x80\x40" + b"\x1a\xfe\xff\x3f" + bytes(MIB - 2), 41300),      # marks of one message
    ("SendMessage", send(MIB, properties=34_000), 43101)])
def test_what_would_fill_the_memory_is_refused(method: str, data: bytes, code: int) -> None:
    with pytest.raises(CallRefused) as refused:
        check_size(method, data)
    assert refused.value.code == code


def test_what_clients_send_passes() -> None:
    check_size("AckMessage", bytes(MIB))
    check_size("SendMessage", send(*[4 * MIB] * 8, properties=128))
    check_size("SendMessage", send(*[8_000] * 256, properties=20))


async def test_a_request_of_millions_of_entries_is_not_unpacked(caller: Caller) -> None:
    for method, answer, code in (("AckMessage", messages.AckMessageResponse, 41300),
                                 ("SendMessage", messages.SendMessageResponse, 40000),
                                 ("QueryRoute", messages.QueryRouteResponse, 41300)):
        response = answer.FromString(await caller.raw(method, b"\x1a\x00" * MIB))
        assert response.status.code == code, method
    request = b"\x32\x00" * MIB
    stream = caller.channel.unary_stream(f"/{definitions.SERVICE}/ReceiveMessage")(
        request, metadata=(("x-mq-client-id", "c"),), timeout=60)
    first = messages.ReceiveMessageResponse.FromString(await stream.read())
    assert first.status.code == 41300
