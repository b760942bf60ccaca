"""The file `regulusQueues`: the consume queues and index files that exist, as of one position in the log.

Text, numbers in decimal, one blank between fields:

    regulusQueues 1 POSITION START SIZE TIME CHECKSUM CRC
                                   all records before POSITION have their units on disk; the next four are those of the
                                   SyncedMark of the last record before it; CRC-32 of the lines up to `end`
    log FIRST                      where the log begins
    index NAME END                 an index file, and the physical offset of its newest entry
    queue ID FIRST BEHIND TOPIC    a consume queue, its first queue offset and the one after its last unit on disk
    faulty ID TOPIC                one of the queues above, in which a fault was found
    born ID OFFSET TOPIC           a queue of that name was deleted when the log ended at OFFSET: records before it do
                                   not belong to a later queue of that name
    end
    gone ID TOPIC                  added later, one by one: the queue was deleted, and nothing is known of its topic now
    born ID OFFSET TOPIC           as above, in the same place
    log FIRST                      likewise: the log begins later, because its first file was deleted

From it a start learns where each queue ends without opening thousands of files, and sees what is missing. A store reads
it only if its log has the marked record; RocketMQ does not know the file and ignores it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

from regulus.errors import CorruptRecord
from regulus.model.java_numbers import LONG_MAX
from regulus.record.synced_mark import SyncedMark

FILE_NAME = "regulusQueues"
_NAME = f"{FILE_NAME} 1"
_END = "\nend\n"
_HEAD_FIELDS = 6
UNKNOWN_START = 0x7FFFFFFFFFFFFFFF
"""Where the log began is not known, because the table was written before it had a line for it."""


@dataclass(slots=True)
class QueueTable:
    position: int
    mark: SyncedMark
    index: dict[str, int] = field(default_factory=dict)
    queues: dict[str, dict[int, str]] = field(default_factory=dict)
    """`FIRST BEHIND` of each topic and queue id, parsed by `bounds`: most are never needed."""
    faulty: list[tuple[str, int]] = field(default_factory=list)
    births: dict[tuple[str, int], int] = field(default_factory=dict)
    log_start: int = UNKNOWN_START


def bounds(text: str) -> tuple[int, int]:
    first, _, behind = text.partition(" ")
    return int(first), int(behind)


def encode(position: int, mark: SyncedMark, log_start: int, index: Iterable[tuple[str, int]],
           queues: Iterable[tuple[str, int, int, int]], faulty: Iterable[tuple[str, int]] = (),
           births: Iterable[tuple[str, int, int]] = ()) -> bytes:
    """Encode the table. `queues`: topic, queue id, first queue offset, the offset after the last; `births`: topic,
    queue id, end of the log."""
    lines = [f"log {log_start}"]
    lines += [f"index {name} {end}" for name, end in index]
    lines += [f"queue {queue_id} {first} {behind} {topic}" for topic, queue_id, first, behind in queues]
    lines += [f"faulty {queue_id} {topic}" for topic, queue_id in faulty]
    lines += [f"born {queue_id} {physical_offset} {topic}" for topic, queue_id, physical_offset in births]
    body = "".join(f"\n{line}" for line in lines).encode()
    head = f"{_NAME} {position} {' '.join(map(str, mark))} {crc32(body)}"
    return head.encode() + body + _END.encode()


def encode_gone(topic: str, queue_id: int, log_end: int) -> bytes:
    return f"gone {queue_id} {topic}\nborn {queue_id} {log_end} {topic}\n".encode()


def encode_log_start(log_start: int) -> bytes:
    return f"log {log_start}\n".encode()


def decode(data: bytes) -> QueueTable:
    """Decode a table. Raises CorruptRecord when it is not whole. An incomplete line after `end` is ignored."""
    whole, found, gone = data.partition(_END.encode())
    head, line_end, body = whole.partition(b"\n")
    fields = head.decode("utf-8", "replace").removeprefix(_NAME).split()
    if not found or not head.startswith(_NAME.encode()) or len(fields) != _HEAD_FIELDS \
            or not all(map(_is_number, fields)) or int(fields[-1]) != crc32(line_end + body):
        raise CorruptRecord("no table of consume queues")
    position, *mark, _ = map(int, fields)
    table = QueueTable(position, SyncedMark._make(mark))
    for line in body.decode().split("\n"):
        kind, _, rest = line.partition(" ")
        if kind == "queue":
            queue_id, first, behind, topic = rest.split(" ", 3)
            table.queues.setdefault(topic, {})[int(queue_id)] = f"{first} {behind}"
        elif kind == "faulty":
            queue_id, topic = rest.split(" ", 1)
            table.faulty.append((topic, int(queue_id)))
        elif kind == "born":
            _add_birth(table, rest)
        elif kind == "index":
            name, end = rest.split(" ")
            table.index[name] = int(end)
        elif kind == "log":
            table.log_start = int(rest)
    for line in gone.decode("utf-8", "replace").split("\n")[:-1]:
        kind, _, rest = line.partition(" ")
        if kind == "gone":
            # Queues of that topic may have been created again since, which no line records.
            table.queues.pop(rest.partition(" ")[2], None)
        elif kind == "born":
            _add_birth(table, rest)
        elif kind == "log" and _is_number(rest):
            table.log_start = int(rest)
    return table


def _is_number(text: str) -> bool:
    """Whether it is a number of at most 64 bits. Other scripts have digits too, and some of them make no number."""
    return text.isascii() and text.isdigit() and int(text) <= LONG_MAX


def _add_birth(table: QueueTable, rest: str) -> None:
    """Lines after `end` have no checksum: an invalid one is ignored."""
    queue_id, _, rest = rest.partition(" ")
    physical_offset, _, topic = rest.partition(" ")
    if _is_number(queue_id) and _is_number(physical_offset):
        table.births[topic, int(queue_id)] = int(physical_offset)
