"""Faults put into the code while it runs: the simulation sees each of them within a few seeds."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from regulus.broker import placement
from regulus.broker.filters import message_filter
from regulus.broker.groups.queue_locks import QueueLocks
from regulus.broker.handlers import pop_message
from regulus.broker.held_requests import HeldRequests
from regulus.broker.pop.flights import PopFlights
from regulus.broker.pop.orders import PopOrders
from regulus.broker.pop.revival import PopRevival
from regulus.broker.timers.copies import TimerCopies
from regulus.broker.timers.timers import Timers
from regulus.client import foreign_calls
from regulus.client.consuming.offset_store import BrokerOffsets
from regulus.client.consuming.remoting_receiver import RemotingReceiver
from regulus.client.consuming.send_back import SendBack
from regulus.client.core import ordered_queue, process_queue, received
from regulus.client.sending import transaction_producer
from regulus.client.sending.accepted_sends import AcceptedSends
from regulus.client.sending.transaction_producer import TransactionState
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message_filter import EVERYTHING
from regulus.server.durability import Durability
from regulus.server.ha_client import HaClient
from regulus.server.ha_server import HaServer
from regulus.testing.simulation.playing import play

SEEDS = 120
"""The order of sets is a part of a run, and another one in each process, so that other seeds show a fault."""

Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch], None]


def everywhere(patch: Patch, own: Any, stand_in: Any) -> None:
    """In all modules that took the function by its name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("regulus."):
            for place, value in list(vars(module).items()):
                if value is own:
                    patch.setattr(module, place, stand_in)


def locks_are_given_to_all(patch: Patch) -> None:
    patch.setattr(QueueLocks, "lock", lambda self, group, client_id, queues, now_ms, channel: list(queues))


def offsets_are_committed_early(patch: Patch) -> None:
    patch.setattr(process_queue.ProcessQueue, "commit_offset", lambda self: self.max_offset + 1)


def a_retry_is_not_counted(patch: Patch) -> None:
    own = placement.retry_copy

    def uncounted(failed: Any, *args: Any) -> Any:
        copy = own(failed, *args)
        copy.reconsume_times = min(copy.reconsume_times, 1)
        return copy

    everywhere(patch, own, uncounted)


def a_retry_is_counted_twice(patch: Patch) -> None:
    own = placement.retry_copy

    def twice(failed: Any, *args: Any) -> Any:
        copy = own(failed, *args)
        copy.reconsume_times += 1
        return copy

    everywhere(patch, own, twice)


def suspensions_are_cut_short(patch: Patch) -> None:
    everywhere(patch, ordered_queue.suspend_ms, lambda wished_ms, default_ms: 10)


def answers_do_not_wait_for_the_disk(patch: Patch) -> None:
    patch.setattr(Durability, "answer_when_durable",
                  lambda self, end, writer, frames, is_firm=False, sent=None: writer.write(frames))


def what_failed_is_not_sent_back(patch: Patch) -> None:
    async def send_back(self: SendBack, *_: Any) -> bool:
        await asyncio.sleep(0)
        return True

    patch.setattr(SendBack, "send_back", send_back)


def dead_letters_are_dropped(patch: Patch) -> None:
    async def dead_letter(self: SendBack, *_: Any) -> bool:
        await asyncio.sleep(0)
        return True

    patch.setattr(SendBack, "dead_letter", dead_letter)


def queues_are_consumed_from_behind(patch: Patch) -> None:
    def begin_next(self: Any) -> Any:
        size = min(self._rules.batch_size_max, len(self._waiting))
        self._current = [self._waiting.pop() for _ in range(size)]
        return self._current

    patch.setattr(ordered_queue.OrderedQueue, "_begin_next", begin_next)


def a_pulled_message_is_skipped(patch: Patch) -> None:
    own = received.prepare_what_fits

    def skipping(*args: Any) -> Any:
        messages, *rest = own(*args)
        return messages[1:] if len(messages) > 1 else messages, *rest

    everywhere(patch, own, skipping)


def an_older_offset_is_stored_again(patch: Patch) -> None:
    own = BrokerOffsets._update

    async def stale(self: Any, queue: Any, offset: int) -> None:
        await own(self, queue, offset)
        await own(self, queue, max(0, offset - 2))

    patch.setattr(BrokerOffsets, "_update", stale)


def a_rollback_commits(patch: Patch) -> None:
    states = transaction_producer._WIRE_STATES
    patch.setitem(states, TransactionState.ROLLBACK, states[TransactionState.COMMIT])


def a_failing_listener_ends_its_worker(patch: Patch) -> None:
    async def call_here(callback: Any, *arguments: Any) -> Any:
        return await callback(*arguments), None

    everywhere(patch, foreign_calls.call_here, call_here)


def answers_do_not_wait_for_a_slave(patch: Patch) -> None:
    def judge(self: HaServer) -> None:
        if self._replicated is not None:
            self._replicated.reached(LONG_MAX)

    patch.setattr(HaServer, "_judge", judge)


