"""One file of a fixed size that is read and written through memory.

Three positions, in this order: `flushed_position` <= `wrote_position` <= `reserved_position`. Bytes are written only
below `reserved_position`, where the file certainly has blocks: a write to a hole on a full disk would end the process.

The file is mapped when it is first used, and may be unmapped when it is not in use. Slices that were returned keep
their mapping alive.
"""

from mmap import mmap
from weakref import ref

from regulus.store import disk


class MappedFilePool:
    """Limits how many files are mapped at a time. Roughly the least recently used one is unmapped first.

    A store has one consume queue for each topic and queue id, easily thousands, and most of them are idle. Mapping
    costs no memory for untouched pages, but a descriptor and an entry in the kernel's table for each file, and both are
    limited.

    Only the thread that appends and reads adds files, because making room unmaps other files, which that thread may be
    about to use. Files that were unmapped or deleted since are no longer in the pool.
    """

    def __init__(self, files_max: int) -> None:
        self.files_max = files_max
        self._files: dict[MappedFile, None] = {}

    def __len__(self) -> int:
        """The number of mapped files."""
        return len(self._files)

    def add(self, file: "MappedFile") -> None:
        self._files[file] = None
        if len(self._files) > self.files_max:
            self._make_room()

    def drop(self, file: "MappedFile") -> None:
        """Note that the file is no longer mapped."""
        self._files.pop(file, None)

    def unmap_all(self) -> None:
        """Unmap all files at the end of their use; slices that were returned stay valid."""
        for file in tuple(self._files):
            file.unmap()

    def _make_room(self) -> None:
        """Unmap at least an eighth of the files: those not used since the last time, or else the first ones."""
        kept = []
        unmapped = 0
        wanted = self.files_max // 8 + 1
        *others, _ = self._files
        for file in others:
            if file.is_used or unmapped >= wanted:
                file.is_used = False
                kept.append(file)
            else:
                file.unmap()
                unmapped += 1
        for file in kept[:max(wanted - unmapped, 0)]:
            file.unmap()


class MappedFile:
    def __init__(self, path: str, start: int, size: int, wrote_position: int, pool: MappedFilePool) -> None:
        self.path = path
        self.start = start
        """Offset of the first byte within the sequence of files."""
        self.size = size
        self.wrote_position = wrote_position
        self.flushed_position = wrote_position
        self.reserved_position = wrote_position & -4096
        self.released_position = 0
        self.is_doubtful = False
        """Whether the last sync failed: the system considers unwritten pages as written."""
        self.is_new = False
        """Whether the file's name may not be durable yet."""
        self.mapping: mmap | None = None
        self.cells: memoryview | None = None
        self.view: memoryview | None = None
        self.is_used = False
        self.is_sequential = False
        """Whether reading ahead is useful; set before the file is mapped."""
        self._pool = pool
        self._former: list[ref[mmap]] = []

    @property
    def is_held(self) -> bool:
        """Whether there is still a reference to a slice that was returned before the file was last unmapped."""
        for former in self._former:     # noqa: SIM110 - this module is compiled, where a generator costs a closure
            if former() is not None:
                return True
        return False

    def map(self) -> None:
        """Set `mapping`, `cells` (to write and read single bytes) and `view` (to make slices). Raises StoreError."""
        if self.mapping is None:
            self.map_ahead()
            self.take_up()
        self.is_used = True

    def map_ahead(self) -> None:
        """Map the file in another thread; it is not used before `take_up`. Raises StoreError."""
        mapping = disk.map_file(self.path, self.size, self.is_sequential)
        self.cells = memoryview(mapping)
        self.view = memoryview(mapping).toreadonly()
        self.mapping = mapping

    def take_up(self) -> None:
        """Count a file that was mapped ahead in the pool."""
        self._pool.add(self)

    def unmap(self) -> None:
        mapping = self.mapping
        if mapping is not None:
            self._former = [*[former for former in self._former if former() is not None], ref(mapping)]
            self._pool.drop(self)
        self.mapping = None
        self.cells = None
        self.view = None
        self.released_position = 0

    def slice(self, position: int, size: int) -> memoryview:
        """A read-only slice; valid as long as it is referenced, even when the file is deleted."""
        if self.mapping is None:
            self.map()
        self.is_used = True
        view = self.view
        assert view is not None
        return view[position:position + size]

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Raises StoreNotWritable when the disk has no room."""
        end = position + len(data)
        if end > self.reserved_position:
            self.reserve(end)
        if self.mapping is None:
            self.map()
        self.is_used = True
        mapping = self.mapping
        assert mapping is not None
        mapping[position:end] = data

    def reserve(self, end: int) -> None:
        """Reserve blocks for all bytes up to `end`, within the file. Raises StoreNotWritable."""
        end = min(disk.page_ceiling(end), self.size)
        if end > self.reserved_position:
            disk.reserve(self.path, self.reserved_position, end - self.reserved_position)
            # Another thread may have reserved more meanwhile.
            self.reserved_position = max(end, self.reserved_position)

    def flush(self) -> None:
        """Bring what is written so far to disk. Another thread may append at the same time. Raises StoreNotWritable;
        the next flush then writes everything again."""
        wrote = self.wrote_position
        if wrote > self.flushed_position:
            self._sync(self.flushed_position, wrote)
            self.flushed_position = wrote

    def flush_whole(self) -> None:
        """Flush the whole file, whose writes are spread over it and have ended."""
        wrote = self.wrote_position
        if wrote > self.flushed_position:
            self._sync(0, self.size)
            self.flushed_position = wrote

    def _sync(self, begin: int, end: int) -> None:
        if self.is_doubtful:
            disk.write_again(self.path, begin, end)
        self.is_doubtful = True
        disk.sync_data(self.path)
        self.is_doubtful = False

    def flush_appended(self) -> None:
        """Flush only the appended range, because bytes before and after it are never changed."""
        wrote = self.wrote_position
        mapping = self.mapping
        if mapping is None:
            self.flush()
        elif wrote > self.flushed_position:
            disk.sync_range(self.path, mapping, self.flushed_position, wrote)
            self.flushed_position = wrote
