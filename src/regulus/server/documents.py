"""Saves the state of a server besides messages, in a worker thread.

A change of topics or groups is written at once, and its answer waits for that; while one write runs, further changes
gather for the next. Offsets change all the time and are saved at an interval, after the log is on disk up to the
messages that they refer to; if some were deleted with their topic or group, they are written at once as well. Changes
are encoded on the event loop, a part at a time; unchanged members are kept encoded.

When a document of the settings cannot be written, requests that wait for it are refused. The change stays and is tried
again: messages may have arrived for it, and clients may rely on it. Until it is saved, requests that depend on it are
refused.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from regulus.broker.kept_parts import KeptPart, When
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import StoreError
from regulus.model.happenings import Happenings
from regulus.server.kept_task import KeptTask
from regulus.wire.encoded_table import LatePieces, joined

_log = logging.getLogger(__name__)

ENCODED_PER_STEP = 64
"""Members of a document that are encoded before others have a turn of the loop."""
FAULT_RETRY_S = 1.0
"""The time after a failed write in which nothing is written, and requests that would wait are refused."""
WAITING_MAX = 100_000
"""Answers that wait; further requests are refused."""

Release = Callable[[str], None]
"""Sends an answer that waited; the text says why its change was not saved, and is empty if it was."""


class KeptState(Protocol):
    """The state to be saved, of a broker or a name server."""

    @property
    def kept_parts(self) -> Sequence[KeptPart]: ...

    @property
    def settings(self) -> SettingsChanges: ...

    def settings_saved(self, count: int) -> None:
        """The settings are on disk as they were after `count` changes."""


class KeepingStore(Protocol):
    """What the keeper needs from the store."""

    def save_config(self, name: str, pieces: Iterable[bytes]) -> None: ...

    def flush_commit_log(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    changes: int
    pieces: LatePieces
    behind: str
    note_saved: Callable[[], None]


class _Waiting(NamedTuple):
    change: int
    release: Release


class DocumentKeeper:
    """Saves documents. `flusher` is the executor that flushes the log, `writer` the one for documents. `happenings`
    gets what was made, changed and deleted, once it is saved."""

    def __init__(self, store: KeepingStore, state: KeptState, flusher: Executor, writer: Executor,
                 interval_ms: Callable[[], int]) -> None:
        self._store = store
        self._state = state
        self._flusher = flusher
        self._writer = writer
        self._interval_ms = interval_ms
        self.happenings = Happenings()
        self._unsaved = {kept.name: Happenings() for kept in state.kept_parts}
        self._loop = asyncio.get_running_loop()
        self._saved = {kept.name: kept.saved for kept in state.kept_parts}
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._task = KeptTask("saving documents", self._run, FAULT_RETRY_S)
        self._fault_until = 0.0
        self._faults: dict[str, str] = {}
        self.rounds = 0
        """The number of completed rounds of saving."""

    @property
    def fault(self) -> str:
        """Which documents are not saved, and why; empty when all are."""
        return "; ".join([f"the document {name} is not saved: {fault}" for name, fault in self._faults.items()])

    async def start(self) -> None:
        """Save the settings, now and at each change. A refused write is tried again."""
        await self._encode([kept for kept in self._state.kept_parts if kept.when is When.AT_ONCE])
        await self._save(at_once=True)
        self._state.settings.is_kept = True
        self._task.start()

    async def stop(self) -> None:
        """Answer what waits, and stop saving at changes."""
        await self._task.stop()
        await self._save(at_once=True)

    async def save_all(self) -> None:
        await self._save(at_once=True)
        await self._save(at_once=False)

    def settings_changed(self) -> None:
        """Save them now."""
        self._wake.set()

    def when_saved(self, change: int, release: Release) -> None:
        """Call `release` when that many changes of the settings are saved, or could not be."""
        settings = self._state.settings
        if change <= settings.saved:
            release("")
        elif settings.fault and self._loop.time() < self._fault_until:
            release(settings.fault)
        elif len(self._waiting) >= WAITING_MAX:
            release(f"more than {WAITING_MAX} answers wait for settings to be saved: try again later")
        else:
            self._waiting.append(_Waiting(change, release))
            self._wake.set()

    # -----------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        next_time = self._loop.time() + self._interval_ms() / 1000
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_time):
                    await self._wake.wait()
            self._wake.clear()
            await self._save(at_once=True)
            if self._loop.time() >= next_time:
                await self._save(at_once=False)
                next_time = self._loop.time() + self._interval_ms() / 1000
            self.rounds += 1
            if self._state.settings.fault:
                await asyncio.sleep(FAULT_RETRY_S)
                self._wake.set()

    async def _save(self, *, at_once: bool) -> None:
        """The settings that changed, or everything else that did."""
        await self._encode(self._changed_parts(at_once))
        # No other step of the loop runs between these lines: all documents show the same moment, with all changes until
        # then.
        change = self._state.settings.count
        changed = self._changed_parts(at_once)
        documents = [_Document(kept.name, kept.part.changes, kept.part.document(), kept.behind, kept.begin_saving())
                     for kept in changed]
        for kept in changed:
            kept.tell(self._unsaved[kept.name])
        behind_log = not at_once or any(kept.when is When.LATER for kept in changed)
        faults = await self._write(documents, behind_log=behind_log)
        for document in documents:
            self._tell(document.name, faults.get(document.name, ""))
            if document.name not in faults:
                self._saved[document.name] = document.changes
                document.note_saved()
                self.happenings.put(self._unsaved[document.name].take())
        if at_once:
            self._settle(change, next(iter(faults.values()), ""))

    def _changed_parts(self, at_once: bool) -> list[KeptPart]:
        """The changed parts, without those whose other document must be saved at once, and could not be."""
        changed = [kept for kept in self._state.kept_parts if kept.part.changes != self._saved[kept.name]]
        urgent = {kept.name for kept in changed if not at_once and self._is_at_once(kept)}
        return [kept for kept in changed if self._is_at_once(kept) == at_once and kept.behind not in urgent]

    def _is_at_once(self, kept: KeptPart) -> bool:
        return (kept.when is When.AT_ONCE or (kept.when is When.FIRST_AT_ONCE and self._saved[kept.name] < 0)
                or kept.urgent() > self._saved[kept.name])

    async def _encode(self, parts: Sequence[KeptPart]) -> None:
        """Encode almost everything that the documents need, so that making them is quick."""
        for kept in parts:
            # Twice the current number is enough, however fast others change the state meanwhile.
            for _ in range(2 * kept.unencoded // ENCODED_PER_STEP):
                if not kept.unencoded:
                    break
                kept.encode(ENCODED_PER_STEP)
                await asyncio.sleep(0)

    async def _write(self, documents: list[_Document], *, behind_log: bool) -> dict[str, str]:
        """Why documents could not be saved, by name; they are tried again at the next change or interval."""
        if not documents:
            return {}
        if behind_log:
            try:
                await self._loop.run_in_executor(self._flusher, self._store.flush_commit_log)
            except StoreError as error:
                return dict.fromkeys([document.name for document in documents], f"the log is not on disk: {error}")
        return await self._loop.run_in_executor(self._writer, _write_all, self._store, documents)

    def _tell(self, name: str, fault: str) -> None:
        """Log once when a document cannot be saved, and once when it can again."""
        if fault and name not in self._faults:
            self._faults[name] = fault
            _log.error("the document %s was not saved, and is tried again: %s", name, fault)
        elif not fault and self._faults.pop(name, None) is not None:
            _log.warning("the document %s is saved again", name)

    def _settle(self, change: int, fault: str) -> None:
        """Answer requests that waited for these changes."""
        settings = self._state.settings
        settings.fault = fault
        self._fault_until = self._loop.time() + FAULT_RETRY_S if fault else 0.0
        if not fault:
            self._state.settings_saved(change)
        while self._waiting and self._waiting[0].change <= change:
            self._waiting.popleft().release(fault)


def _write_all(store: KeepingStore, documents: list[_Document]) -> dict[str, str]:
    faults: dict[str, str] = {}
    for document in documents:
        if document.behind in faults:
            faults[document.name] = faults[document.behind]
            continue
        try:
            store.save_config(document.name, joined(document.pieces))
        except StoreError as error:
            faults[document.name] = str(error)
    return faults