def a_slave_reports_what_it_has_not_kept(patch: Patch) -> None:
    own = HaClient.take

    def take(self: HaClient, pieces: list[tuple[int, bytes]]) -> None:
        """The last one is kept when the next one comes."""
        link: Any = self._link
        pieces = [*vars(link).get("held", ()), *(piece for piece in pieces if piece[1])]
        link.held = pieces[-1:]
        own(self, pieces[:-1])
        for offset, piece in link.held:
            link.report(offset + len(piece))

    patch.setattr(HaClient, "take", take)


def a_slave_reports_what_its_disk_has_not(patch: Patch) -> None:
    own = HaClient.__init__

    def init(self: HaClient, *arguments: Any) -> None:
        own(self, *arguments)
        self._waits_for_disk = False

    patch.setattr(HaClient, "__init__", init)


def a_slave_skips_what_comes(patch: Patch) -> None:
    patch.setattr(HaClient, "take", lambda self, pieces: None)


def conditions_take_everything(patch: Patch) -> None:
    everywhere(patch, message_filter.subscription_filter, lambda subscription: EVERYTHING)


def a_pull_that_waits_on_misses_what_comes_next(patch: Patch) -> None:
    own = HeldRequests.hold

    def hold(self: HeldRequests, held: Any, is_ready: bool = False) -> None:
        """It looked at messages before: those stand between it and where its client asked first."""
        self_places = vars(hold).setdefault("seen", {})
        place = held.channel, held.places[0].topic, held.places[0].queue_id, held.deadline_ms
        if self_places.setdefault(place, held.places[0].queue_offset) != held.places[0].queue_offset:
            held.places = (held.places[0]._replace(queue_offset=LONG_MAX),)
        own(self, held, is_ready)

    patch.setattr(HeldRequests, "hold", hold)


def timers_come_a_tick_early(patch: Patch) -> None:
    own = Timers._find_slot
    patch.setattr(Timers, "_find_slot", lambda self, now_ms: own(self, now_ms + 2_000))


def timers_forget_what_came_before_a_crash(patch: Patch) -> None:
    patch.setattr(TimerCopies, "passes_by", lambda self, waiting, is_rolled: False)


def timers_that_come_late_are_dropped(patch: Patch) -> None:
    """As those of a broker that was away when they were due."""
    own = Timers._pass_on

    def passed_on(self: Timers, physical_offset: int, entered_ms: int, is_rolled: bool, taken_out: set[str]) -> bool:
        if self._now_ms - self.read_ms > 3_000:
            return True
        return own(self, physical_offset, entered_ms, is_rolled, taken_out)

    patch.setattr(Timers, "_pass_on", passed_on)


def acks_are_answered_and_not_kept(patch: Patch) -> None:
    patch.setattr(PopFlights, "_ack", lambda self, flight, bits, host, now_ms: None)


def pops_leave_no_checkpoint(patch: Patch) -> None:
    patch.setattr(pop_message._Pop, "_note", lambda self, topic, queue_id, start, offsets: True)


def what_is_revived_is_not_counted(patch: Patch) -> None:
    own = PopRevival._copies

    def copies(self: PopRevival, *args: Any) -> Any:
        for copy in own(self, *args):
            copy.reconsume_times = 0
            yield copy

    patch.setattr(PopRevival, "_copies", copies)


def pops_come_again_before_their_time(patch: Patch) -> None:
    own, find_slot = PopRevival.tick, Timers._find_slot
    patch.setattr(Timers, "_find_slot", lambda self, now_ms: find_slot(self, now_ms + 5_000))
    patch.setattr(PopRevival, "tick", lambda self, host, now_ms, *, is_v2: own(self, host, now_ms + 5_000, is_v2=is_v2))


def an_answer_has_all_that_was_asked_for(patch: Patch) -> None:
    patch.setattr(pop_message, "ANSWER_SIZE_MAX", 1 << 30)


def a_topic_made_anew_has_out_what_the_old_one_had(patch: Patch) -> None:
    patch.setattr(PopRevival, "_is_of_another_topic", lambda self, message, checkpoint: False)


def polls_that_were_given_up_take_what_comes(patch: Patch) -> None:
    async def nothing(self: RemotingReceiver, instance: Any, asking: Any) -> None:
        await asking

    patch.setattr(RemotingReceiver, "_give_back_late", nothing)


def what_is_given_back_counts(patch: Patch) -> None:
    own = PopRevival._next_try

    def counted(self: PopRevival, *args: Any, is_counted: bool) -> Any:
        return own(self, *args, is_counted=True)

    patch.setattr(PopRevival, "_next_try", counted)


def pops_in_order_wait_for_nothing(patch: Patch) -> None:
    patch.setattr(PopOrders, "is_blocked", lambda self, *args: False)


