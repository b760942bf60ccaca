"""The layout of an archive: its files, and which of them count. This is its only description.

    <archive>/messages/dt=<YYYY-MM-DD>/<from>-<to>@<broker>@<topic>.parquet  rows of one broker, topic and UTC day
    <archive>/_manifest/<broker>/<from>-<to>.json                            what the range consists of
    <archive>/_rejects/<broker>-<from>-<to>.jsonl                            records of the range that could not be rows
    <archive>/_staging/<run>/...                                             files of a running or killed run
    <archive>/_lock                                                          held by the one job that may write

A range is [from, to) in bytes of the broker's commit log, written with 20 digits; topic and broker are percent-encoded,
and a long one is cut and has a digest. Other programs read the folder `messages`: its only key, `dt`, is not a column
of the files, and a file's name begins with a digit, because they skip names that begin with a dot or an underscore.

The same range gives the same names and the same bytes. A file counts only when a manifest names it. A manifest is
written last, in one step, and only if there is none yet. A manifest whose range is within that of another one of the
broker is superseded by it and does not count, so that compaction replaces many by one in a single step.

A manifest is one line of JSON with sorted keys:

    v            1
    broker       name
    from, to     the range
    records      stored records in the range, those included that no consumer sees
    rows         rows of its files together
    hidden       records without a place in a queue: halves and rollbacks of other brokers' transactions
    rejected     damaged records or stretches; `rejects` has the file that keeps them, or null
    unreadable   how many of these are stretches that are not records, or records whose topic is not text or whose queue
                 offset does not fit, so that they do not say which messages they were
    unplaced     how many of the unreadable ones the consume queues do not explain either, or not as a whole
    queues       topic -> queue -> stretches [[first, next, place, is rejected], ...] of queue offsets in the order of
                 the log; the record of `first` is at byte `place`. Rejected messages have stretches of their own, whose
                 last value is 1 instead of 0. A stretch that begins below the end of the one before is of a topic that
                 was deleted and created again
    files        path, topic, day, rows, bytes, sha256, log_bytes, and queues: queue ->
                 [first, next, rows, first store time, last store time]
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from regulus.errors import OptionError, StoreDamaged, StoreNewer
from regulus.model.local_path import address_fault

MESSAGES = "messages"
MANIFESTS = "_manifest"
REJECTS = "_rejects"
STAGING = "_staging"
LOCK = "_lock"
VERSION = 1
_FILE_NAME = re.compile(r"(?P<start>[0-9]+)-(?P<end>[0-9]+)@(?P<broker>[^@]*)@[^@]*")
_REJECTS_NAME = re.compile(r"(?P<broker>[^@]*)-(?P<start>[0-9]+)-(?P<end>[0-9]+)")
NAME_PART_MAX = 90
"""Characters of a topic, and of a broker, in the name of a file."""

TopicQueue: TypeAlias = tuple[str, int]
"""Topic and queue id of one broker."""


class Range(NamedTuple):
    """Bytes [start, end) of a broker's commit log."""

    broker_name: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return f"{self.start:020d}-{self.end:020d}"

    @property
    def name(self) -> str:
        return f"{quote(self.broker_name, safe='')}-{self.text}"

    @property
    def size(self) -> int:
        return self.end - self.start

    def contains(self, other: "Range") -> bool:
        return self.broker_name == other.broker_name and self.start <= other.start and other.end <= self.end


class Stretch(NamedTuple):
    """Consecutive queue offsets [first, next) of one queue, all archived or all rejected.

    `place` is the physical offset of the first record.
    """

    first: int
    next: int
    place: int
    is_rejected: bool = False


