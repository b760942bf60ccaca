"""The only module that calls the operating system for files.

Two things differ from ordinary file work. First, files are written through memory maps, where a full disk would end the
process with a bus error. Blocks are therefore reserved before any byte is written to them, and a full disk shows up at
that point as StoreNotWritable. (On a file system that copies on write, a reservation guarantees less: keep a margin
free there.) Second, no function keeps a descriptor that another thread could close during a sync: each one opens the
file by its path and closes it again.
"""

import ctypes
import errno
import fcntl
import os
import resource
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from mmap import MADV_RANDOM, mmap
from pathlib import Path
from struct import Struct
from weakref import finalize

from regulus.errors import StoreError, StoreLocked, StoreNotWritable

PAGE_SIZE = 4096
SECTOR_SIZE = 512
"""The unit that a disk writes at once; a power cut may come between two sectors."""

_FALLOC_KEEP_SIZE_PUNCH_HOLE = 0x03
_SYNC_FILE_RANGE_WRITE = 2
_MADV_DONTNEED = 4
_MADV_POPULATE_WRITE = 23
_MS_SYNC = 4
_NO_FOLDER = (errno.ENOTDIR, errno.EEXIST)
_DENIED = (errno.EACCES, errno.EPERM)
_FLOCK = Struct("@hhqqi")
_ZEROS = bytes(1 << 20)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.msync.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_uint)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)


def page_floor(position: int) -> int:
    return position & -PAGE_SIZE


def page_ceiling(position: int) -> int:
    return (position + PAGE_SIZE - 1) & -PAGE_SIZE


# --- faults ----------------------------------------------------------------------------------------------------------


def _not_writable(path: Path | str, error: OSError) -> StoreNotWritable:
    if error.errno == errno.EDQUOT:
        return StoreNotWritable(f"{path} cannot be written, for user {os.geteuid()} has used up its quota on that "
                                "disk: make room there, or have the quota raised")
    if error.errno == errno.ENOSPC:
        if _lacks_inodes(path):
            return StoreNotWritable(f"the disk of {path} takes no more files (0 inodes free, {free_bytes(path)} bytes "
                                    "are): delete files there")
        return StoreNotWritable(f"the disk of {path} is full ({free_bytes(path)} bytes free): make room there")
    if error.errno == errno.EROFS:
        return StoreNotWritable(f"{path} cannot be written, for its file system is read-only: mount it for writing; "
                                "where it was, the system's log says which fault made it so")
    if error.errno in _DENIED:
        return StoreNotWritable(f"{path} cannot be written ({error.strerror}): let user {os.geteuid()} write there, "
                                "or set storePathRootDir to another directory")
    if error.errno in _NO_FOLDER:
        return StoreNotWritable(f"{path} cannot be made, for a file stands where a folder belongs: move that away")
    return StoreNotWritable(f"{path} cannot be written: {error.strerror}")


