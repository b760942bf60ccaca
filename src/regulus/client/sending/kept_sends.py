"""Keeps sends that failed for good in a local file, and sends them again once there is a broker, in order.

    kept  --its turn in its lane, and the lane does not rest-->  sent again
    sent again  --stored-->  gone
                --failed-->  kept: its lane rests, longer each time, and nothing behind it goes before it
                --failed, and tried as often, or kept as long, as may be-->  given up: told, and left to a human

A lane is a topic, or a queue of it that was chosen for the send; its order is that in which sends were kept. What is
sent anew meanwhile does not wait for it. Of the processes that keep in one file, one sends at a time, whose claim ends
with it: then another goes on. A message that is stored and whose row was not removed yet when its process died is
stored once more, as after a lost answer; its unique key is the same.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from regulus.client.config import KeptSendsConfig
from regulus.client.connecting.client_instance import now_ms, steady_ms
from regulus.client.core.kept_rules import at_its_time, counts, is_stored, is_worth_keeping, rest_ms
from regulus.client.foreign_calls import call_anywhere
from regulus.client.sending.failed_sends import FailedSend, SendAgain, SendKeeper
from regulus.client.sending.file_claim import FileClaim
from regulus.client.sending.kept_file import KeptFile, KeptSend, KeptStatus, NewSend, decode, encode
from regulus.client.tasks import TaskGroup, in_thread
from regulus.errors import (
    ClientClosed,
    ClientError,
    ConfigError,
    HeaderError,
    KeptFileUnusable,
    MessageIllegal,
    SendNotKept,
)

_log = logging.getLogger(__name__)

_IN_A_ROW_MAX = 100
"""Sends of one lane before it is another's turn."""
_TOLD_MAX = 10


class GivenUpSends(NamedTuple):
    """What is told of a file: how many sends are given up there now, and some of those that nobody was told of yet.

    `given_up` 0: there are none, or none any more.
    """

    path: Path
    given_up: int
    sends: Sequence[KeptSend]


OnGivenUp = Callable[[GivenUpSends], Awaitable[None] | None]
"""Called at the first send that is given up, for all that follow within `tell_ms` together, and when the last one was
sent or dropped, or there is none at the start. A coroutine function runs in the event loop, any other in a thread;
when it raises it is called again."""


class _Rest(NamedTuple):
    failures: int
    until_ms: int


