"""Frames of HTTP/2, written by the library h2 and by hand."""

import tracemalloc

import pytest
from h2.connection import H2Connection

from regulus.errors import Http2Error
from regulus.wire.http2 import frames
from regulus.wire.http2.frames import FrameReader

HEADERS = [(":method", "POST"), (":path", "/s/M"), (":scheme", "http"), (":authority", "h:1"), ("te", "trailers")]


def said_by_a_client() -> bytes:
    client = H2Connection()
    client.initiate_connection()
    client.send_headers(1, HEADERS)
    client.send_data(1, b"body of the call", end_stream=True)
    client.ping(b"8 bytes.")
    return client.data_to_send()


def kinds(found: list[frames.Frame]) -> list[tuple[int, int, int]]:
    return [(kind, flags, stream_id) for kind, flags, stream_id, _ in found]


ALL = [(frames.SETTINGS, 0, 0), (frames.HEADERS, 4, 1), (frames.DATA, 1, 1), (frames.PING, 0, 0)]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 9, 10, 24, 33, 1000])
def test_frames_are_whole_however_their_bytes_come(step: int) -> None:
    data, reader, found = said_by_a_client(), FrameReader(16_384), []
    for start in range(0, len(data), step):
        reader.feed(data[start:start + step])
        found += reader.frames()
    assert kinds(found) == ALL
    assert [payload for kind, _, _, payload in found if kind in (frames.DATA, frames.PING)] == [
        b"body of the call", b"8 bytes."]
    assert reader.held == 0


def test_what_is_not_whole_is_held() -> None:
    data, reader = said_by_a_client(), FrameReader(16_384)
    reader.feed(data[:-1])
    assert kinds(reader.frames()) == ALL[:3]
    assert reader.held == 9 + 8 - 1
    reader.feed(data[-1:])
    assert kinds(reader.frames()) == ALL[3:]


def test_another_protocol_is_told_from_its_first_bytes() -> None:
    reader = FrameReader(16_384)
    reader.feed(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    with pytest.raises(Http2Error, match="not HTTP/2") as refused:
        reader.frames()
    assert (refused.value.code, refused.value.stream_id) == (frames.PROTOCOL_ERROR, 0)


@pytest.mark.parametrize("said", [b"G", b"GET / HTTP/1.0\r\n\r\n", frames.PREFACE[:-1] + b"\r"])
def test_another_protocol_is_not_waited_for(said: bytes) -> None:
    reader = FrameReader(16_384)
    for start in range(len(said) - 1):
        reader.feed(said[start:start + 1])
        if frames.PREFACE.startswith(said[:start + 1]):
            assert reader.frames() == []
    reader.feed(said[-1:])
    with pytest.raises(Http2Error, match="not HTTP/2"):
        reader.frames()


def test_a_frame_that_comes_in_small_pieces_takes_no_more_than_its_bytes() -> None:
    data = frames.PREFACE + frames.frame(frames.DATA, 0, 1, bytes(range(250)) * 64)
    reader = FrameReader(16_384)
    tracemalloc.start()
    try:
        for start in range(0, len(data) - 1, 2):
            reader.feed(data[start:start + 2])
            assert reader.frames() == []
        assert tracemalloc.get_traced_memory()[0] < 40_000
    finally:
        tracemalloc.stop()
    reader.feed(data[-1:])
    assert reader.frames() == [(frames.DATA, 0, 1, bytes(range(250)) * 64)]


def test_the_frames_before_one_that_is_too_large_count() -> None:
    reader = FrameReader(100)
    reader.feed(frames.PREFACE + frames.frame(frames.PING, 0, 0, bytes(8)) + frames.head(frames.DATA, 0, 1, 101))
    assert kinds(reader.frames()) == [(frames.PING, 0, 0)]
    for _ in range(2):
        with pytest.raises(Http2Error, match="101 bytes") as refused:
            reader.frames()
        assert refused.value.code == frames.FRAME_SIZE_ERROR


def test_the_highest_bit_of_a_stream_is_passed_over() -> None:
    reader = FrameReader(100)
    reader.feed(frames.PREFACE + bytes.fromhex("000000000180000003"))
    assert kinds(reader.frames()) == [(frames.DATA, 1, 3)]


def test_frames_are_written_as_the_layout_says() -> None:
    assert frames.head(frames.HEADERS, 5, 7, 0x012345) == bytes.fromhex("012345010500000007")
    assert frames.window_update(3, 65_536) == bytes.fromhex("00000408000000000300010000")
    assert frames.rst_stream(5, 8) == bytes.fromhex("00000403000000000500000008")
    assert frames.goaway(9, 11, "calm") == bytes.fromhex("00000c070000000000000000090000000b") + b"calm"
    assert frames.settings({3: 100, 4: 1}) == bytes.fromhex("00000c040000000000000300000064000400000001")


@pytest.mark.parametrize(("payload", "code"), [
    (bytes.fromhex("000480000000"), frames.FLOW_CONTROL_ERROR), (bytes.fromhex("000500003fff"), frames.PROTOCOL_ERROR),
    (bytes.fromhex("000501000000"), frames.PROTOCOL_ERROR), (bytes.fromhex("000200000002"), frames.PROTOCOL_ERROR),
    (bytes(5), frames.FRAME_SIZE_ERROR)])
def test_settings_that_may_not_be(payload: bytes, code: int) -> None:
    with pytest.raises(Http2Error) as refused:
        frames.read_settings(payload)
    assert refused.value.code == code


def test_settings_that_may_be_at_their_limits() -> None:
    payload = bytes.fromhex("00047fffffff000500004000000500ffffff00020000000100ff00000001")
    assert frames.read_settings(payload) == [(4, 0x7FFFFFFF), (5, 0x4000), (5, 0xFFFFFF), (2, 1), (0xFF, 1)]


def test_padding_is_taken_off() -> None:
    assert frames.unpadded(0, b"\x02ab") == b"\x02ab"
    assert frames.unpadded(frames.PADDED, b"\x02ab\0\0") == b"ab"
    assert frames.unpadded(frames.PADDED, b"\x00ab") == b"ab"
    assert frames.unpadded(frames.PADDED, b"\x02\0\0") == b""
    for payload in (b"", b"\x01", b"\x03\0\0"):
        with pytest.raises(Http2Error, match="padding"):
            frames.unpadded(frames.PADDED, payload)
