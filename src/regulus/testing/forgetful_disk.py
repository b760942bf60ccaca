"""A disk that loses what was not synced: the files that a store finds after a power cut.

    with ForgetfulDisk(root) as power:
        ...                             a store works below `root`
        power.crash(seed, target)       a copy of `root` as a power cut could leave it now

While it is entered it intercepts the system calls of `store/disk.py`, and of other named modules that call `os`
themselves. It notes what each sync makes certain; nothing is really synced meanwhile. It reads only the files
themselves, so it sees writes through memory maps.

    fsync, fdatasync    the file's bytes and length, as they were when the sync began
    msync               likewise for the pages in its range, and the length
    fsync of a folder   its names: which were made, renamed and removed
    syncfs              all of it

What is written while a sync runs is not certain: `on_sync` is called in the middle of each, to write something. For
everything else a copy has the certain state, the current state, or one seen in between (by `look`, or at the beginning
of a sync): each page independently, in any order; names and lengths in the order in which they changed, as a file
system with a journal keeps them, and never without what is certain.
"""

import ctypes
import errno
import os
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from stat import S_ISDIR
from threading import RLock
from types import ModuleType, TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from regulus.store import disk

PAGE_SIZE = disk.PAGE_SIZE
SECTOR_SIZE = disk.SECTOR_SIZE
SURE_ONLY = 0
"""The seed of a crash that leaves only what is certain."""
EVERYTHING = 1
"""The seed of a crash that leaves everything, as a killed process does."""

_ZEROS = bytes(PAGE_SIZE)
_TORN_PAGES = 0.2
_ALL = 1 << 62        # more pages than a file has

T = TypeVar("T")


class SyncPoint(NamedTuple):
    """A sync in progress."""

    number: int
    """Counted from 1."""
    kind: str
    """`file`, `range`, `directory` or `filesystem`."""
    path: Path


class _History(Generic[T]):
    """The values that something had since it was last certain; the first one is certain."""

    def __init__(self, sure: T, at: int = 0) -> None:
        self.values = [sure]
        self._seen_at = [at]

    def see(self, value: T, at: int) -> None:
        if value != self.values[-1]:
            self.values.append(value)
            self._seen_at.append(at)

    def when(self, at: int) -> int:
        """When the value at the time `at` was first seen."""
        return self._seen_at[max(0, bisect_right(self._seen_at, at) - 1)]

    def value_at(self, at: int) -> T:
        """The value at the time `at`; the certain value before there was another."""
        return self.values[max(0, bisect_right(self._seen_at, at) - 1)]

    def settle(self, at: int) -> None:
        """Make the value at the time `at` certain."""
        outdated = max(0, bisect_right(self._seen_at, at) - 1)
        del self.values[:outdated], self._seen_at[:outdated]


