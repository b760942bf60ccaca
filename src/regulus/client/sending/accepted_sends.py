"""What a producer has taken to send and what has not ended yet; how it ends with the producer.

A call counts from its begin to its end, whatever it waits for. When the producer is shut down no more are taken; those
that were go on for a time, and what is left then is cut off: it ends at once, as a failed send does, and whoever keeps
failed sends may keep it.
"""

import asyncio
import logging
from types import TracebackType

from regulus.client.core.send_course import SendCourse
from regulus.client.tasks import HomeLoop
from regulus.errors import ClientClosed, SendCutOff

HAND_OVER_MAX_MS = 10_000
"""How long a shutdown waits for what is done with sends that were cut off, such as keeping them in a file."""

_log = logging.getLogger(__name__)


class AcceptedSends:
    """`with` it, a call counts. Raises ClientClosed when the producer is being shut down, and ClientError in another
    event loop than that of `home`, where the producer was started."""

    def __init__(self, group: str, home: HomeLoop | None = None) -> None:
        self._group = group
        self._home = home
        self._count = 0
        self._is_closing = False
        self._is_over = False
        self._has_ended = asyncio.Event()
        self._under_way: set[asyncio.Task[object] | None] = set()
        self._cut_off: dict[asyncio.Task[object], int] = {}

    def check_loop(self) -> None:
        if self._home is not None:
            self._home.check()

    def __enter__(self) -> None:
        self.check_loop()
        if self._is_closing:
            raise ClientClosed(f"producer {self._group} was shut down")
        self._count += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._count -= 1
        if self._is_closing and not self._count:
            self._has_ended.set()

    # --- the task that sends -----------------------------------------------------------------------------------------

    def begin(self, course: SendCourse) -> "asyncio.Task[object] | None":
        """From here on, the sending task may be cut off. Raises SendCutOff when it comes too late."""
        if self._is_over:
            raise self.error(course)
        task = asyncio.current_task()
        self._under_way.add(task)
        return task

    def is_cut_off(self, task: "asyncio.Task[object] | None") -> bool:
        """Of a task that finds itself cancelled: whether that was us, and nobody else wants its end."""
        if task is None or task not in self._cut_off:
            return False
        return task.uncancel() <= self._cut_off.pop(task)

    def end(self, task: "asyncio.Task[object] | None") -> None:
        self._under_way.discard(task)
        if self._cut_off:
            self.is_cut_off(task)       # it ended in the same moment, and goes on

    def error(self, course: SendCourse) -> SendCutOff:
        """What such a send raises."""
        how_far = "while this send was under way: it may be stored" if course.tried else (
            "before it was the turn of this send")
        why = "" if course.failure is None else f": {course.failure}"
        error = SendCutOff(f"producer {self._group} was shut down {how_far}{why}",
                           None if course.failure is None else course.failure.code)
        error.__cause__ = course.failure
        return error

    @property
    def are_cut_off(self) -> bool:
        """What had not ended in time was cut off, and had its time to be handed over."""
        return self._is_over

    def may_last_ms(self, wait_ms: int) -> int:
        """How long `ended` may take; 0 when nothing is left."""
        return wait_ms + HAND_OVER_MAX_MS if self._count else 0

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more."""
        self._is_closing = True

    async def ended(self, wait_ms: int) -> None:
        """After `close`: let those that were taken end, for so long, and then cut them off."""
        if await self._ends_within(wait_ms):
            return
        if not self._is_over:
            self._is_over = True
            _log.warning("producer %s is shut down and %d of its sends have not ended within %d ms "
                         "(await_termination_millis_when_shutdown): each raises SendCutOff, unless it is kept",
                         self._group, self._count, wait_ms)
            for task in self._under_way:
                if task is not None:
                    self._cut_off[task] = task.cancelling()
                    task.cancel()
        await self._ends_within(HAND_OVER_MAX_MS)

    async def _ends_within(self, wait_ms: int) -> bool:
        if not self._count:
            return True
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._has_ended.wait()
        except TimeoutError:
            return False
        return True
