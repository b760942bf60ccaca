"""Hostile frames are made from good ones: recorded, cut, and with another number in right lengths."""

import time
from pathlib import Path

from regulus.testing.attack.field import Field
from regulus.testing.attack.frames import framed, mutated, own_frames, recorded_frames, with_another_number
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "frames"


def field(seed: int, home: Path) -> Field:
    return Field("frames", seed, home, time.monotonic())


def read(data: bytes) -> list[RemotingCommand]:
    reader = FrameReader()
    reader.feed(data)
    return reader.frames()


def test_our_own_frames_are_good_ones() -> None:
    commands = [read(frame) for frame in own_frames()]
    assert [len(each) for each in commands] == [1] * len(commands)
    assert {each[0].code for each in commands} >= {11, 15, 34, 36, 37, 310}


def test_recorded_frames_are_requests() -> None:
    frames = recorded_frames(GOLDEN)
    assert len(frames) > 100
    assert {len(read(frame)) for frame in frames} == {1}


def test_a_seed_makes_the_same_frames_and_another_makes_others(tmp_path: Path) -> None:
    frames = own_frames()

    def made(seed: int) -> list[bytes]:
        player = field(seed, tmp_path)
        return [mutated(player, frames[number % len(frames)]) for number in range(200)]

    first = made(1)
    assert first == made(1) != made(2)
    assert sum(frame not in frames for frame in first) > 150


def test_a_number_is_replaced_and_the_frame_is_whole(tmp_path: Path) -> None:
    player = field(1, tmp_path)
    frame = framed(b'{"code":12345}', b"")
    for _ in range(50):
        changed = with_another_number(player, frame)
        assert int.from_bytes(changed[:4], "big") == len(changed) - 4
        assert int.from_bytes(changed[4:8], "big") == len(changed) - 8
        assert changed[8:] != b'{"code":12345}'
