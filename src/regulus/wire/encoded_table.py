"""A JSON object with many members, each kept encoded, for documents that are written often and change little.

A change costs the encoding of its member and a copy of the list of its neighbours. The document is a list of such
lists, which later changes do not modify, so that building it is cheap even with a hundred thousand members: a worker
may join or write them while the owner continues. The text is, byte for byte, what `fastjson.dumps_pretty` makes of the
same values.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from regulus.model.happenings import Happenings
from regulus.wire import fastjson

BLOCK_SIZE_MAX = 256
"""Members of one list. A change copies this many, and a writer joins this many at a time."""

Pieces = list[tuple[bytes, ...]]
"""A text in parts, grouped in tuples."""
LatePieces = Iterable[tuple[bytes, ...]]
"""Like Pieces, but made during iteration, which is possible once."""

V = TypeVar("V")


class EncodedTable(Generic[V]):
    """One member of a document, one level deep in it; the document supplies its name.

    Code that changes `values` adds the key to `changed`; `write` makes the text of a value, two levels deep. When a
    `noun` is given, values that are first encoded, changed or removed are noted in `happenings`; values that come with
    a whole new table are not.
    """

    def __init__(self, values: Mapping[str, V], write: Callable[[V], str], noun: str = "") -> None:
        self.happenings = Happenings()
        self._noun = noun
        self.changed: dict[str, None] = {}
        self._write = write
        self._firsts: list[str] = []            # the first key of each block
        self._keys: list[list[str]] = []        # for each block: quoted and in order, as they are written
        self._blocks: Pieces = []               # for each block: its members, each with the comma before it
        self.replace(values)

    def replace(self, values: Mapping[str, V]) -> None:
        """Replace the table; all of it must be encoded again."""
        self._values = values
        keys = sorted(map(fastjson.quote, values))
        size = BLOCK_SIZE_MAX // 2
        self._keys = [keys[first:first + size] for first in range(0, len(keys), size)]
        self._firsts = [block[0] for block in self._keys]
        self._blocks = [(b"",) * len(block) for block in self._keys]
        self.changed.clear()
        self.changed.update(dict.fromkeys(values))

    def encode(self, count_max: int) -> None:
        """Encode at most `count_max` of the changed members."""
        changed = self.changed
        for _ in range(min(count_max, len(changed))):
            self._encode(changed.popitem()[0])

    def pieces(self) -> Pieces:
        """The whole table; all changes must be encoded first."""
        self.encode(len(self.changed))
        if not self._blocks:
            return [(b"{}",)]
        first, *others = self._blocks[0]
        return [(b"{", first[1:], *others), *self._blocks[1:], (b"\n\t}",)]

    def _encode(self, key: str) -> None:
        quoted = fastjson.quote(key)
        number = max(0, bisect_right(self._firsts, quoted) - 1)
        keys = self._keys[number] if self._keys else []
        place = bisect_left(keys, quoted)
        is_known = place < len(keys) and keys[place] == quoted
        value = self._values.get(key)
        if self._noun:
            self._note(key, number, place, is_known)
        if value is not None:
            member = f",\n\t\t{quoted}:{self._write(value)}".encode("utf-8", "replace")
            self._put(number, place, quoted, member, is_known)
        elif is_known:
            self._remove(number, place)

    def _note(self, key: str, number: int, place: int, is_known: bool) -> None:
        if key not in self._values:
            if is_known:
                self.happenings.note(f"{self._noun} deleted", key)
        elif not is_known:
            self.happenings.note(f"{self._noun} made", key)
        elif self._blocks[number][place]:
            self.happenings.note(f"{self._noun} changed", key)

    def _put(self, number: int, place: int, quoted: str, member: bytes, is_known: bool) -> None:
        if not self._blocks:
            self._keys.append([])
            self._blocks.append(())
            self._firsts.append(quoted)
        block = self._blocks[number]
        self._blocks[number] = (*block[:place], member, *block[place + is_known:])
        if not is_known:
            self._keys[number].insert(place, quoted)
            self._firsts[number] = self._keys[number][0]
            if len(self._keys[number]) > BLOCK_SIZE_MAX:
                self._split(number)

    def _remove(self, number: int, place: int) -> None:
        block = self._blocks[number]
        self._blocks[number] = (*block[:place], *block[place + 1:])
        del self._keys[number][place]
        if self._keys[number]:
            self._firsts[number] = self._keys[number][0]
        else:
            del self._firsts[number], self._keys[number], self._blocks[number]

    def _split(self, number: int) -> None:
        half = BLOCK_SIZE_MAX // 2
        keys, block = self._keys[number], self._blocks[number]
        self._keys[number:number + 1] = [keys[:half], keys[half:]]
        self._blocks[number:number + 1] = [block[:half], block[half:]]
        self._firsts.insert(number + 1, keys[half])


def document(members: Mapping[str, Any]) -> Pieces:
    """A whole document: an EncodedTable is used as it is, None is left out, and everything else is encoded now."""
    pieces: Pieces = []
    for name, value in sorted(members.items()):
        if value is None:
            continue
        pieces.append((f"{',' if pieces else '{'}\n\t{fastjson.quote(name)}:".encode(),))
        if isinstance(value, EncodedTable):
            pieces += value.pieces()
        else:
            pieces.append((fastjson.dumps_pretty(value, 1).encode("utf-8", "replace"),))
    return [*pieces, (b"\n}",)]


def joined(pieces: LatePieces) -> Iterable[bytes]:
    """The text one part at a time, so that no thread holds the interpreter lock longer than it takes to copy one
    part."""
    return map(b"".join, pieces)


def text(pieces: LatePieces) -> str:
    return b"".join(joined(pieces)).decode()


def compact(pieces: Pieces) -> Iterable[bytes]:
    """The document in the form of `fastjson.dumps`; this works because strings contain neither line feeds nor tabs."""
    return [part.translate(None, b"\n\t") for part in joined(pieces)]