def consumers_do_not_hear_of_an_order(patch: Patch) -> None:
    async def ask(self: RemotingReceiver, topics: Any) -> None:
        self._are_rules_told = True

    patch.setattr(RemotingReceiver, "_ask_rules", ask)


def a_shutdown_cuts_off_what_was_accepted(patch: Patch) -> None:
    ended = AcceptedSends.ended

    async def at_once(self: AcceptedSends, wait_ms: int) -> None:
        await ended(self, 0)

    patch.setattr(AcceptedSends, "ended", at_once)


def a_shutdown_leaves_what_waits_for_its_turn(patch: Patch) -> None:
    async def at_once(self: AcceptedSends, wait_ms: int) -> None:
        await asyncio.sleep(0)

    patch.setattr(AcceptedSends, "ended", at_once)


MUTANTS: list[tuple[Mutate, str, str]] = [
    (locks_are_given_to_all, "orderly-members", "orderly_queues_have_one_call"),
    (offsets_are_committed_early, "members", "offsets_wait_for_what_they_cover"),
    (a_retry_is_not_counted, "ladder", "dead_letters_are_dead"),
    (a_retry_is_counted_twice, "ladder", "retries_are_counted"),
    (suspensions_are_cut_short, "orderly-quiet", "suspended_queues_rest"),
    (answers_do_not_wait_for_the_disk, "power", "nothing_acknowledged_is_lost"),
    (what_failed_is_not_sent_back, "failing", "everything_is_consumed"),
    (dead_letters_are_dropped, "orderly", "dead_letters_are_dead"),
    (queues_are_consumed_from_behind, "orderly", "orderly_queues_keep_their_order"),
    (a_pulled_message_is_skipped, "members", "everything_is_consumed"),
    (an_older_offset_is_stored_again, "plain", "offsets_do_not_go_back"),
    (a_rollback_commits, "transactions", "transactions_end_once"),
    (a_failing_listener_ends_its_worker, "failing", "unhandled"),
    (answers_do_not_wait_for_a_slave, "sync-pair", "nothing_acknowledged_is_lost"),
    (a_slave_reports_what_it_has_not_kept, "sync-pair", "nothing_acknowledged_is_lost"),
    (a_slave_reports_what_its_disk_has_not, "sync-disks", "nothing_acknowledged_is_lost"),
    (a_slave_skips_what_comes, "sync-pair", "copies_are_copies"),
    (conditions_take_everything, "filters", "nothing_unwanted_is_consumed"),
    (timers_come_a_tick_early, "timers", "timers_keep_their_time"),
    (timers_forget_what_came_before_a_crash, "timers", "timers_come_once"),
    (timers_that_come_late_are_dropped, "timers", "nothing_acknowledged_is_lost"),
    (acks_are_answered_and_not_kept, "pops-calm", "acknowledged_messages_stay_away"),
    (pops_leave_no_checkpoint, "pops-calm", "everything_is_consumed"),
    (what_is_revived_is_not_counted, "pops-calm", "deliveries_are_counted"),
    (polls_that_were_given_up_take_what_comes, "pops-given-up", "deliveries_are_counted"),
    (what_is_given_back_counts, "pops-given-up", "deliveries_are_counted"),
    (pops_come_again_before_their_time, "pops-calm", "popped_messages_are_one_consumers"),
    (an_answer_has_all_that_was_asked_for, "pops-large", "deliveries_are_counted"),
    (a_topic_made_anew_has_out_what_the_old_one_had, "pops-made-anew", "acknowledged_messages_stay_away"),
    (pops_in_order_wait_for_nothing, "pops-orderly", "popped_messages_are_one_consumers"),
    (consumers_do_not_hear_of_an_order, "pops-orderly", "popped_queues_keep_their_order"),
    (a_shutdown_cuts_off_what_was_accepted, "producers-end", "nothing_is_missed"),
    (a_shutdown_leaves_what_waits_for_its_turn, "producers-end", "nothing_is_missed"),
    (a_pull_that_waits_on_misses_what_comes_next, "held-filters", "deliveries_are_prompt"),
]
"""What is broken, in which story it shows, and which check must say so."""


def is_found(check: str, story: str, seed: int) -> bool:
    return any(text.startswith(check + ":") for text in play(story, seed).findings)


def is_seen(mutate: Mutate, story: str, check: str, seed: int) -> bool:
    """With the fault, and not without it."""
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        is_wrong = is_found(check, story, seed)
    return is_wrong and not is_found(check, story, seed)


@pytest.mark.parametrize(("mutate", "story", "check"), MUTANTS, ids=[mutate.__name__ for mutate, _, _ in MUTANTS])
def test_a_fault_is_seen(mutate: Mutate, story: str, check: str) -> None:
    assert any(is_seen(mutate, story, check, seed) for seed in range(SEEDS)), f"not seen in {SEEDS} seeds of {story}"
