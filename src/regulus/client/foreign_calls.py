"""Calls functions of the application: listeners, checks, local transactions. They return exceptions as values.

An exception of such a function must not end the calling task, thread or event loop, and must not get lost on its way: a
future does not accept StopIteration, and SystemExit stops an event loop.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError

from regulus.client.tasks import in_thread, is_being_cancelled

CallbackResult = tuple[object, BaseException | None]
"""The answer of a callback, and the exception that it raised, if any."""


def call(callback: Callable[..., object], *arguments: object) -> CallbackResult:
    """Call a plain function here. In the event loop's thread this is only for functions that do not block."""
    try:
        return callback(*arguments), None
    except BaseException as error:
        return None, error


async def call_here(callback: Callable[..., object], *arguments: object) -> CallbackResult:
    """Call a coroutine function in this task. A cancellation of this task, by its owner or by the function, is raised,
    and so is a Ctrl-C that arrives meanwhile."""
    try:
        return await callback(*arguments), None  # type: ignore[misc]
    except BaseException as error:
        if isinstance(error, GeneratorExit) or is_being_cancelled(error) or _is_for_the_program(error):
            raise
        return None, error


async def call_in_loop(callback: Callable[..., object], *arguments: object) -> CallbackResult:
    """Call a coroutine function in a task of its own, so that cancelling that task ends nothing else."""
    calling = asyncio.get_running_loop().create_task(call_here(callback, *arguments))
    try:
        await asyncio.wait([calling])
    except asyncio.CancelledError:
        calling.cancel()
        await asyncio.wait([calling])
        if not calling.cancelled():
            calling.exception()     # retrieved, because asyncio would report it as lost otherwise
        raise
    try:
        return calling.result()
    except asyncio.CancelledError as error:
        return None, error


async def call_anywhere(callback: Callable[..., object], *arguments: object) -> CallbackResult:
    """Call a coroutine function in the loop, any other function in a thread; an awaitable answer is awaited in the
    loop."""
    if is_async(callback):
        return await call_in_loop(callback, *arguments)
    said, error = await in_thread(call, callback, *arguments)
    return await call_in_loop(_awaited, said) if _is_to_be_awaited(said) else (said, error)


def call_from_thread(loop: asyncio.AbstractEventLoop, callback: Callable[..., object],
                     *arguments: object) -> CallbackResult:
    """Call a function in this thread. An awaitable answer, such as that of a lambda around a coroutine function, is
    awaited in the loop, and this thread waits for it."""
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
    """Call a function where nothing can be awaited; returns its answer. Raises what it raises, and TypeError for an
    awaitable answer, because that has not run."""
    said = callback(*arguments)
    if _is_to_be_awaited(said):
        _drop(said)
        raise TypeError("a coroutine function was given where a plain function is called: it has not run")
    return said


async def _awaited(said: Awaitable[object]) -> object:
    return await said


def _drop(said: object) -> None:
    """Close a coroutine that is never awaited, so that Python does not report it later."""
    if inspect.iscoroutine(said):
        said.close()


def _is_to_be_awaited(said: object) -> bool:
    return said is not None and not isinstance(said, str) and inspect.isawaitable(said)


def is_async(callback: Callable[..., object]) -> bool:
    """Whether the callback is a coroutine function, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def _is_for_the_program(error: BaseException) -> bool:
    """Whether this is a Ctrl-C. Only the main thread gets one; in another thread the callback raised the error
    itself."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
