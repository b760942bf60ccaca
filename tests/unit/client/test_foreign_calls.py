"""Nothing that a callback raises gets further than the call, and everything comes back."""

import asyncio
import threading

import pytest

from regulus.client.foreign_calls import call, call_anywhere, call_from_thread, call_in_loop, is_async, run_plain


def raising(error):
    async def coroutine(argument):
        raise error

    def function(argument):
        raise error
    return [coroutine, function]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), asyncio.CancelledError()], ids=repr)
async def test_what_a_callback_raises_comes_back(error):
    for callback in raising(error):
        async with asyncio.timeout(10):
            assert await call_anywhere(callback, 1) == (None, error)


async def test_a_bare_next_in_a_function_comes_back_too():
    async with asyncio.timeout(10):
        said, error = await call_anywhere(lambda _: next(iter(())), 1)
    assert (said, type(error)) == (None, StopIteration)


async def test_what_a_callback_answers_comes_back_from_the_loop_or_from_a_thread():
    async def coroutine(argument):
        return argument, threading.get_ident()

    here = threading.get_ident()
    assert await call_anywhere(coroutine, 7) == ((7, here), None)
    (said, thread), error = await call_anywhere(lambda argument: (argument, threading.get_ident()), 7)
    assert (said, error) == (7, None)
    assert thread != here


async def test_a_call_that_is_cancelled_itself_is_cancelled():
    begun = asyncio.Event()

    async def callback():
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(call_in_loop(callback))
    await begun.wait()
    calling.cancel()
    await asyncio.wait([calling])
    assert calling.cancelled()


async def test_a_callback_that_cancels_its_task_ends_nothing_else():
    async def callback(argument):
        asyncio.current_task().cancel()
        await asyncio.Event().wait()

    async with asyncio.timeout(10):
        said, error = await call_anywhere(callback, 1)
    assert (said, type(error)) == (None, asyncio.CancelledError)
    assert asyncio.current_task().cancelling() == 0


async def test_a_callback_hears_that_its_caller_was_cancelled_and_has_its_last_word():
    begun, heard = asyncio.Event(), asyncio.Event()

    async def callback():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            heard.set()

    calling = asyncio.create_task(call_in_loop(callback))
    await begun.wait()
    calling.cancel()
    await asyncio.wait([calling])
    assert calling.cancelled()
    assert heard.is_set()


def test_a_ctrl_c_in_the_main_thread_goes_on_and_in_another_it_comes_back():
    async def callback():
        raise KeyboardInterrupt

    def run():
        with asyncio.Runner() as runner:
            return runner.run(call_in_loop(callback))

    with pytest.raises(KeyboardInterrupt):
        run()
    results = []
    thread = threading.Thread(target=lambda: results.append(call(run)))
    thread.start()
    thread.join(60)
    ((outcome, error),) = results
    assert error is None
    assert type(outcome[1]) is KeyboardInterrupt


def test_objects_with_an_async_call_are_coroutine_functions():
    class Callback:
        async def __call__(self, argument):
            return argument
    assert is_async(Callback())
    assert is_async(Callback().__call__)
    assert not is_async(lambda: None)


@pytest.mark.filterwarnings("error")
async def test_what_a_function_gives_to_be_awaited_is_awaited_in_the_loop():
    async def coroutine(argument):
        return argument, asyncio.get_running_loop()

    here = asyncio.get_running_loop()
    assert await call_anywhere(lambda argument: coroutine(argument), 7) == ((7, here), None)
    assert await asyncio.to_thread(call_from_thread, here, lambda argument: coroutine(argument), 7) == ((7, here), None)
    for error in (ValueError("x"), SystemExit(1), asyncio.CancelledError()):
        failing, _ = raising(error)
        assert await call_anywhere(lambda argument, failing=failing: failing(argument), 1) == (None, error)
        said, raised = await asyncio.to_thread(call_from_thread, here, lambda failing=failing: failing(1))
        assert (said, type(raised)) == (None, type(error))


@pytest.mark.filterwarnings("error")
def test_a_thread_that_is_to_await_in_a_loop_that_has_ended_gets_an_error():
    async def coroutine():
        return 7

    loop = asyncio.new_event_loop()
    loop.close()
    said, error = call_from_thread(loop, lambda: coroutine())
    assert (said, type(error)) == (None, RuntimeError)


@pytest.mark.filterwarnings("error")
def test_where_nothing_awaits_a_coroutine_function_is_an_error():
    async def coroutine():
        return 7

    for callback in (coroutine, lambda: coroutine()):
        with pytest.raises(TypeError, match="it has not run"):
            run_plain(callback)
    assert run_plain(lambda: 7) == 7
