"""The files of an archive as jobs change them: the lock, staging, the commit, the sweep.

A commit moves staged files to their final names, which do not count yet; syncs the folders; and then links the
manifest, whole, to its name, which makes them count. Whatever a killed job left, the next one ends with the same files:
it writes them anew under the same names, and sweeps what no manifest names.

`step` is called with the name of each step before it is done. Jobs pass one that does nothing; a test kills the process
there.
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

    The file tells who holds it; that it is held, the kernel knows, so what a killed job leaves behind does not count.
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
    """Make one range count. `moves` are the staged files and their names below the archive.

    Raises ArchiveFailed when there is another manifest of the range already, or the disk refuses.
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
            # A link is made whole or not at all, and never over another file.
            path.hardlink_to(draft)
        except FileExistsError:
            if path.read_bytes() != archive_manifest.encode(manifest):
                raise ArchiveFailed(f"{path} is there already and says something else: two jobs archived one broker "
                                    "name from different logs; give each broker a name of its own") from None
        for folder in sorted(_folders_of(archive, path)):
            _sync_folder(folder)
    step("committed")


def identity_of(archive: Path) -> str:
    """Which archive this is; empty when it has no name yet. Raises ArchiveFailed for one that cannot be read."""
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
    """Give the archive the name that it keeps. The caller holds the lock; `run` is the one of all runs of this name."""
    identity = uuid.uuid4().hex
    with disk_errors(archive):
        draft = staging_of(archive, run) / IDENTITY
        draft.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(draft, f"{identity}\n".encode())
        draft.replace(archive / IDENTITY)
        _sync_folder(archive)
    return identity


def sweep(archive: Path) -> list[str]:
    """Remove staging folders and all data and reject files that no manifest names; their paths below the archive.

    The caller holds the lock.
    """
    staging = archive / STAGING
    removed = [str(path.relative_to(archive)) for path in sorted(staging.glob("*"))]
    shutil.rmtree(staging, ignore_errors=True)
    named = _named(archive)
    for path in sorted([*archive.glob("messages/*/*.parquet"), *archive.glob("_rejects/*.jsonl")]):
        name = str(path.relative_to(archive))
        if name not in named:
            path.unlink()
            removed.append(name)
    return removed


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
    """Remove manifests, and then the files that none of the others names; the files' paths below the archive."""
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


def verify(archive: Path, manifests: Iterable[Manifest]) -> list[str]:
    """Which files differ from their manifests, one line for each fault."""
    faults = []
    for manifest in manifests:
        files: list[ArchivedFile | RejectFile] = [*manifest.files]
        if manifest.rejects is not None:
            files.append(manifest.rejects)
        for file in files:
            path = archive / file.path
            if not path.exists():
                faults.append(f"{file.path} is missing")
            elif path.stat().st_size != file.size or _sha256(path) != file.sha256:
                faults.append(f"{file.path} has other bytes than its manifest says")
    return faults


def check_target(archive: Path) -> None:
    """Raises OptionError for a directory that holds anything but an archive."""
    if archive.is_dir() and any(archive.iterdir()) and not (archive / MANIFESTS).is_dir() and not (
            archive / LOCK).exists():
        raise OptionError(f"{archive} is not empty and no archive: give an empty or new directory")


def owner_text(command: str) -> str:
    """How a job names itself in the lock."""
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
    """With those above it; a power cut takes none of them."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _folders_of(archive: Path, path: Path) -> set[Path]:
    """The folders by which a file is found. The name of each is kept by the one above it, and not by itself."""
    return {folder for folder in path.parents if folder.is_relative_to(archive)}


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
