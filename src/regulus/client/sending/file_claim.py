"""A claim on a file that one holder has at a time, among processes and within one, and that ends with its process."""

import fcntl
import os
from pathlib import Path
from weakref import WeakSet


class FileClaim:
    """A lock on a file of its own, beside the claimed one: `<name>.claim`, which stays when the claim ends."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.claim")
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Whether it is ours now, or was already. Raises OSError."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        _held.add(self)
        return True

    def release(self) -> None:
        """Nothing is done without a claim."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)    # a child that is just being forked has it open, too
            self.forget()

    def forget(self) -> None:
        """Close what a forked child has of its parent's claim, which stays the parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


_held: "WeakSet[FileClaim]" = WeakSet()


def _leave_to_the_parent() -> None:
    """A forked child has its parent's descriptor, and with it a claim that would outlive the parent."""
    for claim in list(_held):
        claim.forget()


os.register_at_fork(after_in_child=_leave_to_the_parent)
