"""Calls of what an application handed over: listeners, checks, local transactions. What they raise ends here.

It comes back as a value, for it must neither end the task, thread or event loop that calls, nor get lost on its way: a
future takes no StopIteration, and SystemExit stops an event loop.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError

from regulus.client.tasks import in_thread, is_being_cancelled

Outcome = tuple[object, BaseException | None]
"""What a callback answered, and what it raised."""


def call(callback: Callable[..., object], *arguments: object) -> Outcome:
    """Here and now. Not for the event loop's thread, unless it takes no time."""
    try:
        return callback(*arguments), None
    except BaseException as error:
        return None, error


async def call_here(callback: Callable[..., object], *arguments: object) -> Outcome:
    """A coroutine function, in this task, which ends when it is cancelled: by its owner, or by what it calls. A Ctrl-C
    that arrives meanwhile goes on, too."""
    try:
        return await callback(*arguments), None  # type: ignore[misc]
    except BaseException as error:
        if isinstance(error, GeneratorExit) or is_being_cancelled(error) or _is_for_the_program(error):
            raise
        return None, error


async def call_in_loop(callback: Callable[..., object], *arguments: object) -> Outcome:
    """A coroutine function, in a task of its own: one that cancels its task ends nothing else."""
    calling = asyncio.get_running_loop().create_task(call_here(callback, *arguments))
    try:
        await asyncio.wait([calling])
    except asyncio.CancelledError:
        calling.cancel()
        await asyncio.wait([calling])
        if not calling.cancelled():
            calling.exception()     # asked for, or asyncio would report that nobody has
        raise
    try:
        return calling.result()
    except asyncio.CancelledError as error:
        return None, error


async def call_anywhere(callback: Callable[..., object], *arguments: object) -> Outcome:
    """A coroutine function in the loop, any other function in a thread; what that gives to be awaited, in the loop."""
    if is_async(callback):
        return await call_in_loop(callback, *arguments)
    said, error = await in_thread(call, callback, *arguments)
    return await call_in_loop(_awaited, said) if _is_to_be_awaited(said) else (said, error)


def call_from_thread(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> Outcome:
    """Here; what it gives to be awaited, as a lambda around a coroutine function does, in the loop, for which this
    thread waits."""
    said, error = call(callback, *arguments)
    if not _is_to_be_awaited(said):
        return said, error
    calling = call_in_loop(_awaited, said)
    try:
        return asyncio.run_coroutine_threadsafe(calling, loop).result()
    except (CancelledError, RuntimeError) as ended:     # the loop has ended, or ends meanwhile
        calling.close()
        _drop(said)
        return None, ended


def run_plain(callback: Callable[..., object], *arguments: object) -> object:
    """What it answers, where nothing awaits. Raises what it raises, and TypeError for what is to be awaited, as it has
    not run."""
    said = callback(*arguments)
    if _is_to_be_awaited(said):
        _drop(said)
        raise TypeError("a coroutine function was given where a plain function is called: it has not run")
    return said


async def _awaited(said: Awaitable[object]) -> object:
    return await said


def _drop(said: object) -> None:
    """What nobody will await, so that Python does not report it at some later time."""
    if inspect.iscoroutine(said):
        said.close()


def _is_to_be_awaited(said: object) -> bool:
    return said is not None and not isinstance(said, str) and inspect.isawaitable(said)


def is_async(callback: Callable[..., object]) -> bool:
    """True for coroutine functions and for objects whose call is one."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def _is_for_the_program(error: BaseException) -> bool:
    """Only the main thread gets a Ctrl-C; in another, the callback raised it by itself."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
