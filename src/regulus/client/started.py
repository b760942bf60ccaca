"""The base of objects that are started and shut down, also with `async with`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Started(ABC):
    """`async with` starts the object, and shuts it down however the block ends."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def shutdown(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.shutdown()
