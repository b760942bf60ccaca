"""Changes the files of an archive: the lock, staging, the commit, the sweep.

A commit moves staged files to their final names, where they do not count yet; syncs the folders; and then links the
complete manifest to its name, which makes them count. After a killed job, the next one ends with the same files: it
writes them again under the same names, and removes files that no manifest names.

`step` is called with the name of each step before it is done. Jobs pass a function that does nothing; a test kills the
process there.
"""

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from regulus.errors import ArchiveFailed, ArchiveLocked, OptionError
from regulus.model.retention_rules import ARCHIVE_IDENTITY
from regulus.pipeline.archive.task import disk_errors
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import (
    LOCK,
    MANIFESTS,
    STAGING,
    ArchivedFile,
    Manifest,
    Range,
    RejectFile,
    manifest_path,
)

IDENTITY = "_identity"

Step: TypeAlias = Callable[[str], None]


class ArchiveLock:
    """The right to write an archive, held until the `with` ends or the process does.

    The file names the owner. Only the kernel knows whether it is locked, so a file left by a killed job does not count.
    """

    def __init__(self, archive: Path, owner: str) -> None:
        self._path = archive / LOCK
        self._owner = owner
        self._descriptor = -1

    def __enter__(self) -> "ArchiveLock":
        """Raises ArchiveLocked that names the owner, ArchiveFailed when the place cannot be written."""
        with disk_errors(self._path):
            _make_folder(self._path.parent)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(descriptor, 4096, 0).decode("utf-8", "replace").strip() or "an unnamed job"
            os.close(descriptor)
            raise ArchiveLocked(f"{self._path.parent} is being written by {owner}: wait for it, or stop it; what it "
                                "leaves is taken up by the next run") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{self._owner}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def staging_of(archive: Path, run: str) -> Path:
    return archive / STAGING / run


def commit(archive: Path, manifest: Manifest, moves: Sequence[tuple[str, str]], run: str, step: Step) -> None:
    """Commit one range. `moves` are the staged files and their names below the archive.

    Raises ArchiveFailed when the range already has a different manifest, or the disk fails.
    """
    path = archive / manifest_path(manifest.range)
    with disk_errors(archive):
        folders = {archive}
        for number, (staged, name) in enumerate(moves):
            step(f"move {number}")
            target = archive / name
            target.parent.mkdir(parents=True, exist_ok=True)
            Path(staged).replace(target)
            folders |= _folders_of(archive, target)
        for folder in sorted(folders):
            _sync_folder(folder)
        step("manifest")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = staging_of(archive, run) / f"{manifest.range.name}.json"
        draft.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(draft, archive_manifest.encode(manifest))
        try:
            # A link is made completely or not at all, and never replaces another file.
            path.hardlink_to(draft)
        except FileExistsError:
            if path.read_bytes() != archive_manifest.encode(manifest):
                raise ArchiveFailed(f"{path} is there already and says something else: two jobs archived one broker "
                                    "name from different logs; give each broker a name of its own") from None
        for folder in sorted(_folders_of(archive, path)):
            _sync_folder(folder)
    step("committed")


def identity_of(archive: Path) -> str:
    """The identity of an archive; empty when it has none yet. Raises ArchiveFailed when it cannot be read."""
    path = archive / IDENTITY
    with disk_errors(archive):
        try:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""
    if not ARCHIVE_IDENTITY.fullmatch(text):
        raise ArchiveFailed(f"{path} has no identity: it is one line of 32 hexadecimal digits, by which a broker knows "
                            "the archive that it trusts; bring it back from a backup")
    return text


def make_identity(archive: Path, run: str) -> str:
    """Give the archive its permanent identity. The caller holds the lock; no other run has the name `run`."""
    identity = uuid.uuid4().hex
    with disk_errors(archive):
        draft = staging_of(archive, run) / IDENTITY
        draft.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(draft, f"{identity}\n".encode())
        draft.replace(archive / IDENTITY)
        _sync_folder(archive)
    return identity


def sweep(archive: Path) -> list[str]:
    """Remove staging folders, and data and reject files that no manifest names. Returns paths below the archive.

    The caller holds the lock. Raises ArchiveFailed when manifests are lost, because their files are the only copy.
    """
    named = _named(archive)
    unnamed = [name for name in _present(archive) if name not in named]
    _check_leftovers(archive, unnamed)
    staging = archive / STAGING
    removed = [str(path.relative_to(archive)) for path in sorted(staging.glob("*"))]
    shutil.rmtree(staging, ignore_errors=True)
    for name in unnamed:
        (archive / name).unlink()
        removed.append(name)
    return removed


