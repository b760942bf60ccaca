"""Calls of what an application handed over: listeners, checks, local transactions. What they raise ends here.

It comes back as a value, for it must neither end the task, thread or event loop that calls, nor get lost on its way: a
future takes no StopIteration, and SystemExit stops an event loop.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable

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
    """A coroutine function in the loop, any other function in a thread."""
    if is_async(callback):
        return await call_in_loop(callback, *arguments)
    return await in_thread(call, callback, *arguments)


def is_async(callback: Callable[..., object]) -> bool:
    """True for coroutine functions and for objects whose call is one."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def _is_for_the_program(error: BaseException) -> bool:
    """Only the main thread gets a Ctrl-C; in another, the callback raised it by itself."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