class QueueFacts(NamedTuple):
    """The part of one queue in one file: offsets within [first, next), store times in ms."""

    first: int
    next: int
    rows: int
    time_first: int
    time_last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    path: str
    """The path below the archive's folder."""
    topic: str
    day: str
    rows: int
    size: int
    sha256: str
    log_bytes: int
    """Bytes of its records in the log."""
    queues: Mapping[int, QueueFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectFile:
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    range: Range
    records: int
    rows: int
    hidden: int
    rejected: int
    queues: Mapping[TopicQueue, tuple[Stretch, ...]]
    files: tuple[ArchivedFile, ...]
    rejects: RejectFile | None = None
    unreadable: int = 0
    unplaced: int = 0


# --- names -----------------------------------------------------------------------------------------------------------


def data_path(part: Range, topic: str, day: str) -> str:
    return f"{MESSAGES}/dt={day}/{part.text}@{_name_part(part.broker_name)}@{_name_part(topic)}.parquet"


def broker_part(broker_name: str) -> str:
    """The part for this broker in the names of its files."""
    return _name_part(broker_name)


def parts_of_name(path: str) -> tuple[str, int, int]:
    """`broker_part` and the range of a data or reject file, by its name; ("", 0, 0) for another file's."""
    stem = path.rpartition("/")[2].rpartition(".")[0]
    found = _FILE_NAME.fullmatch(stem) or _REJECTS_NAME.fullmatch(stem)
    if found is None:
        return "", 0, 0
    return _name_part(unquote(found["broker"])) if "@" not in stem else found["broker"], int(found["start"]), int(
        found["end"])


def _name_part(name: str) -> str:
    """A topic or broker as part of a file's name, whose length the system limits."""
    quoted = quote(name, safe="")
    if len(quoted) <= NAME_PART_MAX:
        return quoted
    return f"{quoted[:NAME_PART_MAX - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def manifest_path(part: Range) -> str:
    return f"{MANIFESTS}/{quote(part.broker_name, safe='')}/{part.text}.json"


def rejects_path(part: Range) -> str:
    return f"{REJECTS}/{part.name}.jsonl"


# --- bytes -----------------------------------------------------------------------------------------------------------


def encode(manifest: Manifest) -> bytes:
    """The manifest as one line of JSON; equal manifests give equal bytes."""
    queues: dict[str, dict[str, Any]] = {}
    for (topic, queue_id), stretches in sorted(manifest.queues.items()):
        queues.setdefault(topic, {})[str(queue_id)] = [(*each[:3], int(each.is_rejected)) for each in stretches]
    document = {
        "v": VERSION, "broker": manifest.range.broker_name, "from": manifest.range.start, "to": manifest.range.end,
        "records": manifest.records, "rows": manifest.rows, "hidden": manifest.hidden, "rejected": manifest.rejected,
        "unreadable": manifest.unreadable, "unplaced": manifest.unplaced, "queues": queues,
        "files": [_file_document(file) for file in manifest.files],
        "rejects": manifest.rejects and {"path": manifest.rejects.path, "bytes": manifest.rejects.size,
                                         "sha256": manifest.rejects.sha256}}
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _file_document(file: ArchivedFile) -> dict[str, Any]:
    return {"path": file.path, "topic": file.topic, "day": file.day, "rows": file.rows, "bytes": file.size,
            "sha256": file.sha256, "log_bytes": file.log_bytes,
            "queues": {str(queue_id): facts for queue_id, facts in sorted(file.queues.items())}}


def decode(data: bytes, place: str) -> Manifest:
    """Parse a manifest. Raises StoreDamaged that names `place`, or StoreNewer for a later version."""
    try:
        document = json.loads(data)
        if document["v"] != VERSION:
            raise StoreNewer(f"{place} is a manifest of version {document['v']}, this version knows {VERSION}: use the "
                             "version of Regulus that wrote it")
        rejects = document["rejects"]
        return Manifest(
            range=Range(document["broker"], document["from"], document["to"]), records=document["records"],
            rows=document["rows"], hidden=document["hidden"], rejected=document["rejected"],
            unreadable=document["unreadable"], unplaced=document["unplaced"],
            queues={(topic, int(queue_id)): tuple(Stretch(first, behind, place, bool(flag))
                                                for first, behind, place, flag in stretches)
                    for topic, queues in document["queues"].items() for queue_id, stretches in queues.items()},
            files=tuple(_file(file) for file in document["files"]),
            rejects=rejects and RejectFile(path=rejects["path"], size=rejects["bytes"], sha256=rejects["sha256"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{place} is not a manifest ({type(error).__name__}: {error}): bring it back from a backup, "
                           "or, if its range is the last of its broker, remove it and archive that again while the log "
                           "has it") from error


def _file(document: dict[str, Any]) -> ArchivedFile:
    return ArchivedFile(
        path=document["path"], topic=document["topic"], day=document["day"], rows=document["rows"],
        size=document["bytes"], sha256=document["sha256"], log_bytes=document["log_bytes"],
        queues={int(queue_id): QueueFacts(*facts) for queue_id, facts in document["queues"].items()})


def joined(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The stretches of one queue, in the order of the log; one that continues the one before is joined with it."""
    found: list[Stretch] = []
    for each in stretches:
        if found and (found[-1].next, found[-1].is_rejected) == (each.first, each.is_rejected):
            found[-1] = found[-1]._replace(next=each.next)
        else:
            found.append(each)
    return tuple(found)


# --- what counts -----------------------------------------------------------------------------------------------------


def ranges(archive: Path) -> list[Range]:
    """The ranges of all manifests, superseded ones included, sorted by broker and start; read from the names alone.

    Raises PermissionError when they cannot be listed; `glob` would then find none.
    """
    home, found = archive / MANIFESTS, []
    brokers = [directory for directory in home.iterdir() if directory.is_dir()] if home.is_dir() else []
    for path in (path for directory in brokers for path in directory.iterdir() if path.suffix == ".json"):
        start, dash, end = path.stem.partition("-")
        if dash and start.isdecimal() and end.isdecimal():
            found.append(Range(unquote(path.parent.name), int(start), int(end)))
    return sorted(found)


def effective(found: Iterable[Range]) -> list[Range]:
    """The ranges that count, sorted by broker and start."""
    kept: list[Range] = []
    for part in sorted(found, key=lambda part: (part.broker_name, part.start, -part.end)):
        if not (kept and kept[-1].contains(part)):
            kept.append(part)
    return kept


def place(text: str) -> Path:
    """The archive's folder. Raises OptionError for a text that is not a path of this machine."""
    if fault := address_fault(text):
        raise OptionError(f"the archive {fault}")
    return Path(text)


def load(archive: Path, known: Iterable[Manifest] = ()) -> list[Manifest]:
    """The manifests that count, sorted by broker and start. Raises OptionError when there is no archive.

    If one is replaced while it is being read, they are listed again. A manifest never changes, so those that are
    `known` are not read again.
    """
    if not (archive / MANIFESTS).is_dir():
        raise OptionError(f"option 'archivePath' is {str(archive)!r}, which has no directory {MANIFESTS!r}: it must be "
                          "the target of `regulus archive run`, on the machine where Spark runs")
    read = {manifest.range: manifest for manifest in known}
    while True:
        manifests = []
        try:
            for part in effective(ranges(archive)):
                path = archive / manifest_path(part)
                manifests.append(read.get(part) or decode(path.read_bytes(), str(path)))
        except FileNotFoundError:
            continue
        return manifests
