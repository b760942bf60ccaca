"""The event loop that all blocking clients of a process share."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest

from regulus.client import shared_loop
from regulus.errors import ClientError

FORK_WHILE_ANOTHER_HAS_THE_LOCK = """
import os, signal
from regulus.client import shared_loop

shared_loop.call(lambda: 1)
shared_loop._lock.acquire()
child = os.fork()
if child == 0:
    signal.alarm(10)
    os._exit(shared_loop.call(lambda: 7))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_the_result_and_the_error_of_a_coroutine_reach_the_caller():
    async def fail():
        raise KeyError("no")

    assert shared_loop.call(lambda: 7) == 7
    with pytest.raises(KeyError):
        shared_loop.run(fail())


def test_a_blocking_call_in_the_loop_itself_says_so_instead_of_waiting_for_itself():
    with pytest.raises(ClientError, match="would wait for itself"):
        shared_loop.call(lambda: shared_loop.call(lambda: 7))
    assert shared_loop.call(lambda: 7) == 7


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_nothing_that_is_called_in_the_loop_ends_it(end, caplog):
    async def leave():
        raise end

    with pytest.raises(end):
        shared_loop.run(leave())
    assert shared_loop.submit(asyncio.sleep(0, 7)).result(60) == 7
    assert f"raised {end.__name__}; the loop continues" in caplog.text


def test_a_forked_child_has_a_loop_of_its_own_even_if_another_thread_had_the_lock():
    done = subprocess.run([sys.executable, "-c", FORK_WHILE_ANOTHER_HAS_THE_LOCK], capture_output=True, text=True,
                          timeout=60, check=True)
    assert done.stdout == "7\n"


class HandsOverWhenItIsBegun(Future):
    """One more coroutine is handed over by a thread, just while this one's turn begins some."""

    def __init__(self, hand_over):
        super().__init__()
        self.hand_over = hand_over

    def add_done_callback(self, function):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self.hand_over).result(60)
        super().add_done_callback(function)


@pytest.mark.parametrize("first", [Future, HandsOverWhenItIsBegun], ids=["before", "meanwhile"])
def test_however_many_coroutines_are_handed_over_the_loop_turns_meanwhile(first):
    """What it reads and what times out has its turn between them."""
    handed, turn, is_over = threading.Event(), 0, False

    def count_turns():
        nonlocal turn
        turn += 1
        if not is_over:
            asyncio.get_running_loop().call_soon(count_turns)

    async def hold():
        asyncio.get_running_loop().call_soon(count_turns)
        handed.wait(60)

    async def begun():
        return turn

    futures = []

    def hand_all_over():
        futures.extend(shared_loop.submit(begun()) for _ in range(1000))

    if first is HandsOverWhenItIsBegun:
        handed.set()
        held = first(hand_all_over)
        shared_loop._loop().hand_over(hold(), held)
    else:
        held = shared_loop.submit(hold())
        hand_all_over()
        handed.set()
    held.result(60)
    turns = [future.result(60) for future in futures]
    is_over = True
    assert len(turns) == 1000
    assert max(Counter(turns).values()) <= shared_loop._BEGUN_AT_ONCE
    assert turns == sorted(turns)


def test_cancelling_the_future_cancels_the_coroutine_and_the_other_way_round():
    begun, ended = threading.Event(), threading.Event()

    async def wait():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    future = shared_loop.submit(wait())
    assert begun.wait(60)
    assert future.cancel()
    assert ended.wait(60)
    with pytest.raises(CancelledError):
        shared_loop.submit(cancelled()).result(60)