class _File:
    """A file, held open so that its inode is not reused and its bytes outlive its name."""

    def __init__(self, descriptor: int, is_sure: bool) -> None:
        self.descriptor = descriptor
        self.length = _History(os.fstat(descriptor).st_size if is_sure else 0)
        self.pages: list[_History[bytes]] = []
        self._lost: dict[int, int] = {}
        if is_sure:
            self.pages = [_History(page) for page in self._read()]

    def _read(self) -> Iterator[bytes]:
        data = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        for position in range(0, len(data), PAGE_SIZE):
            yield data[position:position + PAGE_SIZE].ljust(PAGE_SIZE, b"\0")

    def look(self, at: int) -> None:
        self.length.see(os.fstat(self.descriptor).st_size, at)
        seen = 0
        for page in self._read():
            if seen == len(self.pages):
                self.pages.append(_History(_ZEROS))
            self.pages[seen].see(page, at)
            seen += 1
        for history in self.pages[seen:]:
            history.see(_ZEROS, at)

    def settle(self, at: int, first: int = 0, behind: int = _ALL) -> None:
        self.length.settle(at)
        for number in range(first, min(behind, len(self.pages))):
            if self._lost.get(number, -1) != self.pages[number].when(at):
                self.pages[number].settle(at)

    def lose(self, at: int, first: int, behind: int) -> None:
        """Simulate a failed sync: the system considers the pages as written, and no later sync writes them again."""
        for number in range(first, min(behind, len(self.pages))):
            self._lost[number] = self.pages[number].when(at)

    def written(self, offset: int, size: int) -> None:
        for number in range(offset // PAGE_SIZE, -(-(offset + size) // PAGE_SIZE)):
            self._lost.pop(number, None)


class _Directory:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.names: dict[str, _History[_File | _Directory | None]] = {}

    def settle(self, at: int) -> None:
        for history in self.names.values():
            history.settle(at)


class _Choice:
    """Decides what a crash leaves of values that are not certain."""

    def __init__(self, seed: int, now: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._habit = ""
        self._journal_end = self._chance.choice((0, now, self._chance.randint(0, now), self._chance.randint(0, now)))
        if seed in (SURE_ONLY, EVERYTHING):
            self._journal_end = (0, now)[seed]

    def begin_file(self) -> None:
        """Begin another file: either all its pages are lost, or all are kept, or each is decided separately."""
        self._habit = self._chance.choice(("forget", "keep", "mix", "mix"))
        if self._seed in (SURE_ONLY, EVERYTHING):
            self._habit = ("forget", "keep")[self._seed]

    def in_order(self, history: _History[T]) -> T:
        """Choose a name or a length."""
        return history.value_at(self._journal_end)

    def page(self, history: _History[bytes]) -> bytes:
        values = history.values
        if len(values) == 1 or self._habit != "mix":
            return values[0 if self._habit == "forget" else -1]
        if self._chance.random() >= _TORN_PAGES:
            return self._chance.choice(values)
        return b"".join(self._chance.choice(values)[sector:sector + SECTOR_SIZE]
                        for sector in range(0, PAGE_SIZE, SECTOR_SIZE))


class ForgetfulDisk:
    """The disk, to be entered once. Everything below `root` at that time is certain. Threads may sync at the same
    time."""

    def __init__(self, root: Path, *others: ModuleType) -> None:
        self.root = root.resolve()
        self._others = others
        self.on_sync: Callable[[SyncPoint], None] | None = None
        """Called during a sync, by the thread that syncs: what it writes is not made certain by that sync."""
        self.fails: Callable[[SyncPoint], bool] | None = None
        """Whether a sync fails; what it should have written is lost then, unless it is written again."""
        self.is_full = False
        """Whether no more blocks can be reserved."""
        self.syncs = 0
        self._now = 0
        self._lock = RLock()
        self._nodes: dict[tuple[int, int], _File | _Directory] = {}
        self._maps: list[tuple[int, int, _File]] = []
        self._replaced: list[tuple[ModuleType, str, Any]] = []

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        self._look_below(self.root, is_sure=True)
        for module in (disk, *self._others):
            self._replace(module, "os", _SystemCalls(self))
        self._replace(disk, "_libc", _LibraryCalls(self, disk._libc))
        self._replace(disk, "mmap", self._map)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        while self._replaced:
            setattr(*self._replaced.pop())
        for node in self._nodes.values():
            os.close(node.descriptor)

    def _replace(self, module: ModuleType, name: str, stand_in: Any) -> None:
        self._replaced.append((module, name, getattr(module, name)))
        setattr(module, name, stand_in)

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Note the current state of everything: the system may write it at any time, and a crash may find it."""
        with self._lock:
            self._now += 1
            self._look_below(self.root, is_sure=False)

    def _look_below(self, path: Path, is_sure: bool) -> None:
        node = self._node(path, is_sure)
        if isinstance(node, _Directory):
            self._look_at_names(node, path, is_sure)
            for name, history in node.names.items():
                if isinstance(history.values[-1], _Directory):
                    self._look_below(path / name, is_sure)
        for known in (*self._nodes.values(),) if path == self.root else ():
            if isinstance(known, _File):
                known.look(self._now)

    def _look_at_names(self, directory: _Directory, path: Path, is_sure: bool) -> None:
        found = {}
        with os.scandir(directory.descriptor) as entries:
            listed = [entry.name for entry in entries]
        for name in listed:
            node = self._node(path / name, is_sure)
            if node is not None:
                found[name] = node
        for name in found.keys() | directory.names.keys():
            if name not in directory.names:
                directory.names[name] = _History(found[name] if is_sure else None)
            directory.names[name].see(found.get(name), self._now)

    def _node(self, path: Path, is_sure: bool = False) -> _File | _Directory | None:
        """The file or folder at `path`; None when it does not exist."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        state = os.fstat(descriptor)
        key = (state.st_dev, state.st_ino)
        if key in self._nodes:
            os.close(descriptor)
        else:
            is_directory = S_ISDIR(state.st_mode)
            self._nodes[key] = _Directory(descriptor) if is_directory else _File(descriptor, is_sure)
        return self._nodes[key]

    def _node_of(self, descriptor: int) -> tuple[_File | _Directory | None, Path]:
        """The file or folder that is open; None when it is not below `root`."""
        path = _path_of(descriptor)
        state = os.fstat(descriptor)
        known = self._nodes.get((state.st_dev, state.st_ino))
        if known is not None or not path.is_relative_to(self.root):
            return known, path
        return self._node(path), path

    # --- system calls ------------------------------------------------------------------------------------

    def _map(self, descriptor: int, size: int) -> mmap:
        mapping = mmap(descriptor, size)
        begin = disk._address(mapping)
        with self._lock:
            node, _ = self._node_of(descriptor)
            self._maps = [each for each in self._maps if each[1] <= begin or begin + size <= each[0]]
            if isinstance(node, _File):
                self._maps.append((begin, begin + size, node))
        return mapping

    def sync(self, descriptor: int) -> None:
        """Sync a file or a directory. Raises OSError when it fails."""
        with self._lock:
            node, path = self._node_of(descriptor)
        if isinstance(node, _File):
            self._sync_pages(node, "file", path, 0, _ALL)
        elif isinstance(node, _Directory):
            point, at = self._begin("directory", path, node)
            if not self._run(point):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            with self._lock:
                node.settle(at)

    def sync_mapped(self, address: int, size: int) -> None:
        """Sync the pages of a map. Raises OSError when it fails."""
        with self._lock:
            begin, node = next(((begin, node) for begin, end, node in self._maps if begin <= address < end), (0, None))
        if node is not None:
            first = (address - begin) // PAGE_SIZE
            self._sync_pages(node, "range", _path_of(node.descriptor), first, first + -(-size // PAGE_SIZE))

    def sync_all(self, descriptor: int) -> None:
        """Sync the file system of a descriptor: everything below `root`, if it is there. Raises OSError when it
        fails."""
        with self._lock:
            node, _ = self._node_of(descriptor)
        if node is None:
            return      # of a copy, which belongs to another machine
        point, at = self._begin("filesystem", self.root, None)
        if not self._run(point):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with self._lock:
            for node in self._nodes.values():
                node.settle(at)

    def _sync_pages(self, file: _File, kind: str, path: Path, first: int, behind: int) -> None:
        point, at = self._begin(kind, path, file)
        is_done = self._run(point)
        with self._lock:
            if is_done:
                file.settle(at, first, behind)
                return
            file.lose(at, first, behind)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _begin(self, kind: str, path: Path, node: "_File | _Directory | None") -> tuple[SyncPoint, int]:
        """Begin a sync of `node`, or of everything; returns the sync and its time."""
        with self._lock:
            self.syncs += 1
            if node is None:
                self.look()
                return SyncPoint(self.syncs, kind, path), self._now
            self._now += 1
            if isinstance(node, _File):
                node.look(self._now)
            else:
                self._look_at_names(node, path, is_sure=False)
            return SyncPoint(self.syncs, kind, path), self._now

    def _run(self, point: SyncPoint) -> bool:
        if self.on_sync is not None:
            self.on_sync(point)
        return self.fails is None or not self.fails(point)

    def wrote(self, descriptor: int, size: int, offset: int) -> None:
        with self._lock:
            node, _ = self._node_of(descriptor)
            if isinstance(node, _File):
                node.written(offset, size)

    # --- the power cut -----------------------------------------------------------------------------------------------

    def hand_over(self, path: Path, target: Path, seed: int = EVERYTHING) -> Path:
        """Move a folder to another machine: make `target`, in the same relative position as `path`, with what a power
        cut could leave of it now. Its content is then certain; `path` is no longer used."""
        with self._lock:
            self.look()
            node = self._node(path)
            assert isinstance(node, _Directory)
            _leave(node, target, _Choice(seed, self._now))
            self._look_below(target, is_sure=True)
            parent = self._node(target.parent)
            assert isinstance(parent, _Directory)
            self._look_at_names(parent, target.parent, is_sure=True)
        return target

    def crash(self, seed: int, target: Path) -> Path:
        """Make `target`, which must not exist: `root` as it could be found after a power cut now."""
        with self._lock:
            self.look()
            root = self._node(self.root)
            assert isinstance(root, _Directory)
            _leave(root, target, _Choice(seed, self._now))
        return target


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _leave(node: _File | _Directory, target: Path, choice: _Choice) -> None:
    if isinstance(node, _File):
        choice.begin_file()
        data = b"".join([choice.page(page) for page in node.pages])
        length = choice.in_order(node.length)
        target.write_bytes(data[:length].ljust(length, b"\0"))
        return
    target.mkdir()
    for name in sorted(node.names):
        each = choice.in_order(node.names[name])
        if each is not None:
            _leave(each, target / name, choice)


@contextmanager
def rebooted() -> Iterator[None]:
    """Stores opened meanwhile see a machine that was restarted since the copy was made."""
    own = disk.boot_id
    disk.boot_id = lambda: f"after {own()}"
    try:
        yield
    finally:
        disk.boot_id = own


class _SystemCalls:
    """Replaces the module `os`."""

    def __init__(self, power: ForgetfulDisk) -> None:
        self._power = power

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        self._power.sync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self._power.sync(descriptor)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._power.wrote(descriptor, len(data), offset)
        return os.pwrite(descriptor, data, offset)

    def posix_fallocate(self, descriptor: int, offset: int, length: int) -> None:
        if self._power.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, offset, length)


class _LibraryCalls:
    """Replaces the C library."""

    def __init__(self, power: ForgetfulDisk, library: Any) -> None:
        self._power = power
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def msync(self, address: int, size: int, _flags: int) -> int:
        return _status(self._power.sync_mapped, address, size)

    def syncfs(self, descriptor: int) -> int:
        return _status(self._power.sync_all, descriptor)


def _status(sync: Callable[..., None], *arguments: int) -> int:
    """The status as the C library returns it."""
    try:
        sync(*arguments)
    except OSError as error:
        ctypes.set_errno(error.errno or 0)
        return -1
    return 0
