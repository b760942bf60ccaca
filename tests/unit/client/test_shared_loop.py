"""The event loop that all blocking clients of a process share."""

import asyncio
import subprocess
import sys

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
    assert shared_loop.submit(asyncio.sleep(0, 7)).result(10) == 7
    assert f"raised {end.__name__}; the loop goes on" in caplog.text


def test_a_forked_child_has_a_loop_of_its_own_even_if_another_thread_had_the_lock():
    done = subprocess.run([sys.executable, "-c", FORK_WHILE_ANOTHER_HAS_THE_LOCK], capture_output=True, text=True,
                          timeout=60, check=True)
    assert done.stdout == "7\n"
