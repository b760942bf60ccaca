"""gRPC's messages in a stream's bytes."""

import gzip
import time
import tracemalloc
import zlib

import pytest

from regulus.errors import GrpcRefused
from regulus.wire.http2 import grpc_messages
from regulus.wire.http2.grpc_messages import STEP_SIZE, GrpcStatus, MessageReader, Packed, framed


def compressed(data: bytes) -> bytes:
    return b"\x01" + len(data).to_bytes(4, "big") + data


def inflated(data: bytes, size_max: int, encoding: str = "gzip") -> bytes:
    """Of one that comes whole."""
    (packed,) = MessageReader(1 << 20, encoding).feed(compressed(data))
    assert isinstance(packed, Packed)
    return b"".join(packed.inflated(size_max))


@pytest.mark.parametrize("step", [1, 2, 4, 5, 6, 9, 100])
def test_messages_are_whole_however_their_bytes_come(step: int) -> None:
    data = framed(b"one") + framed(b"") + framed(b"three") + b"\x00\x00"
    reader, found = MessageReader(100), []
    for start in range(0, len(data), step):
        found += reader.feed(data[start:start + step])
    assert (found, reader.held) == ([b"one", b"", b"three"], 2)


def test_a_message_that_comes_in_small_pieces_takes_no_more_than_its_bytes() -> None:
    data, reader = framed(bytes(range(250)) * 400), MessageReader(200_000)
    tracemalloc.start()
    try:
        for start in range(0, 100_000, 2):
            assert reader.feed(data[start:start + 2]) == []
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert reader.held == 100_000
    assert reader.feed(data[100_000:]) == [bytes(range(250)) * 400]


def test_a_message_in_many_pieces_is_put_together_once() -> None:
    """Else the loop stands still for seconds: 16 MiB in 4,096 pieces."""
    reader, piece = MessageReader(1 << 24), bytes(4096)
    began = time.thread_time()
    assert reader.feed(b"\0" + (1 << 24).to_bytes(4, "big")) == []
    for _ in range(4095):
        assert reader.feed(piece) == []
    assert [len(each) for each in reader.feed(piece)] == [1 << 24]
    assert time.thread_time() - began < 2


def test_a_small_message_behind_a_large_one_is_not_waited_with() -> None:
    reader = MessageReader(1000)
    assert reader.feed(framed(bytes(900))[:100]) == []
    assert reader.feed(framed(bytes(900))[100:]) == [bytes(900)]
    assert reader.feed(framed(b"small")) == [b"small"]


def test_a_message_has_a_size_before_it_is_there() -> None:
    assert MessageReader(3).feed(framed(b"one")) == [b"one"]
    with pytest.raises(GrpcRefused, match="4 bytes; 3 are the most") as refused:
        MessageReader(3).feed(b"\0\0\0\0\4")
    assert refused.value.status == GrpcStatus.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(("encoding", "data"), [("gzip", gzip.compress(b"hello" * 100)),
                                                ("deflate", zlib.compress(b"hello" * 100))], ids=["gzip", "deflate"])
def test_compressed_messages(encoding: str, data: bytes) -> None:
    assert inflated(data, 500, encoding) == b"hello" * 100
    with pytest.raises(GrpcRefused, match="inflates to more than 499 bytes") as refused:
        inflated(data, 499, encoding)
    assert refused.value.status == GrpcStatus.RESOURCE_EXHAUSTED
    for broken in (data[:-5], b"rubbish", b""):
        with pytest.raises(GrpcRefused) as refused:
            inflated(broken, 500, encoding)
        assert refused.value.status == GrpcStatus.INTERNAL


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("size", [0, 1, STEP_SIZE - 1, STEP_SIZE, STEP_SIZE + 1, 5 * STEP_SIZE, 1_000_000])
def test_a_compressed_message_is_inflated_in_steps(size: int, level: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    (packed,) = MessageReader(2_000_000, "gzip").feed(compressed(zlib.compress(data, level)))
    assert isinstance(packed, Packed)
    parts = list(packed.inflated(size))
    assert b"".join(parts) == data
    assert max(map(len, parts), default=0) <= STEP_SIZE
    if size:
        with pytest.raises(GrpcRefused, match="inflates to more"):
            list(packed.inflated(size - 1))


def test_what_is_compressed_is_not_looked_at_when_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Packed, "inflated", None)
    (packed,) = MessageReader(2_000_000, "gzip").feed(compressed(b"rubbish"))
    assert len(packed) == 7


def test_a_small_message_that_becomes_a_huge_one_takes_no_memory_for_it() -> None:
    bomb = compressed(zlib.compress(bytes(200 << 20), 9))
    tracemalloc.start()
    try:
        with pytest.raises(GrpcRefused, match="inflates"):
            inflated(bomb[5:], 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_an_encoding_that_nobody_named() -> None:
    for encoding in ("identity", "snappy"):
        with pytest.raises(GrpcRefused) as refused:
            MessageReader(100, encoding).feed(compressed(b"x"))
        assert refused.value.status == GrpcStatus.UNIMPLEMENTED


@pytest.mark.parametrize(("text", "seconds"), [
    ("1H", 3600.0), ("2M", 120.0), ("3S", 3.0), ("250m", 0.25), ("5u", 5e-6), ("7n", 7e-9), ("0S", 0.0),
    ("99999999H", 99_999_999 * 3600.0),
    ("", None), ("S", None), ("5", None), ("5s", None), ("-5S", None), ("123456789S", None), ("1.5S", None),
    ("\u0665S", None)])
def test_timeouts(text: str, seconds: float | None) -> None:
    assert grpc_messages.timeout_s(text) == (seconds if seconds is None else pytest.approx(seconds))