@contextmanager
def _writing(path: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _not_writable(path, error) from error


@contextmanager
def _reading(path: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


@contextmanager
def _opened(path: Path | str, flags: int = os.O_RDWR, mode: int = 0o644) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- directories and whole files -------------------------------------------------------------------------------------


def make_directory(path: Path, *, is_durable: bool = True) -> None:
    """Make a directory whose name, and those of the parents that had to be made, are on disk too.

    If `is_durable` is false, the caller syncs them later.
    """
    with _writing(path):
        if path.is_dir():
            return
        make_directory(path.parent, is_durable=is_durable)
        path.mkdir(exist_ok=True)
        if is_durable:
            sync_directory(path.parent)


def names(directory: Path, *, directories: bool = False) -> list[str]:
    """Sorted names of the files (or of the directories) in `directory`; none when it does not exist."""
    with _reading(directory):
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() == directories)
        except FileNotFoundError:
            return []


def folders_and_files(directory: Path) -> tuple[list[str], list[str]]:
    """Sorted names of both; none when the folder does not exist."""
    with _reading(directory):
        try:
            with os.scandir(directory) as entries:
                kinds = sorted([(entry.name, entry.is_dir()) for entry in entries])
        except FileNotFoundError:
            return [], []
    return [name for name, is_folder in kinds if is_folder], [name for name, is_folder in kinds if not is_folder]


def exists(path: Path) -> bool:
    return path.exists()


def is_directory(path: Path) -> bool:
    return path.is_dir()


def check_writable(path: Path) -> None:
    """Check that a file is writable, or that files can be made in a folder. Raises StoreNotWritable."""
    with _writing(path):
        if not path.is_dir():
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        elif not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def file_size(path: Path) -> int:
    with _reading(path):
        return path.stat().st_size


def modified_ms(path: Path | str) -> int:
    """When the file was last written, in ms."""
    with _reading(path):
        return Path(path).stat().st_mtime_ns // 1_000_000


def read_file(path: Path) -> bytes | None:
    """The content; None when there is no such file."""
    with _reading(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def write_file(path: Path, data: bytes | Iterable[bytes], backup: Path | None = None, mode: int = 0o644) -> None:
    """Replace the whole file at once: after a crash there is either the old content or the new.

    `data` may come in pieces. If given, `backup` becomes a second name of the old file until the replacement. `mode` is
    that of the new file.
    """
    temporary = path.with_name(path.name + ".tmp")
    with _writing(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            os.fchmod(descriptor, mode)     # also if a crash left the temporary file
            for piece in (data,) if isinstance(data, bytes) else data:
                _write_all(descriptor, piece)
            os.fsync(descriptor)
            if backup is not None:
                _link(path, backup)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        sync_directory(path.parent)


def _link(path: Path, second: Path) -> None:
    """Give the file the second name `second`. If the file system does not support that, make a copy."""
    temporary = second.with_name(second.name + ".tmp")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(path)
    except FileNotFoundError:
        return
    except OSError:
        shutil.copyfile(path, temporary)
    temporary.replace(second)


def copy_part(path: Path | str, offset: int, size: int, target: Path) -> None:
    """Write these bytes of a file to a new one, on disk too. If the disk is full, the incomplete new file is
    removed."""
    with _writing(target):
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            for position in range(offset, offset + size, len(_ZEROS)):
                _write_all(descriptor, read_at(path, position, min(len(_ZEROS), offset + size - position)))
            os.fsync(descriptor)
        except OSError:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        sync_directory(target.parent)


def move_file(path: Path, target: Path) -> None:
    with _writing(path):
        path.rename(target)
        sync_directory(target.parent)
        sync_directory(path.parent)


def move_tree(path: Path, target: Path) -> None:
    """Move a file or folder to a place where it replaces one of its kind; a power cut may leave either, or neither."""
    with _writing(target):
        if target.is_dir():
            remove_tree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def append_to(path: Path, data: bytes, *, is_durable: bool) -> None:
    """Append all of `data` to an existing file, or nothing. Unless `is_durable`, a power cut may lose it. One thread at
    a time."""
    with _writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        size = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, data)
            if is_durable:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])


def link_target(path: Path) -> str:
    """The file to which a symbolic link finally leads; empty if `path` is not a link."""
    return os.path.realpath(path) if path.is_symlink() else ""


def remove_file(path: Path) -> None:
    """Remove a file. Of a symbolic link only the link is removed: its target may be in use elsewhere."""
    with _writing(path):
        path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    with _writing(path):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return


def sync_directory(path: Path) -> None:
    """Make created, renamed and removed names durable. Does nothing for a directory that no longer exists."""
    with _writing(path), suppress(FileNotFoundError), _opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


# --- files of a fixed size -------------------------------------------------------------------------------------------


def create_sized(path: Path, size: int, *, is_anew: bool = False) -> None:
    """Make sure that there is a file of exactly `size` bytes, without blocks where nothing was written.

    With `is_anew`, an existing file, which must not be mapped, loses its content.
    """
    with _writing(path), _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        if is_anew and os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, 0)
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)


def reserve(path: Path | str, offset: int, length: int) -> None:
    """Reserve blocks for these bytes of the file. Raises StoreNotWritable on a full disk, and keeps the blocks reserved
    so far."""
    with _writing(path), _opened(path) as descriptor:
        os.posix_fallocate(descriptor, offset, length)


def map_file(path: Path | str, size: int, is_sequential: bool) -> mmap:
    """Map a file, shared and writable. The mapping lives as long as a view of it, whatever happens to the file's name.

    Unless `is_sequential`, each page is read by itself: reading ahead would fill memory with zeros that were reserved
    and never written, megabytes for the first byte of a new file.
    """
    with _writing(path), _opened(path) as descriptor:
        mapping = _mapped(path, descriptor, size)
        if not is_sequential:
            mapping.madvise(MADV_RANDOM)
        return mapping