def _present(archive: Path) -> list[str]:
    """The paths of all data and reject files below the archive."""
    return sorted(str(path.relative_to(archive)) for pattern in ("messages/*/*.parquet", "_rejects/*.jsonl")
                  for path in archive.glob(pattern))


def _check_leftovers(archive: Path, unnamed: Iterable[str]) -> None:
    """Raises ArchiveFailed for unnamed files that a killed job cannot have left.

    A killed commit leaves files of a single range, after all others of its broker. Killed compaction and expiry leave
    files of ranges that they were joining, or that were the broker's oldest ones. Any other file had a manifest.
    """
    known: dict[str, list[Range]] = {}
    for part in archive_manifest.effective(archive_manifest.ranges(archive)):
        known.setdefault(archive_manifest.broker_part(part.broker_name), []).append(part)
    at_commit: dict[str, tuple[int, int]] = {}
    for name in unnamed:
        broker, start, end = archive_manifest.parts_of_name(name)
        parts = known.get(broker, ())
        if any(part.start < end and start < part.end for part in parts) or (parts and end <= parts[0].start):
            continue
        is_behind = not parts or start >= parts[-1].end
        if not is_behind or at_commit.setdefault(broker, (start, end)) != (start, end):
            raise ArchiveFailed(f"{archive / name} is in the archive, and no manifest names it, as one did: bring "
                                f"back the folder {MANIFESTS} from a backup, or move away the files if they are "
                                "not needed, because they would be removed like those that a killed run left")


def names_of(manifest: Manifest) -> set[str]:
    """The files that a manifest names."""
    return {file.path for file in manifest.files} | ({manifest.rejects.path} if manifest.rejects else set())


def _named(archive: Path) -> set[str]:
    """The files that the manifests name, superseded ones included."""
    named = set()
    for part in archive_manifest.ranges(archive):
        path = archive / manifest_path(part)
        named |= names_of(archive_manifest.decode(path.read_bytes(), str(path)))
    return named


def remove(archive: Path, parts: Iterable[Range], step: Step) -> list[str]:
    """Remove manifests, and then the files that no other one names. Returns the files' paths below the archive."""
    gone: set[str] = set()
    for part in parts:
        path = archive / manifest_path(part)
        gone |= names_of(archive_manifest.decode(path.read_bytes(), str(path)))
        step("unlink manifest")
        path.unlink()
        _sync_folder(path.parent)
    removed = []
    for name in sorted(gone - _named(archive)):
        step("unlink file")
        (archive / name).unlink(missing_ok=True)
        removed.append(name)
    return removed


def fault_of(archive: Path, file: ArchivedFile | RejectFile) -> str:
    """The fault of a file that a manifest names; empty for none."""
    path = archive / file.path
    if not path.exists():
        return f"{file.path} is missing"
    if path.stat().st_size != file.size or _sha256(path) != file.sha256:
        return f"{file.path} has other bytes than its manifest says"
    return ""


def verify(archive: Path, manifests: Iterable[Manifest]) -> list[str]:
    """The files that differ from their manifests, one line for each fault."""
    faults: list[str] = []
    for manifest in manifests:
        files: list[ArchivedFile | RejectFile] = [*manifest.files]
        if manifest.rejects is not None:
            files.append(manifest.rejects)
        faults += (fault for file in files if (fault := fault_of(archive, file)))
    return faults


def check_target(archive: Path) -> None:
    """Raises OptionError for a directory that holds anything but an archive."""
    if archive.is_dir() and any(archive.iterdir()) and not (archive / MANIFESTS).is_dir() and not (
            archive / LOCK).exists():
        raise OptionError(f"{archive} is not empty and not an archive: give an empty or new directory")


def owner_text(command: str) -> str:
    """The name of a job in the lock."""
    return f"{command} (process {os.getpid()} on {os.uname().nodename})"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(path: Path) -> None:
    """Make a folder and those above it, so that they survive a power cut."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _folders_of(archive: Path, path: Path) -> set[Path]:
    """The folders to sync for a file. A folder's own name is in the one above it, so that one is synced, too."""
    return {folder for folder in path.parents if folder.is_relative_to(archive)}


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
