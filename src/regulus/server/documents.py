"""Saves what a broker or name server must not forget besides its messages.

Topics and groups are saved before the answer to the request that changed them leaves. Offsets change all the time and
are saved at an interval, in the worker thread, after the log is on disk up to what they speak of.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from regulus.errors import StoreError

_log = logging.getLogger(__name__)


class KeepingStore(Protocol):
    """What is asked of the store here."""

    def save_config(self, name: str, text: str) -> None: ...

    def flush_commit_log(self) -> int: ...


class DocumentKeeper:
    """`take_changed(with_offsets)` gives the documents that changed, name -> text."""

    def __init__(self, store: KeepingStore, take_changed: Callable[[bool], dict[str, str]],
                 worker: ThreadPoolExecutor, interval_ms: Callable[[], int]) -> None:
        self._store = store
        self._take_changed = take_changed
        self._worker = worker
        self._interval_ms = interval_ms
        self._unsaved: dict[str, str] = {}
        self._unsaved_offsets: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    def save_settings(self) -> None:
        """Topics and groups that changed, now."""
        self._unsaved = self._save({**self._unsaved, **self._take_changed(False)})

    async def stop(self) -> None:
        """Save everything once more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._save_offsets()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_ms() / 1000)
            await self._save_offsets()

    async def _save_offsets(self) -> None:
        self.save_settings()
        documents = {**self._unsaved_offsets, **self._take_changed(True)}
        if documents:
            loop = asyncio.get_running_loop()
            self._unsaved_offsets = await loop.run_in_executor(self._worker, self._save_after_log, documents)

    def _save_after_log(self, documents: dict[str, str]) -> dict[str, str]:
        try:
            self._store.flush_commit_log()
        except StoreError as error:
            _log.error("offsets were not saved, because the log is not on disk: %s", error)
            return documents
        return self._save(documents)

    def _save(self, documents: dict[str, str]) -> dict[str, str]:
        """What could not be saved, to be tried again at the next change or interval."""
        unsaved = {}
        for name, text in documents.items():
            try:
                self._store.save_config(name, text)
            except StoreError as error:
                _log.error("%s was not saved: %s", name, error)
                unsaved[name] = text
        return unsaved
