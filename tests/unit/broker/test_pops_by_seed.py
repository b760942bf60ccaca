"""Consumers that pop, acknowledge, want other times, forget, and a broker that is stopped and killed, by a seed.

No message is lost, none is one's while it is another's, and what was acknowledged in good time does not come again. In
order, no message comes before those in front of it are done.
"""

import random

import pytest

from regulus.broker.pop.flights import ACK_FLUSH_MS
from regulus.broker.state import SUBSCRIPTION_GROUP_DOCUMENT, TOPICS_DOCUMENT
from regulus.model.receipt_handle import ReceiptHandle
from regulus.wire.codes import RequestCode
from regulus.wire.headers import PopMessageRequest
from tests.unit.broker.pop_rig import NOW, Rig

SEEDS = 20
RETRIES = "%RETRY%G_T"
STEPS = 120
AWAY_MS = 50
"""How long a broker is away."""
TRIES_MAX = 1_000
"""More than a run has: nothing becomes a dead letter."""


class Play:
    def __init__(self, seed: int, *, in_order: bool) -> None:
        self.chance = random.Random(seed)
        self.in_order = in_order
        self.rig = Rig()
        self.sent: list[str] = []
        self.owned: dict[str, tuple[int, ReceiptHandle]] = {}       # until when, by which receipt
        self.acked: dict[str, int] = {}
        self.saved = self.rig.broker.documents()
        self.late_acks: set[int] = set()
        """When acks came that a kill may have forgotten."""
        self.come_twice: set[str] = set()
        """Of which a kill forgot that they were brought back."""
        self.early: set[str] = set()
        """In order: acknowledged before one in front of them, with which they come again."""
        self.copies = 0
        """That were brought back before it was saved what is done."""

    def send(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            self.sent.append(f"m{len(self.sent)}")
            self.rig.send(self.sent[-1], queue_id=self.chance.randrange(2))

    def pop(self) -> None:
        invisible_ms = self.chance.choice((2_000, 5_000, 20_000))
        header = PopMessageRequest(
            consumer_group="G", topic="T", queue_id=self.chance.randrange(2) if self.in_order else -1,
            max_msg_nums=self.chance.choice((1, 3, 32)), invisible_time=invisible_ms, poll_time=0,
            born_time=self.rig.now_ms, init_mode=0, order=self.in_order)
        answer = self.rig.ask(RequestCode.POP_MESSAGE, header.ext())
        for message, handle in self.rig.taken(answer):
            self.got(message.body.decode(), handle, self.rig.now_ms + invisible_ms)

    def got(self, body: str, handle: ReceiptHandle, until_ms: int) -> None:
        now_ms = self.rig.now_ms
        left_ms = self.owned.get(body, (0, handle))[0] - now_ms
        acked_ms = self.acked.pop(body, None)
        front = set(self.in_front_of(handle)) - self.acked.keys() if self.in_order else set()
        assert front <= self.owned.keys(), f"{body} comes before {front}"
        if body not in self.come_twice:
            assert left_ms <= 0, f"{body} is another one's for {left_ms} ms"
            assert acked_ms is None or acked_ms in self.late_acks or body in self.early, f"{body} was acknowledged"
        self.owned[body] = (until_ms, handle)

    def in_front_of(self, handle: ReceiptHandle) -> list[str]:
        return [message.body.decode() for message in self.rig.shown("T", handle.queue_id)[:handle.queue_offset]]

    def ack(self, share: float = 0.5) -> None:
        for body, (until_ms, handle) in list(self.owned.items()):
            if self.chance.random() < share and self.rig.now_ms < until_ms:
                assert self.rig.ack(handle).code == 0
                if self.in_order and set(self.in_front_of(handle)) - self.acked.keys():
                    self.early.add(body)
                self.acked[body] = self.rig.now_ms
                del self.owned[body]

    def change(self) -> None:
        for body, (until_ms, handle) in list(self.owned.items()):
            if self.chance.random() < 0.3 and self.rig.now_ms < until_ms:
                invisible_ms = self.chance.choice((1_000, 8_000))
                answer = self.rig.change(handle, invisible_ms)
                assert answer.code == 0, answer.remark
                handle = handle._replace(start_offset=handle.queue_offset, pop_time=int(answer.ext["popTime"]),
                                         invisible_time=int(answer.ext["invisibleTime"]),
                                         revive_queue_id=int(answer.ext["reviveQid"]))
                self.owned[body] = (self.rig.now_ms + invisible_ms, handle)

    def save(self) -> None:
        self.saved = self.rig.broker.documents()
        self.copies = len(self.rig.shown(RETRIES))

    def stop(self) -> None:
        self.save()
        self.rig.now_ms += AWAY_MS
        self.rig = self.rig.restarted()

    def kill(self) -> None:
        if self.in_order:
            self.save()     # what is out in order is known by its document alone
        now_ms = self.rig.now_ms
        self.late_acks |= {ms for ms in self.acked.values() if now_ms - ms <= ACK_FLUSH_MS}
        self.come_twice |= {message.body.decode() for message in self.rig.shown(RETRIES)[self.copies:]}
        now = self.rig.broker.documents()
        saved = self.saved | {name: now[name] for name in (TOPICS_DOCUMENT, SUBSCRIPTION_GROUP_DOCUMENT)}
        self.rig.broker.documents = lambda: saved
        self.rig.now_ms += AWAY_MS
        self.rig = self.rig.restarted(is_killed=True)

    def rest(self) -> None:
        self.rig.run_to(self.rig.now_ms + self.chance.choice((100, 700, 3_000)))

    def play(self) -> None:
        deeds = [self.send, self.pop, self.pop, self.pop, self.ack, self.ack, self.change, self.save, self.stop,
                 self.kill, self.rest, self.rest, self.rest]
        for _ in range(STEPS):
            self.chance.choice(deeds)()
            group = self.rig.broker.subscription_groups.table.get("G")
            if group is not None:
                self.rig.broker.subscription_groups.put(
                    group.__class__(group_name="G", retry_max_times=TRIES_MAX), NOW)
        for _ in range(60):
            self.rig.run_to(self.rig.now_ms + 1_000)
            self.pop()
            self.ack(share=1.0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_message_is_lost_or_two_ones_at_a_time(seed):
    play = Play(seed, in_order=False)
    play.play()
    assert set(play.acked) == set(play.sent)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_in_order_no_message_is_lost_or_comes_before_another(seed):
    play = Play(seed, in_order=True)
    play.play()
    assert set(play.acked) == set(play.sent)
