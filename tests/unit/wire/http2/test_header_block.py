"""Headers of requests, and the bytes of ours."""

import pytest
from hpack import Decoder, Encoder

from regulus.errors import Http2Error
from regulus.wire.http2 import frames, header_block
from regulus.wire.http2.header_block import HeaderDecoder

PSEUDO = [(":method", "POST"), (":scheme", "http"), (":path", "/s/M"), (":authority", "h:1")]


def request(fields: list[tuple[str | bytes, str | bytes]], size_max: int = 1000) -> header_block.RequestHeaders:
    return HeaderDecoder(size_max).request(Encoder().encode(fields), 1)


def test_a_request() -> None:
    made = request([*PSEUDO, ("content-type", "application/grpc"), ("te", "trailers"), ("x-mq-client-id", "c"),
                    ("x-mq-client-id", "d"), ("x-bin", b"\xff\xfe"), ("content-length", "7")])
    assert (made.method, made.path, made.authority, made.is_too_large, made.content_length) == (
        b"POST", "/s/M", "h:1", False, 7)
    assert made.metadata == [("content-type", "application/grpc"), ("te", "trailers"), ("x-mq-client-id", "c"),
                             ("x-mq-client-id", "d"), ("content-length", "7")]


@pytest.mark.parametrize("fields", [
    PSEUDO[1:], PSEUDO[:1] + PSEUDO[2:], PSEUDO[:2] + PSEUDO[3:], [*PSEUDO, PSEUDO[2]], [*PSEUDO, (":status", "200")],
    [*PSEUDO[:3], ("a", "b"), PSEUDO[3]], [*PSEUDO[:3], ("a", b"\xff"), PSEUDO[3]], [*PSEUDO, ("Upper", "x")],
    [*PSEUDO, ("connection", "close")], [*PSEUDO, ("transfer-encoding", "chunked")], [*PSEUDO, ("te", "gzip")],
    [*PSEUDO, ("", "x")], [*PSEUDO, ("x", "a\r\nb")], [*PSEUDO, ("x", "a\nb")], [*PSEUDO, ("x", b"\0\xff")],
    [*PSEUDO, ("x\r", "a")],
    [*PSEUDO, ("content-length", "-1")],
    [*PSEUDO, ("content-length", "1"), ("content-length", "2")], [(":path", ""), *PSEUDO[:2]]])
def test_a_request_that_may_not_be_ends_its_stream(fields: list[tuple[str | bytes, str | bytes]]) -> None:
    with pytest.raises(Http2Error) as refused:
        request(fields)
    assert (refused.value.code, refused.value.stream_id) == (frames.PROTOCOL_ERROR, 1)


def test_a_list_beyond_its_limit_is_refused_and_one_far_beyond_ends_the_connection() -> None:
    size = sum(len(name) + len(value) + 32 for name, value in PSEUDO)
    assert not request(PSEUDO, size).is_too_large
    assert request(PSEUDO, size - 1).is_too_large
    decoder, encoder = HeaderDecoder(size), Encoder()
    with pytest.raises(Http2Error) as refused:
        decoder.request(encoder.encode([*PSEUDO, ("x", "y" * 4 * size)]), 1)
    assert (refused.value.code, refused.value.stream_id) == (frames.ENHANCE_YOUR_CALM, 0)


def test_a_few_bytes_that_name_one_large_header_again_and_again_end_the_connection() -> None:
    encoder, decoder = Encoder(), HeaderDecoder(16 << 10)
    decoder.request(encoder.encode([*PSEUDO, ("x-large", "y" * 4000)]), 1)
    with pytest.raises(Http2Error) as refused:
        decoder.request(encoder.encode(PSEUDO) + b"\xbe" * 10_000, 3)     # the newest entry of the table
    assert refused.value.code == frames.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("block", [b"\x80", b"\xff" * 7, b"\x40\x05ab", b"\x3f\xe1\xff\x03", b"\x00"])
def test_what_cannot_be_read_ends_the_connection(block: bytes) -> None:
    with pytest.raises(Http2Error) as refused:
        HeaderDecoder(1000).request(block, 1)
    assert (refused.value.code, refused.value.stream_id) == (frames.COMPRESSION_ERROR, 0)


def test_what_cannot_be_read_is_not_repeated_at_length() -> None:
    with pytest.raises(Http2Error) as refused:
        HeaderDecoder(16 << 10).request(b"\x00\x7f" + b"\xff" * 60_000, 1)
    assert len(str(refused.value)) < 200


def test_what_a_request_teaches_counts_for_later_ones() -> None:
    encoder, decoder = Encoder(), HeaderDecoder(1000)
    first = encoder.encode([*PSEUDO, ("x-mq-client-id", "client-1")])
    again = encoder.encode([*PSEUDO, ("x-mq-client-id", "client-1")])
    assert len(again) < len(first)
    decoder.request(first, 1)
    assert decoder.request(again, 3).metadata == [("x-mq-client-id", "client-1")]


def test_headers_behind_the_messages_are_read_and_say_nothing() -> None:
    decoder = HeaderDecoder(1000)
    decoder.trailers(Encoder().encode([("x", "y")]), 1)
    with pytest.raises(Http2Error):
        decoder.trailers(Encoder().encode([(":path", "/")]), 1)


def test_ours_can_be_read_and_are_remembered_by_nobody() -> None:
    decoder = Decoder()
    for _ in range(3):
        assert decoder.decode(header_block.RESPONSE) == [(":status", "200"), ("content-type", "application/grpc")]
        assert decoder.decode(header_block.trailers(0)) == [("grpc-status", "0")]
        assert decoder.decode(header_block.refusal(415)) == [(":status", "415")]
    assert len(decoder.header_table.dynamic_entries) == 0


@pytest.mark.parametrize("size", [1, 126, 127, 128, 254, 255, 256, 2048])
def test_a_text_of_any_size_can_be_read(size: int) -> None:
    assert Decoder().decode(header_block.trailers(3, "x" * size))[1] == ("grpc-message", "x" * size)


def test_a_text_of_a_status_is_written_by_its_bytes_and_has_an_end() -> None:
    assert Decoder().decode(header_block.trailers(3, "100 % of é\n")) == [
        ("grpc-status", "3"), ("grpc-message", "100 %25 of %C3%A9%0A")]
    (_, (name, text)) = Decoder().decode(header_block.trailers(3, "x" * 100_000))
    assert (name, text) == ("grpc-message", "x" * 2048)
    (_, (_, text)) = Decoder().decode(header_block.trailers(3, "a" + "\u6d88" * 2000))
    assert text == "a" + "%E6%B6%88" * 682      # 2,047 bytes: half a character is none
    (_, (_, text)) = Decoder().decode(header_block.trailers(3, "half \ud83d of a pair"))
    assert text == "half ? of a pair"
