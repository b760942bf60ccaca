"""The scene of faults: servers, the network between them, and unhandled errors."""

import asyncio
from contextlib import suppress
from typing import Any

from regulus.testing.simulation.cluster import Machines, SimulatedBroker, SimulatedNameServer
from regulus.testing.simulation.loop import SimulatedTask, current_name, current_node


class Scene:
    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.loop = machines.loop
        self.trace = machines.trace
        self.history = machines.history
        self.network = machines.network
        self.name_servers: list[SimulatedNameServer] = []
        self.brokers: list[SimulatedBroker] = []
        self.loop.set_exception_handler(self._unhandled)
        self.loop.on_ended = self._task_ended

    def make_name_servers(self, count: int) -> str:
        """Make name servers; returns their addresses in the form that clients take."""
        self.name_servers = [SimulatedNameServer(self.machines, number + 1) for number in range(count)]
        return ";".join(each.address for each in self.name_servers)

    async def stop_servers(self) -> None:
        for broker in self.brokers:
            await broker.stop()
        for name_server in self.name_servers:
            await name_server.stop()

    def take_leave(self) -> None:
        """End the scene: nothing runs, or logs, afterwards."""
        # A coroutine may begin tasks when it ends, which need a loop; they are appended to the list.
        asyncio._set_running_loop(self.loop)
        try:
            for task in self.loop.tasks:
                if task.done():
                    self._look_at_error(task)
                else:
                    task._log_destroy_pending = False   # type: ignore[attr-defined]
                    with suppress(RuntimeError):
                        task.get_coro().close()
        finally:
            asyncio._set_running_loop(None)

    # --- unhandled errors --------------------------------------------------------------------------------------------

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        node = current_node()
        if node is None or node.is_alive:
            self.history.fault(f"{current_name()}: {context['message']}" + (f": {error!r}" if error else ""))

    def _task_ended(self, task: SimulatedTask[Any]) -> None:
        node = task.node
        if node is None or not node.is_alive or node.is_closing:
            return
        if task.cancelled() and not task.is_cancel_asked:
            self.history.fault(f"{node.name}: the task {task.get_name()!r} was ended by a cancellation that nobody "
                               "asked for")

    def _look_at_error(self, task: SimulatedTask[Any]) -> None:
        """Note the error of a task, which the task itself would log when it is collected."""
        if task._log_traceback and task.node is not None and task.node.is_alive:
            self.history.fault(f"{task.node.name}: the task {task.get_name()!r} failed, and nobody took its error: "
                               f"{task.exception()!r}")
        task._log_traceback = False


def standing(task: SimulatedTask[Any]) -> str:
    """The functions in which a task waits, the innermost last."""
    names: list[str] = []
    waits: Any = task.get_coro()
    while waits is not None:
        names.append(getattr(waits, "__qualname__", type(waits).__name__))
        waits = getattr(waits, "cr_await", None)
    return " > ".join(names)
