"""The position at which an operator wants an intact log cut: the log of a slave that no longer matches its master's.

It is written to a file in the store's root before anything is cut, and the next start cuts: if that start is killed,
the one after it continues. When the cut is on disk, the file moves to the cut bytes, where it explains them; only then
is anything appended, which a second cut would remove.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.store import disk
from regulus.store.log_cut import CUTS_MAX, DIRECTORY
from regulus.store.mapped_file_queue import file_name

NAME = "regulusCut"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCut:
    begin: int
    """Physical offset of the first record that is cut."""
    end: int
    """The offset after the last one."""
    records: int
    reason: str


class WantedCutFile:
    def __init__(self, root: Path, log_directory: Path) -> None:
        self._path = root / NAME
        self._directory = log_directory.parent / DIRECTORY

    def load(self) -> WantedCut | None:
        """Raises StoreDamaged."""
        data = disk.read_file(self._path)
        if data is None:
            return None
        try:
            return WantedCut(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"{self._path} says where the log is to be cut, and cannot be read ({error}): remove "
                               "it, and run `regulus store resync` again") from error

    def save(self, cut: WantedCut) -> None:
        """Raises StoreNotWritable."""
        disk.write_file(self._path, json.dumps(asdict(cut), indent=1).encode())

    def carried_out(self, cut: WantedCut) -> None:
        """Raises StoreNotWritable."""
        disk.make_directory(self._directory)
        for number in range(1, CUTS_MAX + 1):
            target = self._directory / f"{file_name(cut.begin)}-{number}.json"
            if not disk.exists(target):
                disk.move_file(self._path, target)
                return
        raise StoreNotWritable(f"{self._directory} keeps {CUTS_MAX} cuts at {cut.begin} already: look at them and move "
                               "them away")
