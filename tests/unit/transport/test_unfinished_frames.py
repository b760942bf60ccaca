"""The account of frames that have begun and not ended."""

import pytest

from regulus.errors import ConfigError
from regulus.transport.config import TransportConfig
from regulus.transport.unfinished_frames import SMALL_FRAME, UnfinishedFrames

MIB = 1 << 20
LARGE = 16 * MIB


class Peer:
    """A holder that keeps what it was told."""

    def __init__(self, began: float = 0.0) -> None:
        self.frame_began = began
        self.told: list[str] = []

    def read_on(self) -> None:
        self.told.append("read on")

    def refuse(self, cause: str) -> None:
        self.told.append(cause)


def frames(**limits: int) -> UnfinishedFrames:
    return UnfinishedFrames(TransportConfig(**{
        "large_frames_size_max": 4 * LARGE, "unfinished_size_max": MIB, **limits}))


def test_large_frames_get_room_as_a_whole_until_there_is_none() -> None:
    account, peers = frames(), [Peer() for _ in range(6)]
    assert [account.note(peer, 100, LARGE) for peer in peers] == [True] * 4 + [False] * 2
    assert (account.large_size, account.small_size) == (4 * LARGE, 200)
    assert account.note(peers[0], 10 * MIB, LARGE)
    assert account.large_size == 4 * LARGE


def test_those_that_wait_get_room_in_their_turn() -> None:
    account, peers = frames(), [Peer() for _ in range(7)]
    for peer in peers:
        account.note(peer, 100, LARGE)
    account.forget(peers[5])        # it waited, and its connection ended
    assert [peer.told for peer in peers] == [[]] * 7
    account.forget(peers[0])
    assert [peer.told for peer in peers] == [[]] * 4 + [["read on"], [], []]
    account.forget(peers[1])
    assert peers[6].told == ["read on"]


def test_nobody_overtakes_those_that_wait() -> None:
    account, waiting, smaller = frames(large_frames_size_max=LARGE + MIB), Peer(), Peer()
    first = Peer()
    assert account.note(first, 100, 10 * MIB)
    assert not account.note(waiting, 100, LARGE)
    assert not account.note(smaller, 100, SMALL_FRAME + 1)
    account.forget(first)
    assert (waiting.told, smaller.told) == (["read on"], ["read on"])


def test_what_is_kept_of_frames_that_have_ended_takes_the_same_room() -> None:
    account, peers = frames(), [Peer() for _ in range(6)]
    account.keep(3 * LARGE)
    assert [account.note(peer, 100, LARGE) for peer in peers] == [True] + [False] * 5
    account.keep(4 * LARGE)         # less room than nothing
    account.forget(peers[0])
    assert [peer.told for peer in peers] == [[]] * 6
    account.keep(2 * LARGE)
    assert [peer.told for peer in peers] == [[], ["read on"], ["read on"], [], [], []]
    account.keep(0)
    assert [peer.told for peer in peers[3:]] == [["read on"], ["read on"], []]


def test_all_is_free_when_all_have_ended() -> None:
    account, peers = frames(), [Peer() for _ in range(20)]
    for number, peer in enumerate(peers):
        account.note(peer, 100, LARGE if number % 2 else 200)
    for peer in peers:
        account.forget(peer)
        account.forget(peer)
    assert (account.large_size, account.small_size) == (0, 0)
    account.close_overdue(1e9)
    assert all(set(peer.told) <= {"read on"} for peer in peers)


def test_a_small_frame_waits_for_nobody() -> None:
    account = frames()
    for _ in range(10):
        account.note(Peer(), 100, LARGE)
    small = Peer()
    assert account.note(small, 1000, SMALL_FRAME)
    assert account.note(small, 2000, SMALL_FRAME)
    assert small.told == []


def test_a_frame_whose_size_is_not_known_yet_may_turn_out_large() -> None:
    account, peer = frames(), Peer()
    assert account.note(peer, 2, 4)
    assert account.note(peer, 300_000, LARGE)
    assert (account.large_size, account.small_size) == (LARGE, 0)


def test_above_the_limit_the_one_that_has_not_moved_for_the_longest_is_closed() -> None:
    account, peers = frames(), [Peer() for _ in range(16)]
    for peer in peers:
        assert account.note(peer, MIB // 16, SMALL_FRAME)
    account.note(peers[0], MIB // 16, SMALL_FRAME)      # it moved
    assert account.note(Peer(), 100, 200)
    assert [peer.told for peer in peers[:3]] == [
        [], ["unfinished frames take more than 1048576 bytes, and its own has not moved for the longest"], []]
    assert account.small_size == 15 * MIB // 16 + 100


def test_what_waiting_ones_have_sent_is_bounded_too() -> None:
    account, peers = frames(), [Peer() for _ in range(40)]
    for peer in peers:
        account.note(peer, 256 << 10, LARGE)
    assert account.small_size == MIB
    assert sum(bool(peer.told) for peer in peers) == 32
    account.forget(peers[0])
    assert account.large_size == 4 * LARGE


def test_one_that_gets_room_because_another_was_closed_for_it_may_read_on() -> None:
    """Else it would not be read, and nobody would tell it again, while it has its room."""
    account, first, second = frames(large_frames_size_max=LARGE + MIB), Peer(), Peer()
    account.keep(8 * MIB)
    assert not account.note(first, 900 << 10, LARGE)
    assert account.note(second, 200 << 10, 300 << 10)
    assert first.told[0].startswith("unfinished frames take more than")
    assert (account.large_size, account.small_size) == (300 << 10, 0)


def test_a_frame_that_does_not_end_is_closed_and_one_that_waits_for_room_is_not() -> None:
    account = frames(frame_time_max_ms=60_000)
    early, later, small, waiting = Peer(100.0), Peer(131.0), Peer(100.0), Peer(100.0)
    for peer in (early, later, Peer(200.0), Peer(200.0), waiting):
        account.note(peer, 100, LARGE)
    account.note(small, 100, 200)
    account.close_overdue(160.0)
    assert early.told == []
    account.close_overdue(160.1)
    assert early.told == small.told == ["its frame has not come whole within 60000 ms"]
    assert waiting.told == ["read on"]
    assert later.told == []


@pytest.mark.parametrize(("limits", "named"), [
    ({"large_frames_size_max": LARGE}, "largeFramesSizeMax"), ({"unfinished_size_max": 0}, "unfinishedSizeMax"),
    ({"frame_time_max_ms": 0}, "frameTimeMaxMs")])
def test_limits_that_no_frame_could_keep_are_refused(limits: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        TransportConfig(**limits)