def _mapped(path: Path | str, descriptor: int, size: int) -> mmap:
    try:
        return mmap(descriptor, size)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise StoreNotWritable(f"{path} cannot be mapped ({error.strerror}), to be read or written: give the process "
                               "more address space (ulimit -v, vm.max_map_count), or the store smaller files"
                               ) from error


def sync_data(path: Path | str) -> None:
    """Bring the file's bytes to disk; other threads run meanwhile. A file that was deleted needs no sync."""
    with _writing(path), suppress(FileNotFoundError), _opened(path) as descriptor:
        os.fdatasync(descriptor)


def write_again(path: Path | str, begin: int, end: int) -> None:
    """Mark these bytes as not written, so that the next sync writes them again; they must not change meanwhile. After a
    failed sync, the system takes them for written."""
    with _writing(path), suppress(FileNotFoundError), _opened(path) as descriptor:
        while begin < end:
            data = os.pread(descriptor, min(len(_ZEROS), end - begin), begin)
            if not data:
                break
            begin += os.pwrite(descriptor, data, begin)


def sync_range(path: Path | str, mapping: mmap, begin: int, end: int) -> None:
    """Bring these bytes of the file at `path`, which `mapping` maps, to disk; other threads run meanwhile.

    Other dirty pages stay as they are, and pages made writable by `populate` stay so. This is one call without the
    interpreter lock, and without a descriptor: in a busy process each return to the lock may take long.
    """
    with _writing(path):
        start = page_floor(begin)
        if _libc.msync(_address(mapping) + start, end - start, _MS_SYNC) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def start_sync(path: Path | str) -> None:
    """Start writing the file's dirty pages, without waiting."""
    with _writing(path), suppress(FileNotFoundError), _opened(path) as descriptor:
        _libc.sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE)


def sync_filesystem(path: Path) -> None:
    """Bring everything on the file system of `path` to disk."""
    with _writing(path), _opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        if _libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read_at(path: Path | str, offset: int, size: int) -> bytes:
    """Read bytes of a file; fewer at the end of the file."""
    with _reading(path), _opened(path, os.O_RDONLY) as descriptor:
        _do_not_read_ahead(descriptor)
        return os.pread(descriptor, size, offset)


def read_into(path: Path | str, offset: int, buffer: memoryview) -> int:
    """Fill `buffer` from `offset` on; returns the number of bytes read, which is smaller only at the end of the file.

    Recovery uses this and not a map: then an unreadable block raises an error instead of a bus error.
    """
    with _reading(path), _opened(path, os.O_RDONLY) as descriptor:
        filled = 0
        while filled < len(buffer):
            count = os.preadv(descriptor, [buffer[filled:]], offset + filled)
            if count == 0:
                break
            filled += count
        return filled


def zero(path: Path | str, offset: int, size: int) -> int:
    """Set all bytes from `offset` to `size`, the file's end, to zero, on disk too; returns how many were not zero.

    The file's length does not change in between, so a crash leaves a file of the right size.
    """
    with _writing(path), _opened(path) as descriptor:
        _do_not_read_ahead(descriptor)
        stale = _count_stale(descriptor, offset, size)
        if stale:
            if _libc.fallocate(descriptor, _FALLOC_KEEP_SIZE_PUNCH_HOLE, offset, size - offset) != 0:
                _write_zeros(descriptor, offset, size)
            os.fsync(descriptor)
        return stale


def content_end(path: Path | str, offset: int, size: int) -> int:
    """The position after the last byte from `offset` to `size` that is not zero; `offset` when all are."""
    with _reading(path), _opened(path, os.O_RDONLY) as descriptor:
        _do_not_read_ahead(descriptor)
        return max(_find_content(descriptor, offset, size)[1], offset)


def _count_stale(descriptor: int, offset: int, size: int) -> int:
    first, last = _find_content(descriptor, offset, size)
    return last - first


def _find_content(descriptor: int, offset: int, size: int) -> tuple[int, int]:
    """The first byte that is not zero and the position after the last one; (-1, -1) when all are zero. Only blocks that
    the file has are read."""
    first = last = -1
    position = offset
    while position < size:
        try:
            position = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        data_end = min(os.lseek(descriptor, position, os.SEEK_HOLE), size)
        chunk = os.pread(descriptor, min(len(_ZEROS), data_end - position), position)
        if not chunk:
            break
        if chunk != _ZEROS[:len(chunk)]:
            head = len(chunk) - len(chunk.lstrip(b"\0"))
            first = position + head if first < 0 else first
            last = position + len(chunk.rstrip(b"\0"))
        position += len(chunk)
    return first, last