class KeptSends(SendKeeper):
    """For one producer, which starts it and shuts it down:

        async with Producer(name_server, "orders", on_send_failed=KeptSends("orders.kept")) as producer:
            try:
                await producer.send(message)
            except SendKept:
                ...     # it will be stored, unless it is given up
    """

    def __init__(self, path: str | Path, config: KeptSendsConfig | None = None, *,
                 on_given_up: OnGivenUp | None = None, tells: bool = True) -> None:
        """Opens nothing yet. With `tells=False` what is given up is left to be told by others who use the file."""
        self.path = Path(path).absolute()
        self.config = config or KeptSendsConfig()
        self._on_given_up = on_given_up
        self._tells = tells
        self._file: KeptFile | None = None
        self._send: SendAgain | None = None
        self._claim = FileClaim(self.path)
        self._status = KeptStatus(0, 0, 0, 0)
        self._tasks = TaskGroup()
        self._worker: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._sending = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._gathering: list[tuple[Sequence[NewSend], asyncio.Future[str | None]]] = []
        self._rests: dict[str, _Rest] = {}
        self._owed: int | None = None
        self._is_open_alarm: bool | None = None
        self._tells_from_ms = 0

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self, send: SendAgain) -> None:
        """Raises KeptFileUnusable; ConfigError when another producer has it."""
        if self._send is not None:
            raise ConfigError(f"this KeptSends of {self.path} is another producer's; make one of its own for each, "
                              "with the same path if they may share it")
        self._send = send
        try:
            self._file, self._status = await in_thread(_open, self.path)
        finally:
            if self._file is None:
                self._send = None
        # In the event loop of this start, which may be another than that of the one before.
        self._stopping, self._sending, self._writing = asyncio.Event(), asyncio.Lock(), asyncio.Lock()
        self._worker = self._tasks.supervise(self._work, f"kept sends of {self.path}")

    async def shutdown(self) -> None:
        """Wait for the send under way and for what is being written; what is kept stays for the next process."""
        file = self._file
        if file is None:
            return
        self._stopping.set()
        try:
            async with self._sending:
                assert self._worker is not None
                self._worker.cancel()       # it looks, tells or rests
            if tasks := self._tasks.all():
                await asyncio.wait(tasks)
        finally:
            if self._file is file:
                self._file = self._send = None
                self._claim.release()
                await in_thread(file.close)

    @property
    def status(self) -> KeptStatus:
        """How many wait, are given up, and how old the oldest is: as of the last look, `poll_ms` ago at most."""
        return self._status

    # --- keeping -----------------------------------------------------------------------------------------------------

    async def __call__(self, failed: FailedSend) -> bool:
        """Keep the messages; they are on the disk when this returns. Raises SendNotKept, MessageIllegal."""
        now = now_ms()
        sends = [NewSend(failed.topic, failed.queue, batch[0].message_id, len(batch),
                         encode([at_its_time(message, now) for message in batch]), str(failed.error))
                 for batch in failed.batches]
        written: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._gathering.append((sends, written))
        if len(self._gathering) == 1:
            self._tasks.spawn(self._write(), f"keep sends in {self.path}")
        refusal = await written
        if refusal is not None:
            raise SendNotKept(f"{failed.error}; and it is not kept in {self.path}: {refusal}", failed.error.code)
        return True

    async def _write(self) -> None:
        """What gathered while the writing before this one took its time, in one transaction."""
        async with self._writing:
            gathered, self._gathering = self._gathering, []
            refusals: list[str | None] = ["the log says why"] * len(gathered)
            try:
                refusals = await self._add([sends for sends, _ in gathered])
            finally:
                for (_, written), refusal in zip(gathered, refusals, strict=True):
                    if not written.done():
                        written.set_result(refusal)

    async def _add(self, calls: list[Sequence[NewSend]]) -> list[str | None]:
        was_empty = not self._status.waiting
        try:
            refusals = await in_thread(self._opened().add, calls, self.config, now_ms())
            for sends in calls:
                if sends[0].lane not in self._rests:        # it has just been tried
                    self._rests[sends[0].lane] = self._rest_after(1, counted=False)
        except (KeptFileUnusable, ClientClosed) as error:
            return [str(error)] * len(calls)
        with suppress(KeptFileUnusable):    # they are kept, whatever can be read of them; the next look says why
            await self._look()
        if was_empty and self._status.waiting:
            _log.warning("sends that fail are kept in %s, to be sent again: %s", self.path, calls[0][0].error)
        return [None if refusal is None else f"{refusal}; {self._status.given_up} of them are given up: see `regulus "
                f"message kept`" for refusal in refusals]

    # --- sending again -----------------------------------------------------------------------------------------------

    async def send_now(self) -> KeptStatus | None:
        """Send what waits without waiting for the end of any rest, until each lane has nothing left or fails.

        None when another process, or another KeptSends, sends what is in the file.
        """
        if not self._has_claim():
            return None
        over = _Rest(0, steady_ms())
        self._rests = dict.fromkeys(await in_thread(self._opened().lanes), over)
        await self._send_waiting()
        return self._status

    async def _work(self) -> None:
        while not self._stopping.is_set():
            if self._has_claim():
                await self._send_waiting()
                if self._tells:
                    await self._tell()
            else:
                self._rests.clear()
                await self._look()
            try:
                await asyncio.wait_for(self._stopping.wait(), self.config.poll_ms / 1000)
            except TimeoutError:
                continue

    def _has_claim(self) -> bool:
        try:
            return self._claim.take()
        except OSError as error:
            raise KeptFileUnusable(f"the claim on {self.path} cannot be taken: {error}; check its folder and its "
                                   "rights") from error

    async def _send_waiting(self) -> None:
        async with self._sending:
            await self._settle()
            is_more = True
            while is_more and not self._stopping.is_set():
                is_more = False
                lanes = await in_thread(self._opened().lanes)
                for lane in self._rests.keys() - lanes:
                    del self._rests[lane]
                for lane in lanes:
                    is_more |= await self._send_some(lane)
            await self._look()

    async def _send_some(self, lane: str) -> bool:
        """Whether there may be more that can go now."""
        for _ in range(_IN_A_ROW_MAX):
            if self._stopping.is_set() or not await self._send_head(lane):
                return False
        return True

    async def _send_head(self, lane: str) -> bool:
        """Whether it is gone, or given up, so that it is the next one's turn."""
        if self._is_resting(lane):
            return False
        found = await in_thread(self._opened().head, lane)
        if found is None:
            return False
        head, messages = found
        if lane not in self._rests and (rest := self._rest_from_before(head)) is not None:
            self._rests[lane] = rest
            return False
        error = await self._attempt(head, messages)
        if isinstance(error, ClientClosed):
            return False
        if error is None:
            await self._remove(head)
        elif isinstance(error, ClientError) and is_worth_keeping(error):
            return await self._try_later(head, error)
        else:
            await self._failed(head, error, head.attempts, is_given_up=True)
        return True

    async def _attempt(self, head: KeptSend, messages: bytes) -> ClientError | MessageIllegal | HeaderError | None:
        """Why it is not stored, or None."""
        assert self._send is not None
        try:
            await self._send(decode(head.topic, messages), head.queue)
        except (ClientError, MessageIllegal, HeaderError) as error:
            if not isinstance(error, ClientError) or not is_stored(error):
                return error
            _log.warning("kept message %s is stored, as it seems: %s", head.message_id, error)
        return None

    async def _remove(self, head: KeptSend) -> None:
        self._owed = head.send_id
        await self._settle()
        self._rests.pop(head.lane, None)

    async def _settle(self) -> None:
        """Nothing is sent while the file still has a send that is stored: on a full disk it would go out for ever."""
        if self._owed is not None:
            await in_thread(self._opened().remove, [self._owed])
            self._owed = None

    async def _try_later(self, head: KeptSend, error: ClientError) -> bool:
        counted = counts(error)
        attempts = head.attempts + counted
        too_old = now_ms() - self.config.age_max_ms
        is_given_up = attempts >= self.config.attempts_max or head.kept_time < too_old
        await self._failed(head, error, attempts, is_given_up=is_given_up)
        if is_given_up:
            await in_thread(self._opened().give_up_older, head.lane, too_old)
            return True
        rest = self._rests.get(head.lane)
        failures = attempts if counted else 1 if rest is None else rest.failures + 1
        self._rests[head.lane] = self._rest_after(failures, counted=counted)
        return False

    async def _failed(self, head: KeptSend, error: ClientError | MessageIllegal | HeaderError, attempts: int, *,
                      is_given_up: bool) -> None:
        await in_thread(self._opened().failed, head.send_id, attempts, f"{type(error).__name__}: {error}",
                                now_ms(), is_given_up=is_given_up)

    # --- rests -------------------------------------------------------------------------------------------------------

    def _is_resting(self, lane: str) -> bool:
        rest = self._rests.get(lane)
        return rest is not None and steady_ms() < rest.until_ms

    def _rest_after(self, failures: int, *, counted: bool) -> _Rest:
        longest = self.config.rest_ms_max if counted else self.config.away_rest_ms_max
        return _Rest(failures, steady_ms() + rest_ms(failures, self.config.rest_ms, longest, random.uniform(-1, 1)))

    def _rest_from_before(self, head: KeptSend) -> _Rest | None:
        """What is left of the rest that an earlier process began: one that dies again and again must not use up all
        attempts within a moment. A clock that was set back makes it no longer."""
        if not head.attempts:
            return None
        rest = rest_ms(head.attempts, self.config.rest_ms, self.config.rest_ms_max, 0)
        left = min(rest, head.tried_time + rest - now_ms())
        return _Rest(head.attempts, steady_ms() + left) if left > 0 else None

    # --- telling -----------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Of what was given up since, as one; and when nothing is given up any more."""
        if steady_ms() < self._tells_from_ms:
            return
        count, sends = await in_thread(self._opened().untold, _TOLD_MAX)
        given_up = self._status.given_up
        if count:
            _log.error("%d sends kept in %s are given up, of them %d now, and left to you (`regulus message kept`): %s",
                       given_up, self.path, count, "; ".join(
                           f"{send.message_id} to {send.topic}, {send.attempts} attempts, {send.last_error}"
                           for send in sends))
        elif given_up or self._is_open_alarm is False:
            return
        if count:
            self._tells_from_ms = steady_ms() + self.config.tell_ms
        if self._on_given_up is not None:
            _, raised = await call_anywhere(self._on_given_up, GivenUpSends(self.path, given_up, sends))
            if raised is not None:
                self._tells_from_ms = steady_ms() + self.config.tell_ms
                _log.error("on_given_up of %s raised, and is called again in %d ms", self.path, self.config.tell_ms,
                           exc_info=raised)
                return
        await in_thread(self._opened().mark_told)
        self._is_open_alarm = count > 0

    # -----------------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        waited = self._status.waiting
        self._status = await in_thread(self._opened().status)
        if waited and not self._status.waiting:
            _log.info("no kept send waits in %s any more; %d are given up", self.path, self._status.given_up)

    def _opened(self) -> KeptFile:
        if self._file is None:
            raise ClientClosed(f"the producer of {self.path} is not running")
        return self._file


def _open(path: Path) -> tuple[KeptFile, KeptStatus]:
    file = KeptFile(path)
    try:
        return file, file.status()
    except KeptFileUnusable:
        file.close()
        raise