def _do_not_read_ahead(descriptor: int) -> None:
    """Disable reading ahead, for scattered reads of a few bytes: a sparse file would be read ahead as megabytes of
    zeros."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


def _write_zeros(descriptor: int, offset: int, size: int) -> None:
    while offset < size:
        offset += os.pwrite(descriptor, _ZEROS[:size - offset], offset)


# --- memory ----------------------------------------------------------------------------------------------------------


def populate(mapping: mmap, offset: int, length: int) -> None:
    """Fault the pages in for writing, in place of the thread that appends. Needs reserved blocks.

    Called through ctypes because that releases the interpreter lock, which `mmap.madvise` does not. Kernels before 5.14
    do not support the advice; then pages are faulted in one by one as they are written.
    """
    _libc.madvise(_address(mapping) + page_floor(offset), length + offset - page_floor(offset), _MADV_POPULATE_WRITE)


def release(mapping: mmap, offset: int, length: int) -> None:
    """Release pages that will hardly be read again; the page cache and the file keep their content."""
    _libc.madvise(_address(mapping) + offset, length, _MADV_DONTNEED)


def _address(mapping: mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


# --- the disk and the process ----------------------------------------------------------------------------------------


def free_bytes(path: Path | str) -> int:
    """The free bytes; -1 when unknown."""
    state = _file_system(path)
    return -1 if state is None else state.f_bavail * state.f_frsize


def _lacks_inodes(path: Path | str) -> bool:
    """Whether there are no inodes left. Some file systems create them on demand, and have no fixed number."""
    state = _file_system(path)
    return state is not None and state.f_files > 0 and not state.f_favail


def _file_system(path: Path | str) -> os.statvfs_result | None:
    for candidate in (Path(path), *Path(path).parents):
        with suppress(OSError):
            return os.statvfs(candidate)
    return None


def room(path: Path) -> tuple[int, int]:
    """The bytes that the user may use, and how many of them are free; bytes reserved for root count in neither."""
    with _reading(path):
        state = os.statvfs(path)
    used = state.f_blocks - state.f_bfree
    return (used + state.f_bavail) * state.f_frsize, state.f_bavail * state.f_frsize


def used_ratio(path: Path) -> float:
    """The used fraction of the space that the user may use; rounded up to whole percents as RocketMQ does."""
    total, free = room(path)
    return -(-(total - free) * 100 // total) / 100 if total else 1.0


def process_id() -> int:
    return os.getpid()


def boot_id() -> str:
    """Identifies the time since the machine was started; empty when unknown."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def raise_open_files_limit(wanted: int) -> int:
    """Raise the soft limit of open files towards `wanted`; returns the resulting limit. Each mapped file takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return target


# --- the lock --------------------------------------------------------------------------------------------------------

_held: set[tuple[int, int]] = set()
"""Device and inode of each lock file that this process holds."""


class FileLock:
    """An exclusive lock on byte 0 of a file, against other processes as in RocketMQ, and within this process.

    It ends with `release`, or when there is no reference to it: a store that was dropped keeps neither lock nor
    descriptor.
    """

    def __init__(self, path: Path) -> None:
        """Raises StoreLocked when the lock is taken."""
        # Closing any descriptor of a file releases the process's lock on it; therefore a second one is never opened.
        if path.exists() and _identity(path) in _held:
            raise StoreLocked(f"{path.parent} is open in this process already: close that store first")
        with _writing(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            holder = _lock_holder(self._descriptor)
            os.close(self._descriptor)
            raise StoreLocked(f"{path.parent} is in use by {holder}: stop that broker, or give this one another "
                              "storePathRootDir") from error
        self._path = path
        identity = _identity(self._descriptor)
        _held.add(identity)
        self._end = finalize(self, _let_go, self._descriptor, identity)
        self._end.atexit = False    # a process keeps its locks until it ends

    def write(self, text: bytes) -> None:
        if os.fstat(self._descriptor).st_size == 0:
            with _writing(self._path):
                os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        self._end()


def _let_go(descriptor: int, identity: tuple[int, int]) -> None:
    os.close(descriptor)
    _held.discard(identity)


def _identity(file: Path | int) -> tuple[int, int]:
    state = os.fstat(file) if isinstance(file, int) else file.stat()
    return state.st_dev, state.st_ino


def _lock_holder(descriptor: int) -> str:
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question)[:_FLOCK.size])
    return f"process {process}" if kind != fcntl.F_UNLCK and process > 0 else "another process"
